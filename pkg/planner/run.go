package planner

import (
	"time"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
)

// Run plans one run of a shell: decisions one after the other, with as few commits as the laws allow. The status of a decision
// that acts first is not committed by itself. It goes along, and is committed together with the next one: before anything
// that raises, and at the latest when there is nothing left to do. A crash before that is one between act and commit.
//
// The zero value is a new run. Look at the world again and begin a new one after a conflict.
type Run struct {
	carried    *api.RolloutStatus
	kubeEvents []rollout.KubeEvent
}

// Plan makes the decision of the function of that name, on top of the status that the run carries along. The executor commits the decision if its
// status differs from the status in seen: before its actions with CommitFirst or without actions. Otherwise it does not commit now, and calls
// CarryStatus after the actions.
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
		// The outbox does not hold what both have to tell, so that the first one goes by itself.
		return rollout.Decision{Status: *r.carried, CommitFirst: true, WakeAt: now, KubeEvents: r.kubeEvents}
	}
	told := differsInProgressOnly(before, *r.carried)
	for _, a := range d.Actions {
		d.CommitFirst = d.CommitFirst || a.RaisesExposure() && !told
	}
	if len(d.Actions) == 0 && len(d.KubeEvents) == 0 && len(r.kubeEvents) == 0 && differsInProgressOnly(before, d.Status) {
		// A fast action shows its effect by itself; only a slow one needs a message.
		d.Status = before
		if show := now.Add(progressInterval); d.WakeAt.IsZero() || show.Before(d.WakeAt) {
			d.WakeAt = show
		}
	}
	d.KubeEvents = append(r.kubeEvents[:len(r.kubeEvents):len(r.kubeEvents)], d.KubeEvents...)
	return d
}

// CarryStatus takes the status of a decision along whose actions are done.
func (r *Run) CarryStatus(d rollout.Decision) {
	r.carried, r.kubeEvents = d.Status.DeepCopy(), d.KubeEvents
}

// StatusCommitted says that the status of the last decision was written.
func (r *Run) StatusCommitted() { *r = Run{} }

// differsInProgressOnly reports whether a status differs from one before at most in how far something has come, and in a wait that is over.
func differsInProgressOnly(before, status api.RolloutStatus) bool {
	if m := before.Sluice; m != nil && status.Sluice != nil && status.Sluice.WakeAt == nil {
		before.Sluice = shallowCopy(m)
		before.Sluice.WakeAt = nil
	}
	return OnlyProgress(before, status)
}
