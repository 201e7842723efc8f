package crash

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"sluice.dev/sluice/pkg/queue"
)

const (
	// bound ends a release that never ends although things move.
	bound = 10 * time.Minute
	// resync is the resync of a watcher that loses a frame.
	resync = 3 * time.Second
	// resyncs is the number of reconciliations that a run forces at its end.
	resyncs = 3
	// glance is the interval at which NATS is asked whether a hint was acknowledged, because NATS has no event for it.
	glance = 25 * time.Millisecond
)

// yard is the environment for the runs of one variant.
type yard struct {
	*ground
	variant
}

// dismiss deletes the consumers of a run. Each run is its own cluster for NATS, and a stream has at most a thousand
// consumers.
func (y *yard) dismiss(ctx context.Context, name string) error {
	err := errors.Join(
		y.js.DeleteConsumer(ctx, queue.StreamWork, "executor-"+name),
		y.js.DeleteConsumer(ctx, queue.StreamApprovals, "approval-"+name),
	)
	if y.measured() {
		err = errors.Join(err, y.js.DeleteConsumer(ctx, queue.StreamWork, "analyzer-"+name))
	}
	return err
}

// outcome is the result of a run.
type outcome struct {
	acts []act
	// reached reports that the act of the plan has come. A run without it was an undisturbed one.
	reached bool
	// end has the objects at the end, counts how often each was created and deleted.
	end    map[string]any
	counts map[string]string
	// told has the transitions of the release, to show where a run differed.
	told []string
	// broken has the laws that were broken in the run.
	broken []string
}

// run plays one release by a plan, as soon as there is room for it.
func (y *yard) run(ctx context.Context, p plan) (*outcome, error) {
	name, leave := y.enter()
	defer leave()
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	j, h := newJournal(p), y.witness.of(name)
	defer y.witness.forget(name)
	c := &crew{supervisor: newSupervisor(j, name), w: y.World, hub: y.hub(name), measures: y.measured(), scripts: y.scripts, cluster: name, definition: y.definition()}
	if err := c.start(ctx); err != nil {
		return nil, err
	}
	err := y.play(ctx, name, c, h)
	if ended := errors.Join(c.end(), y.dismiss(ctx, name)); err == nil {
		err = ended
	}
	if err != nil {
		return nil, err
	}
	changes := h.ordered()
	return &outcome{
		acts: j.all(), reached: j.reached(), end: endOf(changes, name), counts: countsOf(changes), told: toldOf(changes), broken: append(j.told(), breaches(changes, y.variant)...),
	}, nil
}

func (y *yard) play(ctx context.Context, name string, c *crew, h *history) error {
	if err := y.create(ctx, name); err != nil {
		return err
	}
	if err := y.release(ctx, name, h, c); err != nil {
		return err
	}
	c.lateness.end()
	key := queue.Key{Cluster: name, Namespace: name, Name: app}
	// The first reconciliation completes pending work. A late request may have created an object that must be deleted
	// again.
	if err := y.look(ctx, key); err != nil {
		return err
	}
	if err := h.await(ctx, "rest", y.settled); err != nil {
		return err
	}
	if err := y.archive.await(ctx, name, h); err != nil {
		return err
	}
	return y.rest(ctx, key, c, h)
}

// rest makes the components reconcile repeatedly after the end, which must write nothing.
func (y *yard) rest(ctx context.Context, key queue.Key, c *crew, h *history) error {
	if err := y.look(ctx, key); err != nil {
		return err
	}
	c.recorded()
	was, done := c.written(), len(c.all())
	for range resyncs {
		if err := y.look(ctx, key); err != nil {
			return err
		}
	}
	if n := c.written() - was; n > 0 {
		c.breach("NoWritesAtRest: %d writes at rest, among %v; the Rollout changed last (-before +after):\n%s", n, c.all()[done:], lastChange(h.ordered(), key.Namespace))
	}
	return nil
}

// look makes all components that work on the release reconcile, and waits until they have.
func (y *yard) look(ctx context.Context, key queue.Key) error {
	if err := lookOnce(ctx, y.queue, y.work, key); err != nil || !y.measured() {
		return err
	}
	key.Task = queue.TaskAnalysis
	return lookOnce(ctx, y.queue, y.work, key)
}

// lookOnce publishes a hint and waits until it was acknowledged.
func lookOnce(ctx context.Context, q *queue.Queue, work jetstream.Stream, key queue.Key) error {
	ctx, cancel := context.WithTimeout(ctx, *patience)
	defer cancel()
	if err := q.PublishHint(ctx, key); err != nil {
		return err
	}
	tick := time.NewTicker(glance)
	defer tick.Stop()
	for {
		_, err := work.GetLastMsgForSubject(ctx, key.WorkSubject())
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("a hint was not worked off: %w, %w", ctx.Err(), err)
		}
	}
}
