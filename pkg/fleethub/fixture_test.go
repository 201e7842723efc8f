package fleethub

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/nats-io/nkeys"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/fleetmessage"
	"sluice.dev/sluice/pkg/queue"
	"sluice.dev/sluice/pkg/queue/embedded"
	"sluice.dev/sluice/test/natsdir"
)

// patience bounds every wait of these tests; only a defect can use it up.
const patience = 10 * time.Minute

var start = time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)

// aHub returns a hub without a control plane and without NATS. Its time stands still.
func aHub(t *testing.T) *Hub {
	t.Helper()
	h := &Hub{
		Options: Options{Clock: func() time.Time { return start }, Logger: slog.New(slog.NewTextHandler(t.Output(), nil))}, started: start.Add(-time.Hour),
		opened: openedMessages{known: map[string]openedMessage{}}, counted: map[types.NamespacedName]time.Time{}, uid: "hub",
	}
	h.beats = newBeats(h)
	h.metrics = newMetrics(nil, h)
	return h
}

// withNATS gives the hub streams of its own. Nothing reads them: the hub knows what it has published.
func withNATS(t *testing.T, h *Hub) *queue.Queue {
	t.Helper()
	s, err := embedded.Start(embedded.Options{Dir: natsdir.ForTest(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	q, err := queue.Connect(ctx, queue.Options{URL: s.URL(), User: s.User(), Password: s.Password(), Logger: h.Logger})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(q.Close)
	if err := q.CreateHubStreams(ctx); err != nil {
		t.Fatal(err)
	}
	h.orders, h.answers = q.NewFleetStates(queue.StreamFleetDown, func(string) {}), q.NewFleetStates(queue.StreamFleetUp, func(string) {})
	return q
}

// aKey returns a private key with its public one.
func aKey(t *testing.T) signingKey {
	t.Helper()
	pair, err := nkeys.CreateUser()
	if err != nil {
		t.Fatal(err)
	}
	public, err := pair.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	return signingKey{pair, public}
}

// aMember is the cluster eu1 with a key, as the hub has heard it first.
func aMember(key signingKey) *api.FleetMember {
	return &api.FleetMember{
		ObjectMeta: metav1.ObjectMeta{Name: "eu1", UID: "m"}, Spec: api.FleetMemberSpec{Key: key.public}, Status: api.FleetMemberStatus{Phase: api.FleetMemberReady, UID: "uid-of-eu1"},
	}
}

func aFleetRollout() *api.FleetRollout {
	return &api.FleetRollout{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "checkout", UID: "f"}}
}

func count(c prometheus.Collector) int { return int(testutil.ToFloat64(c)) }

// refusals is how many messages of a kind were refused for a reason.
func (h *Hub) refusals(kind string, reason fleetmessage.Reason) int {
	return count(h.metrics.refusals.WithLabelValues(kind, string(reason)))
}
