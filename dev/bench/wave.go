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
	member
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

// answer is the result of an approval.
type answer struct {
	flight  *flight
	version uint64
	err     error
}

// wave is a number of releases under way. Only its loop accesses its flights.
type wave struct {
	// begin changes the version of a workload; send approves. Both wait for the answer.
	begin   func(context.Context, member) error
	send    func(context.Context, member) (version uint64, err error)
	flights map[string]*flight
	left    int
	answers chan answer
	changes chan error
	began   time.Time
	ended   time.Time
}

// stuckAfter is the time without any change after which a wave ends.
const stuckAfter = 2 * time.Minute

// fly releases a new version of all given members in parallel, and approves every step the moment it pauses. It returns when all are healthy again.
func (f *fleet) fly(ctx context.Context, c *client, members []member) (*wave, error) {
	f.versions++
	ctx, cancel := context.WithCancelCause(ctx)
	w := newWave(members)
	version := newVersion(strconv.Itoa(f.versions))
	w.begin = func(ctx context.Context, m member) error {
		_, err := c.patch(ctx, types.StrategicMergePatchType, collection(deploymentsPath, m.namespace, "deployments")+"/"+m.name, version)
		return err
	}
	w.send = func(ctx context.Context, m member) (uint64, error) {
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

func newWave(members []member) *wave {
	w := &wave{flights: map[string]*flight{}, left: len(members), answers: make(chan answer, len(members)), changes: make(chan error, len(members))}
	for _, m := range members {
		w.flights[m.key()] = &flight{member: m}
	}
	return w
}

// change begins all releases at the same time.
func (w *wave) change(ctx context.Context) {
	w.began = time.Now()
	for _, f := range w.flights {
		f.changed = time.Now()
		go func() { w.changes <- w.begin(ctx, f.member) }()
	}
}

func (w *wave) follow(ctx context.Context, seen <-chan change) error {
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
func (w *wave) see(ctx context.Context, f *flight, v view) {
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

func (w *wave) approve(ctx context.Context, f *flight) {
	f.asking = true
	go func() {
		version, err := w.send(ctx, f.member)
		w.answers <- answer{f, version, err}
	}()
}

// take records the result of an approval. It sends a refused approval again if the release still waits.
func (w *wave) take(ctx context.Context, a answer) {
	f := a.flight
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
func (w *wave) stuck() error {
	for _, f := range w.flights {
		if f.healthy.IsZero() {
			return fmt.Errorf("%d of %d releases have not ended; that of Rollout %s is %s after %d pauses: %s",
				w.left, len(w.flights), f.key(), f.last.Status.Phase, len(f.paused), f.last.Status.Message)
		}
	}
	return nil
}
