package fleetlink

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nkeys"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/fleetmessage"
	"sluice.dev/sluice/pkg/queue"
)

func TestAnOrderIsOneHintAndOnePermit(t *testing.T) {
	h := aHub(t)
	eu1, eu2 := h.joined("eu1", keyPair(t)), h.joined("eu2", keyPair(t))
	if permit, blocked, refused := eu1.Order(governed(checkout)); permit != nil || blocked != nil || refused != "" {
		t.Errorf("without an order there is a permit %+v, blocks %+v or a refusal %q", permit, blocked, refused)
	}
	first := anOrder("eu1")
	h.give(first, h.key)
	eu1.wantHint(checkout)
	got, blocked, refused := eu1.Order(governed(checkout))
	if diff := cmp.Diff(first.Permit, got); diff != "" || refused != "" {
		t.Errorf("the permit (-want +got), refused %q:\n%s", refused, diff)
	}
	if diff := cmp.Diff(first.Blocked, blocked); diff != "" {
		t.Errorf("the withdrawn versions (-want +got):\n%s", diff)
	}
	if got, _, refused := eu2.Order(governed(checkout)); got != nil || refused != "" {
		t.Errorf("another cluster has the permit %+v, refused %q", got, refused)
	}

	// After a reconnect the link reads the same order again.
	h.restart(false, eu1.forget)
	eu1.knows(checkout)
	second := anOrder("eu1")
	second.Permit = permit(5, 3)
	h.until("the hub can publish", func() error {
		message, err := second.Seal(h.key)
		if err != nil {
			return err
		}
		subject := fleetmessage.OrderSubject("eu1", second.Rollout)
		return h.orders.Publish(t.Context(), subject, message, h.orders.Get(subject).Seq)
	})
	eu1.wantHint(checkout)
	if got, _, _ := eu1.Order(withPermit(governed(checkout), first.Permit)); !cmp.Equal(second.Permit, got) {
		t.Errorf("the next permit (-want +got):\n%s", cmp.Diff(second.Permit, got))
	}
	if n := len(eu1.hints) + len(eu2.hints); n > 0 {
		t.Errorf("%d hints too many", n)
	}
}

func TestOrdersThatAreRefused(t *testing.T) {
	h := aHub(t)
	eu1, stranger := h.joined("eu1", keyPair(t)), keyPair(t)
	for _, c := range []struct {
		name   string
		change func(*fleetmessage.Order)
		key    nkeys.KeyPair
		reason fleetmessage.Reason
		text   string
	}{
		{"a forged order", nil, stranger, fleetmessage.ReasonUnknownKey, "which is not trusted"},
		{"an order of another FleetRollout", func(o *fleetmessage.Order) { o.FleetRollout.Name = "pay" }, h.key, fleetmessage.ReasonNotYours, "spec.fleet names shop/checkout"},
		{"an order for another cluster of the name", func(o *fleetmessage.Order) { o.Member.UID = "other" }, h.key, fleetmessage.ReasonNameTaken, "another cluster that has joined the fleet as eu1"},
		{"an order of another hub", func(o *fleetmessage.Order) { o.Hub = "other" }, h.key, fleetmessage.ReasonWrongHub, "this cluster belongs to the hub hub"},
		{"an order about another Rollout", func(o *fleetmessage.Order) { o.Rollout.Name = "pay" }, h.key, fleetmessage.ReasonWrongRollout, "it is about the Rollout"},
	} {
		order := anOrder("eu1")
		if c.change != nil {
			c.change(&order)
		}
		h.give(order, c.key)
		eu1.wantHint(checkout)
		for range 2 { // each run asks
			got, blocked, refused := eu1.Order(governed(checkout))
			if got != nil || blocked != nil || !strings.Contains(refused, c.text) {
				t.Errorf("%s: permit %+v, blocks %+v, refused %q, want %q", c.name, got, blocked, refused, c.text)
			}
		}
		if n := eu1.refusals(c.reason); n != 1 {
			t.Errorf("%s is counted %d times", c.name, n)
		}
	}
	h.publish(fleetmessage.OrderSubject("eu1", fleetmessage.Name(checkout)), []byte("garbage"))
	eu1.wantHint(checkout)
	if _, _, refused := eu1.Order(governed(checkout)); !strings.Contains(refused, "cannot be decoded") || eu1.refusals(fleetmessage.ReasonMalformed) != 1 {
		t.Errorf("garbage is refused %d times: %q", eu1.refusals(fleetmessage.ReasonMalformed), refused)
	}
	h.give(anOrder("eu1"), h.key)
	eu1.wantHint(checkout)
	if got, _, refused := eu1.Order(governed(checkout)); got == nil || refused != "" {
		t.Errorf("the order that follows is refused: %q", refused)
	}
}

// A refusal of one Rollout must not be forgotten, or counted again, because orders of another one count.
func TestARefusalStaysWhenOrdersOfOtherRolloutsCount(t *testing.T) {
	h := aHub(t)
	eu1 := h.joined("eu1", keyPair(t))
	h.give(anOrder("eu1"), keyPair(t))
	eu1.wantHint(checkout)
	eu1.Order(governed(pay))
	eu1.knows(pay)
	other := anOrder("eu1")
	other.FleetRollout, other.Rollout = api.FleetReference(pay), fleetmessage.Name(pay)
	message, err := other.Seal(h.key)
	if err != nil {
		t.Fatal(err)
	}
	h.publish(fleetmessage.OrderSubject("eu1", other.Rollout), message)
	eu1.wantHint(pay)
	for range 3 {
		if _, _, refused := eu1.Order(governed(checkout)); refused == "" {
			t.Error("a forged order counts")
		}
		if got, _, refused := eu1.Order(governed(pay)); got == nil || refused != "" {
			t.Errorf("the order about the other Rollout is refused: %q", refused)
		}
	}
	if n := eu1.refusals(fleetmessage.ReasonUnknownKey); n != 1 {
		t.Errorf("the refusal is counted %d times", n)
	}
	if refused := eu1.lastRefusal(); !strings.Contains(refused, "shop/checkout") {
		t.Errorf("heartbeats say about refusals: %q", refused)
	}
}

// The Rollout has a newer permit than the message: that is nothing to tell a person.
func TestAnOlderOrderCountsForNothing(t *testing.T) {
	h := aHub(t)
	eu1 := h.joined("eu1", keyPair(t))
	h.give(anOrder("eu1"), h.key)
	eu1.wantHint(checkout)
	eu1.noteRefusal(checkout, errors.New("the order before was refused"))
	for name, last := range map[string]*api.FleetPermit{"of the same epoch": permit(5, 3), "of a later epoch": permit(6, 1)} {
		if got, blocked, refused := eu1.Order(withPermit(governed(checkout), last)); got != nil || blocked != nil || refused != "" {
			t.Errorf("after a permit %s: permit %+v, blocks %+v, refused %q", name, got, blocked, refused)
		}
	}
	if n := eu1.refusals(fleetmessage.ReasonOld); n != 0 || eu1.lastRefusal() != "" {
		t.Errorf("it is counted %d times, and heartbeats say: %q", n, eu1.lastRefusal())
	}
	if got, _, _ := eu1.Order(withPermit(governed(checkout), permit(5, 2))); got == nil {
		t.Error("the order of the permit that the Rollout has counts for nothing")
	}
	r := withPermit(governed(checkout), permit(9, 1))
	r.Status.Fleet.FleetRollout.Name = "pay"
	if got, _, _ := eu1.Order(r); got == nil {
		t.Error("the permit of the FleetRollout before makes the order of this one old")
	}
}

func TestADeletedFleetRolloutHolds(t *testing.T) {
	h := aHub(t)
	eu1 := h.joined("eu1", keyPair(t))
	deleted := anOrder("eu1")
	deleted.Permit, deleted.Deleted = nil, 6
	h.give(deleted, h.key)
	eu1.wantHint(checkout)
	last := permit(5, 9)
	last.NotAfter = new(metav1.NewMicroTime(time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)))
	want := permit(6, 0)
	want.Verb = api.FleetVerbHold
	got, blocked, refused := eu1.Order(withPermit(governed(checkout), last))
	if diff := cmp.Diff(want, got); diff != "" || refused != "" {
		t.Errorf("the permit (-want +got), refused %q:\n%s", refused, diff)
	}
	if diff := cmp.Diff(deleted.Blocked, blocked); diff != "" {
		t.Errorf("the withdrawn versions (-want +got):\n%s", diff)
	}
	if last.Verb != api.FleetVerbRelease || last.NotAfter == nil {
		t.Errorf("the permit of the Rollout has become %+v", last)
	}
	if got, _, refused := eu1.Order(withPermit(governed(checkout), got)); got != nil || refused != "" {
		t.Errorf("after the hold there is the permit %+v, refused %q", got, refused)
	}
	if got, _, refused := eu1.Order(governed(checkout)); refused != "" || !cmp.Equal(&api.FleetPermit{Epoch: 6, Verb: api.FleetVerbHold}, got) {
		t.Errorf("a Rollout without a permit gets %+v, refused %q", got, refused)
	}
}

func TestACountingOrderMayHaveEitherKeyOfTheHub(t *testing.T) {
	h := aHub(t)
	eu1, next := h.joined("eu1", keyPair(t)), keyPair(t)
	eu1.mu.Lock()
	eu1.trusted = append(eu1.trusted, public(t, next))
	eu1.mu.Unlock()
	order := anOrder("eu1")
	for i, key := range []nkeys.KeyPair{h.key, next, h.key} {
		order.Permit = permit(5, int64(i))
		h.give(order, key)
		eu1.wantHint(checkout)
		if got, _, refused := eu1.Order(governed(checkout)); !cmp.Equal(order.Permit, got) || refused != "" {
			t.Errorf("order %d: permit %+v, refused %q", i, got, refused)
		}
	}
	eu1.mu.Lock()
	eu1.trusted = eu1.trusted[1:]
	eu1.mu.Unlock()
	if got, _, refused := eu1.Order(governed(checkout)); got != nil || !strings.Contains(refused, "not trusted") {
		t.Errorf("by a key that is not trusted any more: permit %+v, refused %q", got, refused)
	}
}

// NATS tells a cluster of an order before its stream has stored it, and also of one that the stream refuses.
func TestTheLinkReadsUntilAnOrderIsStored(t *testing.T) {
	h := aHub(t)
	eu1 := h.joined("eu1", keyPair(t))
	h.give(anOrder("eu1"), h.key)
	eu1.wantHint(checkout)
	refused := anOrder("eu1")
	refused.Permit = permit(5, 9)
	message, err := refused.Seal(h.key)
	if err != nil {
		t.Fatal(err)
	}
	subject := fleetmessage.OrderSubject("eu1", refused.Rollout)
	if err := h.orders.Publish(t.Context(), subject, message, h.orders.Get(subject).Seq+1); !errors.Is(err, queue.ErrFleetStale) {
		t.Fatalf("the stream takes the order: %v", err)
	}
	x := func(look func(*exchange) bool) func() error {
		return func() error {
			eu1.Link.mu.Lock()
			defer eu1.Link.mu.Unlock()
			if x := eu1.rollouts[checkout]; !look(x) {
				return fmt.Errorf("the exchange is %+v", x)
			}
			return nil
		}
	}
	h.until("the link has read without finding it", x(func(x *exchange) bool {
		if x.waits < 2 {
			return false
		}
		x.waits = maxStoredWaits // the other reads take seconds
		return true
	}))
	h.until("the link has stopped reading", x(func(x *exchange) bool { return x.arrived == nil && !x.stale && x.waits == maxStoredWaits }))
	if got, _, _ := eu1.Order(governed(checkout)); !cmp.Equal(permit(5, 2), got) {
		t.Errorf("the permit is %+v", got)
	}
	if len(eu1.hints) > 0 {
		t.Error("an order that was refused is a hint")
	}
}
