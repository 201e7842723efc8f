package fleethub

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/event"
	"sluice.dev/sluice/pkg/queue"
)

// told is a FleetRollout with two transitions and two clusters.
func told() (*api.FleetRollout, map[string]*api.FleetTarget) {
	r, at := aFleetRollout(), metav1.NewMicroTime(start)
	r.Status = api.FleetRolloutStatus{Epoch: 7, Began: 7, Release: &api.FleetRelease{Version: "v2"}, Transitions: []api.FleetTransition{
		{Seq: 1, Time: at, To: "Begun", Epoch: 7, Began: 7, Version: "version/v2"}, {Seq: 2, Time: at, To: "Progressing", Reason: "Wave", Epoch: 7, Began: 7, Version: "version/v2"},
	}}
	target := func(name string, phase api.FleetTargetPhase) *api.FleetTarget {
		return &api.FleetTarget{
			ObjectMeta: metav1.ObjectMeta{Name: "checkout." + name, UID: types.UID("uid-of-" + name)}, Spec: api.FleetTargetSpec{Cluster: name, Permit: api.FleetPermit{Epoch: 7, Seq: 1}},
			Status: api.FleetTargetStatus{Phase: phase, Since: &at, Began: 7},
		}
	}
	return r, map[string]*api.FleetTarget{"eu1": target("eu1", api.FleetTargetPermitted), "eu2": target("eu2", "")}
}

// storedEvents returns the types of the events on NATS, sorted, with the number of events of the same id as one.
func storedEvents(t *testing.T, q *queue.Queue) (types []string) {
	t.Helper()
	for e, err := range q.ReadEvents(t.Context(), queue.ReadOptions{Fleet: true}) {
		if err != nil {
			t.Fatal(err)
		}
		types = append(types, e.Type())
	}
	slices.Sort(types)
	return types
}

func TestEachStateIsToldOnce(t *testing.T) {
	t.Parallel()
	h := aHub(t)
	q := withNATS(t, h)
	r, targets := told()
	published := 0
	newProcess := func() *outbox {
		return &outbox{cluster: "hub", publish: func(ctx context.Context, e event.Event) error { published++; return q.PublishEvent(ctx, e) }}
	}
	first := newProcess()
	tell := func(o *outbox, want int, what string) {
		t.Helper()
		before := published
		if err := o.publishStates(t.Context(), r, targets); err != nil {
			t.Fatal(err)
		}
		if published-before != want {
			t.Errorf("%s: %d events, want %d", what, published-before, want)
		}
	}
	tell(first, 3, "the transitions, and the cluster that has a phase")
	tell(first, 0, "nothing has changed")
	targets["eu1"].Status.Phase, targets["eu1"].Status.Since = api.FleetTargetCompleted, new(metav1.NewMicroTime(start.Add(1)))
	targets["eu1"].Status.Since = new(metav1.NewMicroTime(start.Add(1000)))
	tell(first, 1, "a cluster has another state")
	tell(newProcess(), 3, "another process tells all that it sees")
	want := []string{"dev.sluice.fleet.cluster.completed.v1", "dev.sluice.fleet.cluster.permitted.v1", "dev.sluice.fleet.release.progressing.v1", "dev.sluice.fleet.release.started.v1"}
	if diff := cmp.Diff(want, storedEvents(t, q)); diff != "" {
		t.Error(diff)
	}
}

// The next run publishes an event that NATS did not take.
func TestAnEventThatIsNotTakenIsToldAgain(t *testing.T) {
	t.Parallel()
	r, targets := told()
	away, refused := true, errors.New("NATS is away")
	var ids []string
	o := &outbox{cluster: "hub", publish: func(_ context.Context, e event.Event) error {
		if away {
			return refused
		}
		ids = append(ids, e.ID())
		return nil
	}}
	if err := o.publishStates(t.Context(), r, targets); !errors.Is(err, refused) {
		t.Fatalf("the error is %v", err)
	}
	away = false
	if err := o.publishStates(t.Context(), r, targets); err != nil {
		t.Fatal(err)
	}
	if len(ids) != 3 || ids[0] != "f/1" || ids[1] != "f/2" {
		t.Errorf("the events are %v", ids)
	}
}
