package main

import (
	"context"

	"sluice.dev/sluice/pkg/rollout"
	"sluice.dev/sluice/pkg/workload"
)

// inPlace returns the writes of partition style, in which the Deployment replaces its own pods. In each step a write allows surge pods. When those are ready,
// another write lets the Deployment remove as many old pods. The last write of a step pauses the Deployment.
func (l *least) inPlace() []move {
	surge := shareOf("25%", l.shape.replicas) // the default of a Deployment
	moves := []move{{"change the Deployment", l.change}, {"narrow the Service", l.pin}}
	have := int32(0)
	for step := int32(1); int(step) <= l.shape.steps; step++ {
		moves = append(moves, l.begins(step))
		before, want := have, l.shape.podsOf(step)
		for have < want {
			more := min(want, have+surge)
			moves = append(moves, move{"let new pods come", l.replace(have, more)}, move{"let old pods go", l.replace(more, more)})
			have = more
		}
		if have > before {
			moves = append(moves, move{"pause the Deployment", l.rest(have)})
		}
		moves = append(moves, l.routes(step)...)
	}
	return append(moves, l.ends(move{"let the Deployment go", l.resume})...)
}

// room returns the budget with which gone old pods are removed, and come new pods exist.
func (l *least) room(gone, come int32) rollout.Budget {
	return rollout.Budget{Unavailable: (100*gone + int32(l.shape.replicas) - 1) / int32(l.shape.replicas), Surge: come - gone}
}

// replace waits until gone old pods are removed, and come new pods are ready.
func (l *least) replace(gone, come int32) func(context.Context) error {
	return func(ctx context.Context) (err error) {
		if l.stable, err = l.patchDeployment(ctx, l.name, workload.ResumeRollingUpdate(l.stable, l.name, l.room(gone, come))); err != nil {
			return err
		}
		return l.seen.await(ctx, l.rolloutName, func() bool {
			pods := l.seen.pods(l.stable)
			old := pods[l.stableHash].Replicas
			delete(pods, l.stableHash)
			for hash, now := range pods {
				l.canaryHash = hash
				return now.ReadyReplicas == come && old == int32(l.shape.replicas)-gone
			}
			return false
		})
	}
}

func (l *least) rest(have int32) func(context.Context) error {
	return func(ctx context.Context) (err error) {
		l.stable, err = l.patchDeployment(ctx, l.name, workload.PauseDeployment(l.stable, l.room(have, have)))
		return err
	}
}
