package simulate

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/executor"
	"sluice.dev/sluice/pkg/kube"
	"sluice.dev/sluice/pkg/kube/apiclient"
	"sluice.dev/sluice/pkg/rollout"
	"sluice.dev/sluice/pkg/trafficrouting"
)

// runEnd is the state at the end of a run.
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

// newReconciler returns the loop of the executor on the simulated API server. It records decisions and actions.
func (p *simulation) newReconciler() *executor.Reconciler {
	return &executor.Reconciler{
		Kube: p.client, Clock: func() time.Time { return p.now },
		Commit: func(ctx context.Context, snap *kube.Snapshot, d rollout.Decision) error {
			return p.client.CommitStatus(ctx, snap, d.Status)
		},
		Apply: func(ctx context.Context, snap *kube.Snapshot, action rollout.Action) error {
			err := p.client.ApplyAction(ctx, snap, action)
			if err == nil {
				p.rec.addAction(action.String())
			}
			return err
		},
		RunStage:   func(ctx context.Context, _ string, do func(context.Context) error) error { return do(ctx) },
		OnDecision: p.rec.recordDecision,
	}
}

// runUntilIdle carries the release on as far as possible now.
func (p *simulation) runUntilIdle(ctx context.Context) (runEnd, error) {
	snap, err := p.client.ObserveLive(ctx, p.Rollout)
	if err != nil {
		return runEnd{}, fmt.Errorf("look at Rollout %s: %w", p.Rollout, err)
	}
	out, err := p.reconciler.Reconcile(ctx, snap)
	return runEnd{status: snap.Seen.Status, wake: out.WakeAt, seen: snap.Seen}, err
}

// advanceTrafficRouting carries on the TrafficRouting of the Rollout as far as possible, and reports whether it changed anything.
func (p *simulation) advanceTrafficRouting(ctx context.Context) (moved bool, err error) {
	if p.spec.TrafficRouting == "" {
		return false, nil
	}
	before := p.store.version
	for range executor.MaxRounds {
		snap, err := p.client.ObserveRouting(ctx, types.NamespacedName{Namespace: p.Rollout.Namespace, Name: p.spec.TrafficRouting})
		if apiclient.IsGone(err) {
			return false, nil // the release stalls because of it
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
	return false, fmt.Errorf("TrafficRouting %s did not come to rest in %d rounds", p.spec.TrafficRouting, executor.MaxRounds)
}
