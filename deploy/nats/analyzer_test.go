package nats_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats-server/v2/server"

	"sluice.dev/sluice/deploy/nats/trial"
	"sluice.dev/sluice/pkg/event"
	"sluice.dev/sluice/pkg/queue"
)

// measured is the analysis of checkout.
var measured = queue.Key{Cluster: "default", Namespace: "shop", Name: "checkout", Task: queue.TaskAnalysis}

// undisturbed connects as one of the parts, and fails the test on any permission error of the server.
func undisturbed(t *testing.T, s *server.Server, user string) *queue.Queue {
	t.Helper()
	return undisturbedQueue(t, queue.Options{URL: s.ClientURL(), User: user, Password: trial.Password(user)})
}

func undisturbedQueue(t *testing.T, o queue.Options) *queue.Queue {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	o.Logger = slog.New(denials{slog.DiscardHandler, t})
	q, err := queue.Connect(ctx, o)
	if err != nil {
		t.Fatalf("connect as %s: %v", o.User, err)
	}
	t.Cleanup(q.Close)
	return q
}

// denials fails the test on log lines about permission errors.
type denials struct {
	slog.Handler
	t *testing.T
}

func (d denials) Enabled(context.Context, slog.Level) bool { return true }

func (d denials) Handle(_ context.Context, r slog.Record) error {
	r.Attrs(func(a slog.Attr) bool {
		if strings.Contains(strings.ToLower(a.Value.String()), "permissions violation") {
			d.t.Errorf("%s: %s", r.Message, a.Value)
		}
		return true
	})
	return nil
}

// The analyzer connects first, so that it also creates the streams.
func TestAnAnalyzerMayDoAllItsWork(t *testing.T) {
	t.Parallel()
	s := trial.Start(t)
	q := undisturbed(t, s, "analyzer")
	begged, err := connect(t, s, "admin").SubscribeSync("sluice.idle.default.analysis")
	if err != nil {
		t.Fatal(err)
	}
	runs, began := make(chan queue.Key, 10), time.Now()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- q.Consume(ctx, queue.ConsumeOptions{Cluster: "default", Task: queue.TaskAnalysis, Workers: 1, Handler: func(ctx context.Context, k queue.Key) queue.Result {
			r := measure(ctx, q, began)
			runs <- k
			return r
		}})
	}()
	defer func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	if err := undisturbed(t, s, "watcher").PublishHint(t.Context(), measured); err != nil {
		t.Fatal(err)
	}
	for _, what := range []string{"the hint", "the timer", "the retry"} {
		select {
		case k := <-runs:
			if diff := cmp.Diff(measured, k); diff != "" {
				t.Errorf("%s (-want +got):\n%s", what, diff)
			}
		case <-time.After(patience):
			t.Fatalf("%s leads to no run", what)
		}
		if what == "the timer" {
			letter(t, s)
			retry(t, q)
		}
	}
	if data, _, err := q.LoadSums(t.Context(), "u.1.2.step"); err != nil || len(data) < 3 {
		t.Errorf("the sums are %q: %v", data, err)
	}
	if _, err := begged.NextMsg(patience); err != nil {
		t.Errorf("nobody hears that workers are free: %v", err)
	}
}

// measure sends the requests of an analyzer's run to NATS; the first run requests a timer.
func measure(ctx context.Context, q *queue.Queue, began time.Time) queue.Result {
	data, revision, err := q.LoadSums(ctx, "u.1.2.step")
	if err == nil {
		_, err = q.SaveSums(ctx, "u.1.2.step", append(data, '.'), revision)
	}
	if err != nil {
		return queue.Result{Err: err}
	}
	e, err := event.NewChange(event.Rollout{Cluster: "default", Namespace: "shop", Name: "checkout", UID: "u"}, event.Change{Noun: "step", Verb: "paused", Seq: 1, At: time.Unix(1, 0)})
	if err == nil {
		err = q.PublishEvent(ctx, e)
	}
	r := queue.Result{Err: err, KeepLease: true}
	if revision == 0 {
		r.WakeAt = began.Add(time.Second)
	}
	return r
}

// letter publishes a dead letter as an analyzer does.
func letter(t *testing.T, s *server.Server) {
	t.Helper()
	body, err := json.Marshal(queue.DeadLetter{Key: measured, Reason: queue.Failing, Error: "boom"})
	if err != nil {
		t.Fatal(err)
	}
	c := connect(t, s, "analyzer")
	if err := c.Publish(measured.DeadLetterSubject(), body); err != nil {
		t.Fatal(err)
	}
	if err := c.forbidden(); err != nil {
		t.Fatal(err)
	}
}

// retry waits for the letter of an analyzer, and retries its work.
func retry(t *testing.T, q *queue.Queue) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(patience); ; <-tick.C {
		letters, err := q.ListDeadLetters(t.Context(), "", "")
		if err != nil {
			t.Fatal(err)
		}
		if len(letters) == 1 && letters[0].Key == measured {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("letters: %+v", letters)
		}
	}
	if err := q.RetryDeadLetter(t.Context(), measured); err != nil {
		t.Fatal(err)
	}
}

func TestAnAnalyzerCanTouchNothingOfReleases(t *testing.T) {
	t.Parallel()
	s := trial.Start(t)
	admin := connect(t, s, "admin")
	stored := snapshot(t, admin, part(t, s, "executor"))
	c := connect(t, s, "analyzer")
	c.mayNotPublish(
		"sluice.work.default.shop.checkout", "sluice.timer.default.shop.checkout", "sluice.dlq.default.shop.checkout", "sluice.idle.default",
		"sluice.approval.default.shop.checkout.alice", "sluice.approval.default.shop.checkout.memory.x", "$KV.sluice_lease.default.shop.checkout",
		"$JS.API.STREAM.DELETE.SLUICE_WORK", "$JS.API.STREAM.PURGE.SLUICE_WORK", "$JS.API.STREAM.PURGE.KV_sluice_analysis", "$JS.API.STREAM.PURGE.SLUICE_APPROVALS",
		"$JS.API.STREAM.MSG.GET.SLUICE_APPROVALS", "$JS.API.STREAM.MSG.DELETE.SLUICE_WORK", "$JS.API.DIRECT.GET.SLUICE_APPROVALS",
		"$JS.API.CONSUMER.CREATE.SLUICE_WORK.x.sluice.work.default.>", "$JS.API.CONSUMER.CREATE.SLUICE_WORK.x", "$JS.API.CONSUMER.CREATE.SLUICE_APPROVALS.x",
		"$JS.API.CONSUMER.DELETE.SLUICE_WORK.executor-default", "$JS.API.CONSUMER.MSG.NEXT.SLUICE_APPROVALS.approval-default", "$JS.ACK.SLUICE_APPROVALS.x",
		"$SYS.REQ.SERVER.PING", "anything",
	)
	c.mayNotSubscribe(">", "sluice.>", "sluice.approval.>", "sluice.work.>", "sluice.event.>", "sluice.idle.*", "$JS.>", "$KV.>", "$SYS.>")
	if diff := cmp.Diff(stored, snapshot(t, admin, nil)); diff != "" {
		t.Errorf("the streams have changed:\n%s", diff)
	}
}
