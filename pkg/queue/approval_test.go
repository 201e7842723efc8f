package queue_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sluice.dev/sluice/pkg/event"
	"sluice.dev/sluice/pkg/queue"
)

// anApproval returns a valid approval of Rollout demo.
func anApproval(id string) event.Event {
	e, err := event.Decode(map[string][]string{
		"ce-specversion": {"1.0"}, "ce-type": {event.TypeApproval}, "ce-id": {id}, "ce-source": {"/ci"},
		"ce-subject": {"namespaces/shop/rollouts/demo"}, "content-type": {"application/json"},
	}, []byte(`{"decision":"approve","revision":"v2"}`))
	if err != nil {
		panic(err)
	}
	return e
}

// approve hands approvals to a handler until the test ends.
func (w *world) approve(q *queue.Queue, cluster string, h queue.ApprovalHandler) {
	ctx, cancel := context.WithCancel(w.Context())
	done := make(chan error, 1)
	go func() {
		done <- q.ConsumeApprovals(ctx, queue.ApprovalOptions{Cluster: cluster, Workers: 4, Handler: h})
	}()
	w.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			w.Error(err)
		}
	})
}

func (w *world) send(q *queue.Queue, principal, id string) {
	w.Helper()
	if err := q.PublishApproval(w.Context(), named("demo"), principal, anApproval(id)); err != nil {
		w.Fatal(err)
	}
}

// decidedAll waits until the consumer of approvals has handled every message.
func (w *world) decidedAll(consumer string) {
	w.Helper()
	w.until("all approvals are acknowledged", func(ctx context.Context) error {
		c, err := w.admin.Consumer(ctx, queue.StreamApprovals, consumer)
		if err != nil {
			return err
		}
		if i := c.CachedInfo(); i.NumPending > 0 || i.NumAckPending > 0 {
			return fmt.Errorf("%d wait and %d are not acknowledged", i.NumPending, i.NumAckPending)
		}
		return nil
	})
}

func TestPrincipalTokens(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"ci-acme": "ci-acme", "CI": "CI", "ci.acme": "ci_2Eacme", "system:serviceaccount:shop:ci": "system_3Aserviceaccount_3Ashop_3Aci",
		"a_b": "a_5Fb", "*": "_2A", ">": "_3E", "é": "_C3_A9", "jane@example.org": "jane_40example_2Eorg",
	} {
		if got := queue.PrincipalToken(name); got != want {
			t.Errorf("%q becomes %q, want %q", name, got, want)
		}
		if back, err := queue.ParsePrincipal(want); err != nil || back != name {
			t.Errorf("%q is read back as %q: %v", want, back, err)
		}
	}
	for name, token := range map[string]string{
		"empty": "", "an escape cut short": "a_2", "an escape of nothing": "a_", "lower-case hex": "a_2e", "no hex": "a_2G", "an escaped letter": "_61",
		"a character that must be escaped": "a:b", "two tokens": "a.b", "broken UTF-8": "_FF", "a control character": "_0A", "too long": strings.Repeat("a", 513),
	} {
		if got, err := queue.ParsePrincipal(token); err == nil {
			t.Errorf("%s is read as %q", name, got)
		}
	}
}

func FuzzParsePrincipal(f *testing.F) {
	f.Add("a_2Eb")
	f.Add("_C3_A9")
	f.Fuzz(func(t *testing.T, token string) {
		name, err := queue.ParsePrincipal(token)
		if err != nil {
			return
		}
		if got := queue.PrincipalToken(name); got != token || strings.ContainsAny(got, ".*> \t\r\n") {
			t.Fatalf("%q is read as %q, which is written as %q", token, name, got)
		}
	})
}

func TestSubjectsOfApprovals(t *testing.T) {
	t.Parallel()
	key := queue.Key{Cluster: "eu-1", Namespace: "shop", Name: "checkout.v2"}
	subject := key.RequestSubject(event.VerbApprove, "ci.acme")
	if diff := cmp.Diff("sluice.approval.eu-1.shop.checkout_v2.ci_2Eacme", subject); diff != "" {
		t.Error(diff)
	}
	back, _, principal, err := queue.ParseRequestSubject(subject)
	if err != nil || back != key || principal != "ci.acme" {
		t.Errorf("it is read back as %v, %q: %v", back, principal, err)
	}
	for _, bad := range []string{"sluice.approval.a.b.c", "sluice.approval.a.b.c.d.e", "sluice.event.a.b.c.d", "sluice.approval.A.b.c.d", "sluice.approval.a..c.d", "sluice.approval.a.b.c."} {
		if _, _, _, err := queue.ParseRequestSubject(bad); err == nil {
			t.Errorf("%s was read", bad)
		}
	}
}

func TestSubjectsOfRequestsAboutFleets(t *testing.T) {
	t.Parallel()
	key := queue.Key{Cluster: "hub", Namespace: "shop", Name: "checkout.v2", Task: queue.TaskFleet}
	subject := key.RequestSubject(event.VerbRelease, "ci.acme")
	if diff := cmp.Diff("sluice.fleet.request.hub.shop.checkout_v2.release.ci_2Eacme", subject); diff != "" {
		t.Error(diff)
	}
	back, verb, principal, err := queue.ParseRequestSubject(subject)
	if err != nil || back != key || verb != event.VerbRelease || principal != "ci.acme" {
		t.Errorf("it is read back as %v, %q, %q: %v", back, verb, principal, err)
	}
	for _, bad := range []string{"sluice.fleet.request.a.b.c.d", "sluice.fleet.request.a.b.c.approve.d.e", "sluice.fleet.event.a.b.c.approve.d", "sluice.fleet.request.a.b.C.approve.d", "sluice.fleet.request.a.b.c.approve."} {
		if _, _, _, err := queue.ParseRequestSubject(bad); err == nil {
			t.Errorf("%s was read", bad)
		}
	}
}

func TestWhatIsNoApprovalIsNotSent(t *testing.T) {
	w := aWorld(t)
	q := w.connect()
	for name, tt := range map[string]struct {
		key       queue.Key
		principal string
		event     event.Event
	}{
		"about another Rollout": {named("other"), "ci", anApproval("1")},
		"without a principal":   {named("demo"), "", anApproval("1")},
		"of no Rollout":         {queue.Key{Cluster: "c", Namespace: "shop"}, "ci", anApproval("1")},
		"of another type": {named("demo"), "ci", func() event.Event {
			e := anApproval("1")
			e.SetType("dev.sluice.other.v1")
			return e
		}()},
	} {
		if err := q.PublishApproval(t.Context(), tt.key, tt.principal, tt.event); !errors.Is(err, queue.ErrBadApproval) {
			t.Errorf("an approval %s: %v", name, err)
		}
	}
}

func TestAnApprovalComesWithTheSenderOfItsSubject(t *testing.T) {
	w := aWorld(t)
	q := w.connect()
	got := make(chan queue.Approval, 4)
	w.approve(q, "c", func(_ context.Context, a queue.Approval) error { got <- a; return nil })
	w.send(q, "system:serviceaccount:shop:ci", "1")
	a := receive(w, "the approval", got)
	if a.Key != named("demo") || a.Principal != "system:serviceaccount:shop:ci" || a.Event.ID() != "1" || a.Malformed != nil || time.Since(a.Arrived) > time.Minute {
		t.Errorf("what came is %+v", a)
	}
	// An invalid event is handed over too, because its sender waits for an answer.
	if _, err := w.admin.Publish(t.Context(), named("demo").RequestSubject(event.VerbApprove, "ci"), []byte("approve!")); err != nil {
		t.Fatal(err)
	}
	if a := receive(w, "the garbage", got); a.Malformed == nil || a.Principal != "ci" {
		t.Errorf("what came is %+v", a)
	}
	// A message that names no Rollout or no sender cannot be answered. The queue drops it.
	for _, subject := range []string{"sluice.approval.c.Shop.demo.ci", "sluice.approval.c.shop.demo.c_2x"} {
		if _, err := w.admin.Publish(t.Context(), subject, []byte("approve!")); err != nil {
			t.Fatal(err)
		}
	}
	w.decidedAll("approval-c")
	if len(got) > 0 {
		t.Errorf("a message without a sender was handed over: %+v", <-got)
	}
}

func TestAnApprovalIsHandedOverUntilItIsDecided(t *testing.T) {
	w := aWorld(t)
	q := w.connect()
	var mu sync.Mutex
	calls := 0
	done := make(chan time.Time, 1)
	w.approve(q, "*", func(_ context.Context, a queue.Approval) error {
		mu.Lock()
		defer mu.Unlock()
		switch calls++; calls {
		case 1:
			return errors.New("the API server does not answer")
		case 2:
			panic("a defect")
		}
		done <- a.Arrived
		return nil
	})
	begun := time.Now()
	w.send(q, "ci", "1")
	if arrived := receive(w, "the third call", done); arrived.Before(begun) || arrived.After(time.Now()) {
		t.Errorf("it arrived at %s, which is not when it was sent", arrived)
	}
	w.decidedAll("approval")
}

func TestSeveralProcessesShareApprovals(t *testing.T) {
	w := aWorld(t)
	var mu sync.Mutex
	got := map[string]int{}
	handler := func(_ context.Context, a queue.Approval) error {
		mu.Lock()
		defer mu.Unlock()
		got[a.Event.ID()]++
		return nil
	}
	q := w.connect()
	w.approve(q, "c", handler)
	w.approve(w.connect(), "c", handler)
	want := map[string]int{}
	for n := range 50 {
		id := fmt.Sprint(n)
		want[id] = 1
		w.send(q, "ci", id)
	}
	w.until("all are handed over", func(context.Context) error {
		mu.Lock()
		defer mu.Unlock()
		if len(got) < len(want) {
			return fmt.Errorf("%d of %d", len(got), len(want))
		}
		return nil
	})
	w.decidedAll("approval-c")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestApprovalsSurviveTheLossOfTheirStream(t *testing.T) {
	w := aWorld(t)
	q := w.connect()
	got := make(chan string, 16)
	w.approve(q, "c", func(_ context.Context, a queue.Approval) error { got <- a.Event.ID(); return nil })
	w.send(q, "ci", "before")
	receive(w, "the first", got)
	if err := w.admin.DeleteStream(t.Context(), queue.StreamApprovals); err != nil {
		t.Fatal(err)
	}
	w.until("it can be sent again", func(ctx context.Context) error {
		return q.PublishApproval(ctx, named("demo"), "ci", anApproval("after"))
	})
	if id := receive(w, "one after the loss", got); id != "after" {
		t.Errorf("%q came", id)
	}
}

func TestAStopGivesBackWhatIsNotDecided(t *testing.T) {
	w := aWorld(t)
	q := w.connect()
	inside, leave := make(chan struct{}), make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	stopped := make(chan error, 1)
	go func() {
		stopped <- q.ConsumeApprovals(ctx, queue.ApprovalOptions{Cluster: "c", Workers: 1, Handler: func(context.Context, queue.Approval) error {
			close(inside)
			<-leave
			return nil
		}})
	}()
	w.send(q, "ci", "1")
	receive(w, "the first call", inside)
	w.send(q, "ci", "2")
	w.until("the second waits for the first", func(ctx context.Context) error {
		c, err := w.admin.Consumer(ctx, queue.StreamApprovals, "approval-c")
		if err == nil && c.CachedInfo().NumAckPending < 2 {
			err = errors.New("it has not been fetched")
		}
		return err
	})
	cancel()
	close(leave)
	if err := receive(w, "the stop", stopped); err != nil {
		t.Error(err)
	}
	got := make(chan string, 2)
	w.approve(w.connect(), "c", func(_ context.Context, a queue.Approval) error { got <- a.Event.ID(); return nil })
	if id := receive(w, "what was given back", got); id != "2" {
		t.Errorf("%q came back", id)
	}
}

func TestWhatIsRememberedIsReplacedByWhoKnowsIt(t *testing.T) {
	w := aWorld(t)
	q := w.connect()
	key := named("demo")
	remember := func(version uint64, text string) (uint64, error) {
		return q.PutApprovalRecord(t.Context(), key, "approval/1", version, []byte(text))
	}
	if body, version, err := q.GetApprovalRecord(t.Context(), key, "approval/1"); err != nil || version != 0 || body != nil {
		t.Fatalf("%q in version %d: %v", body, version, err)
	}
	first, err := remember(0, "a")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := remember(0, "b"); !errors.Is(err, queue.ErrApprovalRecordConflict) {
		t.Errorf("something else was remembered as well: %v", err)
	}
	second, err := remember(first, "c")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := remember(first, "d"); !errors.Is(err, queue.ErrApprovalRecordConflict) {
		t.Errorf("what had been replaced was replaced again: %v", err)
	}
	if body, version, err := q.GetApprovalRecord(t.Context(), key, "approval/1"); err != nil || version != second || string(body) != "c" {
		t.Errorf("%q in version %d: %v", body, version, err)
	}
	// The record is on a subject that no sender may write to, and is not handed over as an approval.
	if _, _, _, err := queue.ParseRequestSubject("sluice.approval.c.shop.demo.memory.approval_2F1"); err == nil {
		t.Error("its subject is that of an approval")
	}
	if err := w.admin.DeleteStream(t.Context(), queue.StreamApprovals); err != nil {
		t.Fatal(err)
	}
	w.until("it is forgotten", func(ctx context.Context) error {
		_, version, err := q.GetApprovalRecord(ctx, key, "approval/1")
		if err == nil && version != 0 {
			err = errors.New("it is there still")
		}
		return err
	})
}
