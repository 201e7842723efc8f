package executor

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/kube"
	"sluice.dev/sluice/pkg/kube/apiclient"
	"sluice.dev/sluice/pkg/queue"
	"sluice.dev/sluice/pkg/rollout"
	"sluice.dev/sluice/pkg/trafficrouting"
)

// reconcileRouting reconciles one TrafficRouting as far as possible now.
func (e *Executor) reconcileRouting(ctx context.Context, name types.NamespacedName) queue.Result {
	var snap *kube.RoutingSnapshot
	observe := func(ctx context.Context) (err error) {
		snap, err = e.Kube.ObserveRouting(ctx, name)
		return err
	}
	for range MaxRounds {
		if snap == nil {
			err := e.runStage(ctx, stageObserve, observe)
			if apiclient.IsGone(err) {
				_, err := e.cleanUpOrphanedRoutes(ctx, api.KindTrafficRouting, name)
				return queue.Result{Err: err}
			}
			if err != nil {
				return routingResult(fmt.Errorf("observe TrafficRouting %s: %w", name, err))
			}
		}
		decision := trafficrouting.Plan(snap.Seen)
		if len(decision.Actions) == 0 {
			r := e.endRoutingRun(ctx, snap, decision)
			if !apiclient.IsConflict(r.Err) {
				return r
			}
			snap = nil
			continue
		}
		err := e.carryOutRouting(ctx, name, snap, decision)
		problem, ok := apiclient.ProblemOf(err)
		switch {
		case ok: // the status shows the problem, and a later run retries
			snap.AddProblem(problem)
			r := e.endRoutingRun(ctx, snap, trafficrouting.Plan(snap.Seen))
			r.WakeAt = e.Clock().Add(unreadableRetry)
			return r
		case apiclient.IsConflict(err):
			e.metrics.conflicts.Inc()
			snap = nil
		case err != nil:
			return routingResult(fmt.Errorf("carry out TrafficRouting %s: %w", name, err))
		}
	}
	return queue.Result{Err: fmt.Errorf("TrafficRouting %s did not come to rest in %d rounds", name, MaxRounds)}
}

// routingResult returns the result of a run that ended with err. It drops the error if the TrafficRouting is gone.
func routingResult(err error) queue.Result {
	if apiclient.IsGone(err) {
		return queue.Result{}
	}
	return queue.Result{Err: err}
}

func (e *Executor) carryOutRouting(ctx context.Context, name types.NamespacedName, snap *kube.RoutingSnapshot, d trafficrouting.Decision) error {
	if d.NeedsCommitFirst(snap.Seen) {
		if err := e.commitRouting(ctx, snap, d); err != nil {
			return err
		}
	}
	return e.runStage(ctx, stageAct, func(ctx context.Context) error {
		return inOrder(d.Actions, func(action rollout.Action) error {
			e.Logger.Info("act", "namespace", name.Namespace, "trafficrouting", name.Name, "action", action.String())
			return e.runAction(ctx, action, func(ctx context.Context) error { return e.Kube.ApplyRouting(ctx, snap, action) })
		})
	})
}

// endRoutingRun commits the status of a run that has no more actions.
func (e *Executor) endRoutingRun(ctx context.Context, snap *kube.RoutingSnapshot, d trafficrouting.Decision) queue.Result {
	if err := e.commitRouting(ctx, snap, d); err != nil {
		return routingResult(fmt.Errorf("commit status: %w", err))
	}
	return queue.Result{WakeAt: e.nextWake(time.Time{}, snap.Seen.Problems, snap.Seen.Routes)}
}

func (e *Executor) commitRouting(ctx context.Context, snap *kube.RoutingSnapshot, d trafficrouting.Decision) error {
	if equality.Semantic.DeepEqual(d.Status, snap.Seen.Status) {
		return nil
	}
	before := snap.Seen.Status
	if err := e.runStage(ctx, stageCommit, func(ctx context.Context) error { return e.Kube.CommitRouting(ctx, snap, d.Status) }); err != nil {
		return err
	}
	if d.Problem != nil && d.Status.Message != before.Message {
		e.Kube.RecordRoutingEvent(snap, string(d.Problem.Reason), d.Problem.Message)
	}
	return nil
}
