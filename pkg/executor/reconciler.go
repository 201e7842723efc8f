package executor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/kube"
	"sluice.dev/sluice/pkg/kube/apiclient"
	"sluice.dev/sluice/pkg/planner"
	"sluice.dev/sluice/pkg/rollout"
)

// MaxRounds bounds the decisions of one run. A release pauses or waits within a few rounds. More rounds mean that two writers undo each other's changes; the
// backoff of the queue handles that better.
const MaxRounds = 24

// maxRefreshes bounds the consecutive conflicts after which the run reads only the object in conflict. More conflicts mean that another writer is active.
const maxRefreshes = 2

// Reconciler is the loop of a run: it decides, carries out the decision, and decides again until nothing is left to do now. The executor runs it for a cluster.
// The simulation runs it for stored objects, so that a plan shows the write order of the executor.
type Reconciler struct {
	Kube  *kube.Client
	Clock func() time.Time

	// Commit writes the status of a decision, and Apply carries out one of its actions.
	Commit func(context.Context, *kube.Snapshot, rollout.Decision) error
	Apply  func(context.Context, *kube.Snapshot, rollout.Action) error
	// RunStage calls do as the named stage of the run.
	RunStage func(ctx context.Context, name string, do func(context.Context) error) error
	// OnDecision, unless nil, is called before the reconciler carries out a decision.
	OnDecision func(*kube.Snapshot, rollout.Decision)
}

// Outcome is the result of a run.
type Outcome struct {
	WakeAt    time.Time // the time of the next reconciliation; zero for never
	Busy      bool      // the run had something to carry out
	Conflicts int       // writes that the API server refused with a conflict
	// Report is what a Rollout of a fleet tells its hub; nil for any other Rollout, and if the run did not come to its end.
	Report *api.FleetReport
}

// Reconcile decides and acts on a snapshot until nothing is left to do. After a conflict it observes the cluster and decides again.
func (r *Reconciler) Reconcile(ctx context.Context, snap *kube.Snapshot) (Outcome, error) {
	name := types.NamespacedName{Namespace: snap.Seen.Namespace, Name: snap.Seen.Name}
	var out Outcome
	var run planner.Run
	conflicts := 0 // in a row
	for range MaxRounds {
		decision := planSnapshot(&run, snap, r.Clock())
		changed := !equality.Semantic.DeepEqual(decision.Status, snap.Seen.Status)
		if !changed && len(decision.Actions) == 0 && (decision.WakeAt.IsZero() || decision.WakeAt.After(r.Clock())) {
			out.WakeAt, out.Report = decision.WakeAt, decision.Report
			return out, nil
		}
		var moved bool
		err := r.RunStage(ctx, stageConfirm, func(ctx context.Context) (err error) {
			moved, err = r.Kube.ConfirmDecision(ctx, snap, decision)
			return err
		})
		if err != nil {
			return out, fmt.Errorf("carry out rollout %s: %w", name, err)
		}
		if moved {
			run = planner.Run{}
			continue
		}
		out.Busy = true
		err = r.carryOut(ctx, snap, &run, decision, changed)
		problem, ok := apiclient.ProblemOf(err)
		switch {
		case ok:
			// This run decides nothing more: the next plan shows the problem, and a later run retries.
			problem.Unknown, problem.FromApply = true, true
			snap.AddProblem(problem)
		case apiclient.IsConflict(err):
			out.Conflicts++
			conflicts++
			if err := r.observeAgain(ctx, snap, err, conflicts); err != nil {
				return out, fmt.Errorf("observe rollout %s again: %w", name, err)
			}
			run = planner.Run{}
		case err != nil:
			return out, fmt.Errorf("carry out rollout %s: %w", name, err)
		default:
			conflicts = 0
		}
	}
	return out, fmt.Errorf("rollout %s did not come to rest in %d rounds", name, MaxRounds)
}

// planSnapshot decides on a snapshot, including the state carried within the run. The status also names the scripts that render the routes.
func planSnapshot(run *planner.Run, snap *kube.Snapshot, now time.Time) rollout.Decision {
	d := run.Plan(snap.Seen, now)
	if len(snap.Scripts) > 0 {
		d.Status.Sluice.Scripts = snap.Scripts
	}
	return d
}

func (r *Reconciler) observeAgain(ctx context.Context, snap *kube.Snapshot, conflict error, inARow int) error {
	return r.RunStage(ctx, stageObserve, func(ctx context.Context) error {
		if inARow > maxRefreshes {
			return r.Kube.ObserveLiveInto(ctx, snap)
		}
		return r.Kube.RefreshConflicted(ctx, snap, conflict)
	})
}

// carryOut commits and acts in the order that the decision requires.
func (r *Reconciler) carryOut(ctx context.Context, snap *kube.Snapshot, run *planner.Run, d rollout.Decision, changed bool) error {
	if r.OnDecision != nil {
		r.OnDecision(snap, d)
	}
	if changed && (d.CommitFirst || len(d.Actions) == 0) {
		if err := r.Commit(ctx, snap, d); err != nil {
			return err
		}
		run.StatusCommitted()
	}
	if len(d.Actions) == 0 {
		return nil
	}
	err := r.RunStage(ctx, stageAct, func(ctx context.Context) error {
		return inOrder(d.Actions, func(action rollout.Action) error { return r.Apply(ctx, snap, action) })
	})
	if err == nil && changed && !d.CommitFirst {
		run.CarryStatus(d)
	}
	return err
}

// inOrder takes the actions in order, up to the first that fails. A route that fails to restore does not keep other routes on the canary. The exception is a
// route that a failed one may still refer to.
func inOrder(actions []rollout.Action, apply func(rollout.Action) error) error {
	var left error
	for _, action := range actions {
		restore, restoring := action.(rollout.RestoreRoute)
		if left != nil && (!restoring || restore.Referenced) {
			return left
		}
		if err := apply(action); err != nil {
			left = errors.Join(left, fmt.Errorf("%s: %w", action, err))
		}
		if left != nil && !restoring {
			return left
		}
	}
	return left
}
