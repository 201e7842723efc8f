package queue_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"sluice.dev/sluice/pkg/queue"
)

// late is how long after its time a timer may fire here. NATS adds up to 250 ms, and a loaded machine the rest.
const late = 2 * time.Minute

func onTime(t *testing.T, at, ran time.Time) {
	t.Helper()
	if d := ran.Sub(at); d < 0 || d > late {
		t.Errorf("it fired %s after its time", d)
	}
	t.Logf("fired %s after its time", ran.Sub(at))
}

func TestTheNewestTimerOfAKeyCounts(t *testing.T) {
	w := aWorld(t)
	q := w.connect()
	ran := make(chan time.Time, 10)
	w.consume(q, "c", 1, func(context.Context, queue.Key) queue.Result {
		ran <- time.Now()
		return queue.Result{}
	})
	at := time.Now().Add(300 * time.Millisecond)
	for _, when := range []time.Time{time.Now().Add(time.Hour), at} {
		if err := q.SetTimer(t.Context(), named("x"), when); err != nil {
			t.Fatal(err)
		}
	}
	onTime(t, at, receive(w, "timer", ran))
	w.settled()
}

func TestAShortWaitEndsEvenIfNATSLosesTheTimer(t *testing.T) {
	w := aWorld(t)
	q := w.connect()
	var at time.Time
	ran := make(chan time.Time, 10)
	var runs atomic.Int32
	w.consume(q, "c", 1, func(context.Context, queue.Key) queue.Result {
		ran <- time.Now()
		if runs.Add(1) == 1 {
			at = time.Now().Add(700 * time.Millisecond)
			return queue.Result{WakeAt: at}
		}
		return queue.Result{}
	})
	w.hint(q, named("x"))
	receive(w, "first run", ran)
	w.until("the timer is lost", func(ctx context.Context) error {
		s, err := w.admin.Stream(ctx, queue.StreamWork)
		if err != nil {
			return err
		}
		m, err := s.GetLastMsgForSubject(ctx, named("x").TimerSubject())
		if err != nil {
			return err
		}
		return s.DeleteMsg(ctx, m.Sequence)
	})
	onTime(t, at, receive(w, "second run", ran))
	w.settled()
}

func TestATimerSurvivesTheProcessThatSetIt(t *testing.T) {
	w := aWorld(t)
	q := w.connect()
	at := time.Now().Add(1500 * time.Millisecond)
	first := make(chan struct{}, 10)
	stop := w.consume(q, "c", 1, func(context.Context, queue.Key) queue.Result {
		first <- struct{}{}
		return queue.Result{WakeAt: at}
	})
	w.hint(q, named("x"))
	receive(w, "first run", first)
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	q.Close()
	ran := make(chan time.Time, 10)
	w.consume(w.connect(), "c", 1, func(context.Context, queue.Key) queue.Result {
		ran <- time.Now()
		return queue.Result{}
	})
	onTime(t, at, receive(w, "timer", ran))
	w.settled()
}
