package fleethub

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nkeys"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/fleetmessage"
	"sluice.dev/sluice/pkg/queue"
)

func TestWhichKeySigns(t *testing.T) {
	t.Parallel()
	k := []signingKey{{public: "K1"}, {public: "K2"}, {public: "K3"}}
	for name, c := range map[string]struct {
		keys    []signingKey
		trusted []string
		want    string
	}{
		"the preferred one if the cluster trusts it":        {k, []string{"K3", "K1"}, "K1"},
		"the next one that the cluster trusts":              {k, []string{"K2"}, "K2"},
		"the oldest one for a cluster that has said none":   {k, nil, "K3"},
		"the oldest one for a cluster that trusts no other": {k, []string{"K9"}, "K3"},
		"the only one": {k[:1], []string{"K2"}, "K1"},
	} {
		if got := chooseKey(c.keys, c.trusted).public; got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// anOrder is an order to eu1 with the permit of that number.
func anOrder(epoch, seq int64) fleetmessage.Order {
	r := aFleetRollout()
	end := metav1.NewMicroTime(start.Add(45*time.Minute + 123456*time.Microsecond).Local())
	return fleetmessage.Order{
		Hub: "hub", FleetRollout: governorOf(r), UID: string(r.UID), Member: fleetmessage.Member{Name: "eu1", UID: "uid-of-eu1"}, Rollout: fleetmessage.Name{Namespace: "shop", Name: "checkout"},
		Permit: &api.FleetPermit{Epoch: epoch, Seq: seq, Verb: api.FleetVerbRelease, Version: "version/v2", Revision: "h2", NotAfter: &end, Clusters: 2},
	}
}

func TestAnOrderIsPublishedOnce(t *testing.T) {
	t.Parallel()
	h, r := aHub(t), aFleetRollout()
	withNATS(t, h)
	first, second := aKey(t), aKey(t)
	keys := []nkeys.KeyPair{first.pair}
	h.Keys = func() ([]nkeys.KeyPair, error) { return keys, nil }
	published := 0
	publish := func(what string, order fleetmessage.Order, key signingKey, is bool) {
		t.Helper()
		if err := h.publishOrder(t.Context(), r, order, key); err != nil {
			t.Fatal(err)
		}
		if is {
			published++
		}
		if got := count(h.metrics.orders); got != published {
			t.Fatalf("%s: %d orders are published, want %d", what, got, published)
		}
	}
	if _, is := h.lastOrder("eu1", r); is {
		t.Error("there is an order before the first one")
	}
	publish("the first order", anOrder(5, 1), first, true)
	publish("the same order", anOrder(5, 1), first, false)
	publish("a newer permit", anOrder(5, 2), first, true)
	publish("an older permit", anOrder(5, 1), first, false)
	publish("an older epoch", anOrder(4, 9), first, false)
	blocked := anOrder(5, 2)
	blocked.Blocked = []api.FleetBlock{{Version: "version/v1", Epoch: 4}}
	publish("the same permit with another withdrawn version", blocked, first, true)
	if last, is := h.lastOrder("eu1", r); !is || !cmp.Equal(blocked, last) {
		t.Errorf("the last order (-want +got):\n%s", cmp.Diff(blocked, last))
	}
	keys = []nkeys.KeyPair{second.pair, first.pair}
	publish("the same order before the cluster trusts the next key", blocked, first, false)
	publish("the same order by the next key", blocked, second, true)
	publish("the same order by the next key again", blocked, second, false)

	// A hub that has another key counts its order for nothing, and replaces it.
	stranger := aKey(t)
	keys = []nkeys.KeyPair{stranger.pair}
	if last, is := h.lastOrder("eu1", r); is {
		t.Errorf("an order by a key of another hub counts: %+v", last)
	}
	if n := h.refusals("order", fleetmessage.ReasonUnknownKey); n != 1 {
		t.Errorf("it is counted %d times", n)
	}
	publish("an order of a hub that has lost its key", anOrder(5, 1), stranger, true)
}

func TestAnOrderOfAnotherProcessIsNotReplaced(t *testing.T) {
	t.Parallel()
	h, other, r, key := aHub(t), aHub(t), aFleetRollout(), aKey(t)
	q := withNATS(t, h)
	other.orders = q.NewFleetStates(queue.StreamFleetDown, func(string) {})
	for _, of := range []*Hub{h, other} {
		of.Keys = func() ([]nkeys.KeyPair, error) { return []nkeys.KeyPair{key.pair}, nil }
	}
	if err := other.publishOrder(t.Context(), r, anOrder(5, 2), key); err != nil {
		t.Fatal(err)
	}
	if err := h.publishOrder(t.Context(), r, anOrder(5, 1), key); err != queue.ErrFleetStale {
		t.Errorf("a process that does not know the last order gets: %v, want ErrFleetStale", err)
	}
	if n := count(h.metrics.orders); n != 0 {
		t.Errorf("it has published %d orders", n)
	}
}

func TestTheNumberOfAnOrder(t *testing.T) {
	t.Parallel()
	if got, want := orderNumber(anOrder(5, 2)), (api.PermitNumber{Epoch: 5, Seq: 2}); got != want {
		t.Errorf("of a permit it is %+v, want %+v", got, want)
	}
	if got, want := orderNumber(fleetmessage.Order{Deleted: 6}), (api.PermitNumber{Epoch: 6}); got != want {
		t.Errorf("of a deleted FleetRollout it is %+v, want %+v", got, want)
	}
}

func TestAHubNeedsAKey(t *testing.T) {
	t.Parallel()
	h := aHub(t)
	h.Keys = func() ([]nkeys.KeyPair, error) { return nil, nil }
	if keys, err := h.signingKeys(); err == nil {
		t.Errorf("without keys it has %d", len(keys))
	}
}
