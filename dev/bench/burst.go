package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"sluice.dev/sluice/pkg/api"
)

// flight is one release from its change to its end, as a client observes it.
type flight struct {
	rolloutName
	changed, healthy time.Time
	// paused and approved are the times at which each pause was observed and its approval was sent.
	paused, approved []time.Time
	step             int32
	// accepted is the version of the Rollout with the last approval; 0 while no answer is known.
	accepted uint64
	asking   bool
	last     view
	// lost counts approvals that were accepted and then replaced by a later write; refused counts approvals that were not accepted.
	lost, refused int
}

// answer is the result of the approval of a step.
type answer struct {
	flight  *flight
	step    int32
	version uint64
	err     error
}

// burst is a number of releases under way. Only its loop accesses its flights.
type burst struct {
	// begin changes the version of a workload; send approves. Both wait for the answer.
	begin   func(context.Context, rolloutName) error
	send    func(context.Context, rolloutName) (version uint64, err error)
	flights map[string]*flight
	left    int
	answers chan answer
	changes chan error
	began   time.Time
	ended   time.Time
}

// stuckAfter is the time without any change after which a burst ends.
const stuckAfter = 2 * time.Minute

// fly releases a new version of all given Rollouts in parallel, and approves every step the moment it pauses. It returns when all are healthy again.
func (f *rolloutSet) fly(ctx context.Context, c *client, names []rolloutName) (*burst, error) {
	f.versions++
	ctx, cancel := context.WithCancelCause(ctx)
	w := newBurst(names)
	version := strconv.Itoa(f.versions)
	w.begin = func(ctx context.Context, m rolloutName) error {
		if f.announce != nil {
			if err := f.announce(ctx, m, version); err != nil {
				return err
			}
		}
		_, err := c.patch(ctx, types.StrategicMergePatchType, collection(deploymentsPath, m.namespace, "deployments")+"/"+m.name, f.shape.newVersion(version))
		return err
	}
	w.send = func(ctx context.Context, m rolloutName) (uint64, error) {
		return c.patch(ctx, types.MergePatchType, collection(rolloutsPath, m.namespace, "rollouts")+"/"+m.name+"/status", f.shape.approval())
	}
	seen := make(chan change, 1024)
	watched := make(chan struct{})
	begun := make(chan struct{}, 1)
	go func() {
		defer close(watched)
		err := c.watch(ctx, collection(rolloutsPath, "", "rollouts"), label+"="+f.name, func(e change) {
			select {
			case seen <- e:
			case <-ctx.Done():
			}
			select {
			case begun <- struct{}{}:
			default:
			}
		})
		if err != nil {
			cancel(err)
		}
	}()
	defer func() { cancel(nil); <-watched }()
	select {
	case <-begun: // the watch has begun
	case <-ctx.Done():
		return w, context.Cause(ctx)
	}
	w.change(ctx)
	return w, w.follow(ctx, seen)
}

func newBurst(names []rolloutName) *burst {
	w := &burst{flights: map[string]*flight{}, left: len(names), answers: make(chan answer, len(names)), changes: make(chan error, len(names))}
	for _, m := range names {
		w.flights[m.key()] = &flight{rolloutName: m}
	}
	return w
}

// change begins all releases at the same time.
func (w *burst) change(ctx context.Context) {
	w.began = time.Now()
	for _, f := range w.flights {
		f.changed = time.Now()
		go func() { w.changes <- w.begin(ctx, f.rolloutName) }()
	}
}

func (w *burst) follow(ctx context.Context, seen <-chan change) error {
	stuck := time.NewTimer(stuckAfter)
	defer stuck.Stop()
	for w.left > 0 {
		select {
		case e := <-seen:
			if f := w.flights[e.Object.key()]; f != nil && f.healthy.IsZero() {
				w.see(ctx, f, e.Object)
				stuck.Reset(stuckAfter)
			}
		case a := <-w.answers:
			w.take(ctx, a)
		case err := <-w.changes:
			if err != nil {
				return fmt.Errorf("begin a release: %w", err)
			}
		case <-stuck.C:
			return w.stuck()
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), w.stuck())
		}
	}
	w.ended = time.Now()
	return nil
}

// see processes the current state of a Rollout.
func (w *burst) see(ctx context.Context, f *flight, v view) {
	now := time.Now()
	f.last = v
	step := v.pausedAt()
	switch {
	case v.Status.Phase == api.PhaseHealthy && len(f.paused) > 0:
		f.healthy = now
		w.left--
	case step > f.step:
		f.step, f.accepted = step, 0
		f.paused = append(f.paused, now)
		f.approved = append(f.approved, now)
		w.approve(ctx, f)
	case step != 0 && step == f.step && !f.asking && f.accepted != 0 && v.version() > f.accepted:
		f.lost++
		w.approve(ctx, f)
	}
}

func (w *burst) approve(ctx context.Context, f *flight) {
	f.asking = true
	step := f.step
	go func() {
		version, err := w.send(ctx, f.rolloutName)
		w.answers <- answer{f, step, version, err}
	}()
}

// take records the result of an approval. It sends a refused approval again if the release still waits.
func (w *burst) take(ctx context.Context, a answer) {
	f := a.flight
	if a.step < f.step { // the watch was faster than this answer
		return
	}
	f.asking = false
	switch {
	case a.err != nil:
		f.refused++
		if f.last.pausedAt() == f.step && f.healthy.IsZero() && ctx.Err() == nil {
			w.approve(ctx, f)
		}
	default:
		f.accepted = a.version
		if f.last.pausedAt() == f.step && f.last.version() > a.version {
			f.lost++
			w.approve(ctx, f)
		}
	}
}

// stuck returns an error with the releases that did not end.
func (w *burst) stuck() error {
	for _, f := range w.flights {
		if f.healthy.IsZero() {
			return fmt.Errorf("%d of %d releases have not ended; that of Rollout %s is %s after %d pauses: %s",
				w.left, len(w.flights), f.key(), f.last.Status.Phase, len(f.paused), f.last.Status.Message)
		}
	}
	return nil
}
