package simulate

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"

	"sluice.dev/sluice/pkg/api"
	kube "sluice.dev/sluice/pkg/kube"
	"sluice.dev/sluice/pkg/planner"
	"sluice.dev/sluice/pkg/rollout"
	"sluice.dev/sluice/pkg/trafficrouting"
)

// This file is what executors do with a release and with a TrafficRouting, without a queue: nobody else is there.

// runEnd is how a run ended.
type runEnd struct {
	status api.RolloutStatus
	wake   time.Time
	seen   rollout.Seen
}

func stateOf(s api.RolloutStatus) rollout.State {
	if s.Sluice == nil {
		return rollout.StateIdle
	}
	return rollout.State(s.Sluice.State)
}

// runUntilIdle decides and acts until nothing is left to do, as an executor does.
func (p *simulation) runUntilIdle(ctx context.Context) (runEnd, error) {
	snap, err := p.client.ObserveLive(ctx, p.Rollout)
	if err != nil {
		return runEnd{}, fmt.Errorf("look at Rollout %s: %w", p.Rollout, err)
	}
	var run planner.Run
	for range maxRounds {
		d := run.Plan(snap.Seen, p.now)
		if len(snap.Scripts) > 0 {
			d.Status.Sluice.Scripts = snap.Scripts
		}
		changed := !equality.Semantic.DeepEqual(d.Status, snap.Seen.Status)
		if !changed && len(d.Actions) == 0 && (d.WakeAt.IsZero() || d.WakeAt.After(p.now)) {
			return runEnd{status: snap.Seen.Status, wake: d.WakeAt, seen: snap.Seen}, nil
		}
		before := stateOf(snap.Seen.Status)
		err := p.carryOut(ctx, snap, &run, d, changed)
		if began := before != rollout.StateInitializing && stateOf(snap.Seen.Status) == rollout.StateInitializing; err == nil && began {
			err = p.client.ObserveLiveInto(ctx, snap) // an executor, too, reads the EndpointSlices when a release has begun
		}
		problem, held := kube.ProblemOf(err)
		switch {
		case held:
			problem.Unknown, problem.FromApply = true, true
			snap.AddProblem(problem)
		case kube.IsConflict(err): // too slow a machine
			run = planner.Run{}
			if err := p.client.ObserveLiveInto(ctx, snap); err != nil {
				return runEnd{}, err
			}
		case err != nil:
			return runEnd{}, err
		}
	}
	return runEnd{}, fmt.Errorf("the release of Rollout %s did not come to rest in %d rounds", p.Rollout, maxRounds)
}

// carryOut commits and acts in the order that the decision asks for.
func (p *simulation) carryOut(ctx context.Context, snap *kube.Snapshot, run *planner.Run, d rollout.Decision, changed bool) error {
	p.rec.recordResult(d.Status, snap.Seen)
	p.rec.enterPhase(d.Status)
	for _, note := range d.KubeEvents {
		if note.Reason == planner.ReasonSameRolloutID { // the new version rolls out without the steps
			p.rec.addRefusal(Refusal{Reason: note.Reason, Message: note.Message})
		}
	}
	if changed && (d.CommitFirst || len(d.Actions) == 0) {
		if err := p.client.CommitStatus(ctx, snap, d.Status); err != nil {
			return fmt.Errorf("commit status: %w", err)
		}
		run.StatusCommitted()
	}
	for _, a := range d.Actions {
		if err := p.client.ApplyAction(ctx, snap, a); err != nil {
			return fmt.Errorf("%s: %w", a, err)
		}
		p.rec.addAction(a.String())
	}
	if changed && !d.CommitFirst && len(d.Actions) > 0 {
		run.CarryStatus(d)
	}
	return nil
}

// advanceTrafficRouting takes the TrafficRouting that the Rollout names as far as it can go, and reports whether there was anything to do.
func (p *simulation) advanceTrafficRouting(ctx context.Context) (moved bool, err error) {
	if p.spec.TrafficRouting == "" {
		return false, nil
	}
	before := p.store.version
	for range maxRounds {
		snap, err := p.client.ObserveRouting(ctx, types.NamespacedName{Namespace: p.Rollout.Namespace, Name: p.spec.TrafficRouting})
		if kube.IsGone(err) {
			return false, nil // which the release is held for
		}
		if err != nil {
			return false, err
		}
		d := trafficrouting.Plan(snap.Seen)
		if d.NeedsCommitFirst(snap.Seen) || len(d.Actions) == 0 {
			if err := p.client.CommitRouting(ctx, snap, d.Status); err != nil {
				return false, fmt.Errorf("commit status: %w", err)
			}
		}
		if len(d.Actions) == 0 {
			return p.store.version != before, nil
		}
		for _, a := range d.Actions {
			if err := p.client.ApplyRouting(ctx, snap, a); err != nil {
				return false, fmt.Errorf("%s: %w", a, err)
			}
			p.rec.addAction(a.String() + ", for TrafficRouting " + p.spec.TrafficRouting)
		}
	}
	return false, fmt.Errorf("TrafficRouting %s did not come to rest in %d rounds", p.spec.TrafficRouting, maxRounds)
}
