package queue_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sluice.dev/sluice/pkg/event"
	"sluice.dev/sluice/pkg/queue"
)

// Two equal hints are two reasons for a run, also within the time in which NATS drops duplicates.
func TestAHintThatIsGivenAgainIsNoRepeat(t *testing.T) {
	w := aWorld(t)
	q := w.connect()
	var stored []uint64
	for range 2 {
		w.hint(q, named("x"))
		s, err := w.admin.Stream(t.Context(), queue.StreamWork)
		if err != nil {
			t.Fatal(err)
		}
		stored = append(stored, s.CachedInfo().State.LastSeq)
	}
	if stored[1] <= stored[0] {
		t.Errorf("after the second hint the newest message is still number %d", stored[1])
	}
}

func TestAnEventIsStoredOnceAndReadBack(t *testing.T) {
	w := aWorld(t)
	q := w.connect()
	e, err := event.NewChange(
		event.Rollout{Cluster: "eu.1", Namespace: "shop", Name: "checkout", UID: "0b7c"},
		event.Change{Noun: "step", Verb: "paused", Seq: 1, At: time.Now(), Data: map[string]int{"step": 2}},
	)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := q.PublishEvent(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	s, err := w.admin.Stream(t.Context(), queue.StreamEvents)
	if err != nil {
		t.Fatal(err)
	}
	if n := s.CachedInfo().State.Msgs; n != 1 {
		t.Errorf("%d messages, want 1", n)
	}
	m, err := s.GetLastMsgForSubject(t.Context(), "sluice.event.eu_1.shop.checkout")
	if err != nil {
		t.Fatal(err)
	}
	got, err := event.Decode(m.Header, m.Data)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(e.String(), got.String()); diff != "" {
		t.Error(diff)
	}
}

func TestAnEventAboutNoRolloutIsRefused(t *testing.T) {
	w := aWorld(t)
	e, err := event.Decode(map[string][]string{"ce-specversion": {"1.0"}, "ce-id": {"1"}, "ce-source": {"/ci"}, "ce-type": {"t"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.connect().PublishEvent(t.Context(), e); err == nil {
		t.Error("it was accepted")
	}
}
