package queue_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"

	"sluice.dev/sluice/pkg/queue"
)

// wire notes the messages on NATS about the work of a test, one word for each.
type wire struct {
	mu    sync.Mutex
	words []string
	added chan struct{}
}

func listen(w *world) *wire {
	w.Helper()
	nc, err := nats.Connect(w.server.URL(), nats.UserInfo(w.opts.User, w.opts.Password))
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(nc.Close)
	heard := &wire{added: make(chan struct{}, 1000)}
	if _, err := nc.Subscribe(">", func(m *nats.Msg) {
		if word := wordFor(m); word != "" {
			heard.mu.Lock()
			heard.words = append(heard.words, word)
			heard.mu.Unlock()
			heard.added <- struct{}{}
		}
	}); err != nil {
		w.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		w.Fatal(err)
	}
	return heard
}

func wordFor(m *nats.Msg) string {
	switch {
	case strings.HasPrefix(m.Subject, "$JS.ACK."+queue.StreamWork+"."):
		word, _, _ := strings.Cut(string(m.Data), " ")
		if word == "" {
			word = "+ACK"
		}
		return word
	case strings.HasPrefix(m.Subject, "$KV."+queue.BucketLease+".") && m.Header.Get("KV-Operation") == "DEL":
		return "release"
	case strings.HasPrefix(m.Subject, "$KV."+queue.BucketLease+".") && strings.HasPrefix(string(m.Data), "left by "):
		return "leave"
	case strings.HasPrefix(m.Subject, "$KV."+queue.BucketLease+"."):
		return "lease"
	case strings.HasPrefix(m.Subject, "sluice.timer."):
		return "timer"
	}
	return ""
}

// count returns how often a word was noted.
func (h *wire) count(word string) (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, said := range h.words {
		if said == word {
			n++
		}
	}
	return n
}

// until waits for a word and returns all words up to its first occurrence.
func (h *wire) until(w *world, word string) []string {
	w.Helper()
	for {
		h.mu.Lock()
		for i := range h.words {
			if h.words[i] == word {
				defer h.mu.Unlock()
				return append([]string(nil), h.words[:i+1]...)
			}
		}
		h.mu.Unlock()
		receive(w, word, h.added)
	}
}

func TestARunTakesTheLeaseSetsTheTimerReleasesTheLeaseAndThenAcknowledges(t *testing.T) {
	w := aWorld(t)
	q := w.connect()
	w.consume(q, "c", 1, func(context.Context, queue.Key) queue.Result {
		return queue.Result{WakeAt: time.Now().Add(time.Hour)}
	})
	heard := listen(w)
	w.hint(q, named("x"))
	want := []string{"lease", "timer", "release", "+ACK"}
	if diff := cmp.Diff(want, heard.until(w, "+ACK")); diff != "" {
		t.Errorf("what goes over NATS (-want +got):\n%s", diff)
	}
}

// A run takes longer than its lease and the ack wait of its hint. It keeps both by renewing them.
func TestALongRunKeepsItsLeaseAndItsHint(t *testing.T) {
	w := aWorld(t)
	begun, goOn := make(chan struct{}, 10), make(chan struct{})
	var longer atomic.Int32
	run := func(ctx context.Context, _ queue.Key) queue.Result {
		until := queue.HeldUntil(ctx)
		first := until()
		begun <- struct{}{}
		<-goOn
		if until().After(first) {
			longer.Add(1)
		}
		return queue.Result{}
	}
	first := w.connect()
	metrics := prometheus.NewRegistry()
	w.consumeWith(first, queue.ConsumeOptions{Cluster: "c", Workers: 1, Handler: run, Metrics: queue.NewMetrics(metrics, queue.TaskRelease)})
	heard := listen(w)
	w.hint(first, named("x"))
	receive(w, "run", begun)
	w.consume(w.connect(), "c", 1, run)
	// Each is renewed every two seconds, and would expire after six.
	for giveUp := time.After(patience); heard.count("lease") < 5 || heard.count("+WPI") < 4; {
		if n := heard.count("+WPI"); n > 12 {
			t.Fatalf("the hint was kept alive %d times, and the lease was written %d times", n, heard.count("lease"))
		}
		select {
		case <-begun:
			t.Fatal("the key runs a second time meanwhile")
		case <-heard.added:
		case <-giveUp:
			t.Fatalf("the lease was written %d times, the hint kept alive %d times", heard.count("lease"), heard.count("+WPI"))
		}
	}
	close(goOn)
	w.settled()
	if longer.Load() == 0 {
		t.Error("the run does not know that its lease was renewed")
	}
	if n := counter(t, metrics, "sluice_queue_lost_leases_total"); n != 0 {
		t.Errorf("%v leases were lost", n)
	}
}

// A run that loses its lease goes on, because its writes carry preconditions. The queue tells the run that it has lost
// the lease, and counts the loss.
func TestALeaseThatIsLostIsCountedAndTheRunGoesOn(t *testing.T) {
	w := aWorld(t)
	q := w.connect()
	begun, goOn := make(chan struct{}), make(chan struct{})
	var held, lost bool
	metrics := prometheus.NewRegistry()
	w.consumeWith(q, queue.ConsumeOptions{Cluster: "c", Workers: 1, Metrics: queue.NewMetrics(metrics, queue.TaskRelease),
		Handler: func(ctx context.Context, _ queue.Key) queue.Result {
			until := queue.HeldUntil(ctx)
			for end := time.Now().Add(patience); !held && time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
				held = time.Now().Before(until())
			}
			close(begun)
			<-goOn
			for end := time.Now().Add(patience); !lost && time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
				lost = time.Now().After(until())
			}
			return queue.Result{Err: ctx.Err()}
		}})
	w.hint(q, named("x"))
	receive(w, "run", begun)
	leases, err := w.admin.KeyValue(t.Context(), queue.BucketLease)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := leases.Put(t.Context(), "c.shop.x", []byte("somebody else")); err != nil {
		t.Fatal(err)
	}
	close(goOn)
	w.settled()
	if !held || !lost {
		t.Errorf("the run may send what it likes: %t at first, %t after it has lost its lease", held, !lost)
	}
	if n := counter(t, metrics, "sluice_queue_lost_leases_total"); n != 1 {
		t.Errorf("%v leases are counted as lost, want 1", n)
	}
	if e, err := leases.Get(t.Context(), "c.shop.x"); err != nil || string(e.Value()) != "somebody else" {
		t.Errorf("the other's lease was touched: %v", err)
	}
}

// A key that waits, for a lease or after an error, costs no delivery. NATS counts deliveries, and drops a hint after
// twenty.
func TestAKeyThatWaitsIsNotDeliveredAgain(t *testing.T) {
	w := aWorld(t)
	begun, goOn := make(chan struct{}, 10), make(chan struct{})
	first, second := w.connect(), w.connect()
	stop := w.consume(first, "c", 1, func(context.Context, queue.Key) queue.Result {
		begun <- struct{}{}
		<-goOn
		return queue.Result{}
	})
	w.hint(first, named("x"))
	receive(w, "run", begun)
	metrics := prometheus.NewRegistry()
	var failed atomic.Int32
	w.consumeWith(second, queue.ConsumeOptions{Cluster: "c", Workers: 1, Metrics: queue.NewMetrics(metrics, queue.TaskRelease),
		Handler: func(context.Context, queue.Key) queue.Result {
			if failed.Add(1) <= 3 {
				return queue.Result{Err: errors.New("not yet")}
			}
			return queue.Result{}
		}})
	stopped := make(chan error, 1)
	go func() { stopped <- stop() }() // so the second process gets the next hint
	w.until("only the second process asks for work", func(ctx context.Context) error {
		c, err := w.admin.Consumer(ctx, queue.StreamWork, "executor-c")
		if err == nil && c.CachedInfo().NumWaiting != 1 {
			err = fmt.Errorf("%d do", c.CachedInfo().NumWaiting)
		}
		return err
	})
	w.hint(first, named("x"))
	w.until("it has waited for the lease ten times", func(context.Context) error {
		if n := counter(t, metrics, "sluice_queue_lease_conflicts_total"); n < 10 {
			return fmt.Errorf("%v times", n)
		}
		return nil
	})
	close(goOn)
	if err := receive(w, "stop", stopped); err != nil {
		t.Error(err)
	}
	w.settled()
	// If every wait were a delivery, there would be more than ten. A busy machine may extend a delivery too late.
	if n := counter(t, metrics, "sluice_queue_redeliveries_total"); n >= 5 || failed.Load() != 4 {
		t.Errorf("%v redeliveries, %d runs", n, failed.Load())
	}
}
