package planner

import (
	"time"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
)

// Run makes the decisions of one run of the executor, with as few commits as the invariants allow. If the actions of a decision come first, the
// executor does not commit its status alone. It commits that status together with the next decision. It does so before an action that raises
// exposure, and at the latest when nothing is left to do. A crash before that is a crash between act and commit.
//
// The zero value is a new run. After a conflict, observe the cluster again and begin a new run.
type Run struct {
	carried    *api.RolloutStatus
	kubeEvents []rollout.KubeEvent
}

// Plan decides like the function Plan, on top of the carried status. If the status differs from the status in seen, the caller must commit it. With
// CommitFirst or without actions, the caller commits it first. Otherwise the caller takes the actions and then calls CarryStatus.
func (r *Run) Plan(seen rollout.Seen, now time.Time) rollout.Decision {
	if r.carried == nil {
		return Plan(seen, now)
	}
	var committed int64
	if seen.Status.Sluice != nil {
		committed = seen.Status.Sluice.TransitionSeq
	}
	before := seen.Status
	seen.Status = *r.carried
	d := Plan(seen, now)
	if d.Status.Sluice.TransitionSeq-committed > api.MaxTransitions {
		// The outbox cannot hold the transitions of both decisions, so the first decision is committed alone.
		return rollout.Decision{Status: *r.carried, CommitFirst: true, WakeAt: now, KubeEvents: r.kubeEvents}
	}
	told := differsInProgressOnly(before, *r.carried)
	for _, a := range d.Actions {
		d.CommitFirst = d.CommitFirst || a.RaisesExposure() && !told
	}
	if len(d.Actions) == 0 && len(d.KubeEvents) == 0 && len(r.kubeEvents) == 0 && differsInProgressOnly(before, d.Status) {
		// The result of the last actions is visible without a message, unless the next event takes a while.
		show := now.Add(progressIntervalOf(rollout.State(d.Status.Sluice.State)))
		d.Status = before
		if d.WakeAt.IsZero() || show.Before(d.WakeAt) {
			d.WakeAt = show
		}
	}
	d.KubeEvents = append(r.kubeEvents[:len(r.kubeEvents):len(r.kubeEvents)], d.KubeEvents...)
	return d
}

// CarryStatus carries the status of a decision whose actions are done.
func (r *Run) CarryStatus(d rollout.Decision) {
	r.carried, r.kubeEvents = d.Status.DeepCopy(), d.KubeEvents
}

// StatusCommitted records that the caller wrote the status of the last decision.
func (r *Run) StatusCommitted() { *r = Run{} }

// differsInProgressOnly reports whether two statuses differ at most in progress, and in a wait that is over.
func differsInProgressOnly(before, status api.RolloutStatus) bool {
	if m := before.Sluice; m != nil && status.Sluice != nil && status.Sluice.WakeAt == nil {
		before.Sluice = shallowCopy(m)
		before.Sluice.WakeAt = nil
	}
	return OnlyProgress(before, status)
}
