package fleethub

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/event"
	"sluice.dev/sluice/pkg/queue"
)

// outbox publishes the transitions of FleetRollouts and the states of their clusters, each at least once. A run publishes what it sees before it writes, and
// each write names the version that the run has seen. So no state is replaced before a process has published it.
type outbox struct {
	cluster string
	publish func(context.Context, event.Event) error
	// transitions has the highest sequence published, by FleetRollout UID.
	transitions queue.Sent[int64]
	// targets has the id of the last state published, by FleetTarget UID.
	targets queue.Sent[string]
}

// publishStates publishes what this process has not published yet.
func (o *outbox) publishStates(ctx context.Context, r *api.FleetRollout, targets map[string]*api.FleetTarget) error {
	for _, t := range r.Status.Transitions {
		if t.Seq <= o.transitions.Get(string(r.UID)) {
			continue
		}
		e, err := event.NewFleetTransition(o.cluster, r, t)
		if err != nil {
			return err
		}
		if err := o.publish(ctx, e); err != nil {
			return fmt.Errorf("publish event %s: %w", e.ID(), err)
		}
		o.transitions.Put(string(r.UID), t.Seq)
	}
	writes, ctx := errgroup.WithContext(ctx)
	writes.SetLimit(writers)
	for _, t := range targets {
		if id := event.FleetTargetID(r, t); id != "" && id != o.targets.Get(string(t.UID)) {
			writes.Go(func() error { return o.publishTarget(ctx, r, t, id) })
		}
	}
	return writes.Wait()
}

func (o *outbox) publishTarget(ctx context.Context, r *api.FleetRollout, t *api.FleetTarget, id string) error {
	e, err := event.NewFleetTargetState(o.cluster, r, t)
	if err != nil {
		return err
	}
	if err := o.publish(ctx, e); err != nil {
		return fmt.Errorf("publish event %s: %w", id, err)
	}
	o.targets.Put(string(t.UID), id)
	return nil
}
