package planner

import (
	"cmp"
	"slices"
	"time"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
)

// This file tells the hub what a governed Rollout does about its permit.

const (
	// unhealthyAfter is how long too few pods are ready before the cluster is unhealthy.
	unhealthyAfter = time.Minute
	// healthyPercent of the wanted pods are ready in a healthy cluster.
	healthyPercent = 90
)

// fleetReport returns the report for the status that this call has decided; nil for a Rollout without a fleet, and if the executor could not read an
// object.
func (p *planner) fleetReport() *api.FleetReport {
	if !p.governed() || p.unknownProblem() != nil {
		return nil
	}
	f, w := p.status.Fleet, p.seen.Workload
	r := &api.FleetReport{RolloutUID: typesUID(p.seen.UID), PlanHash: p.seen.Spec.Hash, Blocked: f.Blocked, Unpermitted: f.Unpermitted, Unhealthy: p.unhealthy()}
	number := f.Permit.Number()
	r.Epoch, r.Seq = number.Epoch, number.Seq
	if len(f.Served) > 0 {
		r.Stable = f.Served[0]
	}
	if p.currentState().InStep() {
		r.Step = p.m.Step
	}
	if state := p.currentState(); p.overridden() && f.Override.Actor != "" && state != rollout.StateIdle && state != rollout.StateAborted {
		r.Overridden = withComment(f.Override.Actor, f.Override.Reason)
	}
	if w == nil || w.Deleting {
		r.State, r.Reason, r.Message = api.FleetReportIdle, string(rollout.ReasonWorkloadMissing), p.status.Message
		return r
	}
	from := w.Revision
	if p.currentState() == rollout.StateIdle && !w.Held {
		from = "" // the next version
	}
	r.Template, r.CanGoBack = p.templateVersion(), w.HistoryLimit > 0 && p.goodRevision(from) != nil
	if p.currentState() == rollout.StateInitializing && p.earlyPods().Replicas > 0 && p.refused != nil {
		r.Unpermitted = api.FleetUnpermittedNotHeld
	}
	r.State, r.Reason = p.answerPermit()
	r.AwaitsPerson = p.awaitsPerson()
	if r.Reason != "" || r.AwaitsPerson {
		r.Message = p.status.Message
	}
	if refusal := p.deliveryRefusal(); refusal != nil && refusal.reason == r.Reason {
		r.Message = refusal.message
	}
	return r
}

// answerPermit returns what the Rollout does about its permit, and why.
func (p *planner) answerPermit() (api.FleetReportState, string) {
	f, state := p.status.Fleet, p.currentState()
	permit := f.Permit
	if state == rollout.StateDisabled || state == rollout.StateTerminated {
		return api.FleetReportUngoverned, string(state)
	}
	if permit != nil && (permit.Verb == api.FleetVerbWithdraw || permit.Verb == api.FleetVerbAbort) {
		return p.answerReturn()
	}
	underWay := state.InStep() || p.finalisingFor(api.FinaliseSuccess)
	delivery, why, ok := p.answerDelivery()
	mine := f.Used != nil && f.Used.Release == p.m.Epoch && f.Used.Failure == ""
	switch {
	case permit != nil && len(f.Served) > 0 && f.Served[0].Revision == p.permitRevision() && f.Served[0].Named(permit.Version) && !underWay && p.runsOnly(p.permitRevision()):
		return api.FleetReportCompleted, ""
	case ok:
		return delivery, why
	case underWay && p.refused != nil && (p.refused.reason == api.FleetReasonAtHold || p.refused.reason == api.FleetReasonPlanChanged):
		return api.FleetReportAtHold, p.refused.reason
	case underWay && (mine || !p.needsPermit()):
		if p.held != nil && p.held.Reason == rollout.ReasonRejected {
			return api.FleetReportFailed, string(rollout.ReasonRejected)
		}
		return api.FleetReportProgressing, p.refusalReason()
	case state == rollout.StateInitializing && permit != nil && p.permitRevision() != p.seen.Workload.Revision:
		return api.FleetReportHeld, p.refusalReason() // another version came in the place of the permitted one
	case permit != nil && f.Used != nil && !f.Used.Number().Before(permit.Number()) && !mine:
		return api.FleetReportFailed, cmp.Or(f.Used.Failure, string(api.FinaliseRollback)) // a user has taken it back after its end
	case state == rollout.StateInitializing && p.refused != nil && p.refused.reason == api.FleetReasonAtHold:
		return api.FleetReportAtHold, p.refused.reason
	case state == rollout.StateIdle:
		return api.FleetReportIdle, ""
	}
	return api.FleetReportHeld, p.refusalReason()
}

// answerReturn returns how far the Rollout has gone back by order of the hub.
func (p *planner) answerReturn() (api.FleetReportState, string) {
	present := p.presentBlockedKey()
	if present != "" && p.revisionToReturnTo() == nil {
		return api.FleetReportFailed, api.FleetReasonNoWayBack
	}
	f := p.status.Fleet
	blocked, unknown := p.runsBlocked()
	unknown = unknown && f.Permit.Verb == api.FleetVerbWithdraw && !f.Releasing.Named(f.Permit.Version)
	if unknown && p.currentState() == rollout.StateIdle {
		return api.FleetReportFailed, api.FleetReasonVersionUnknown
	}
	done := false
	switch state := p.currentState(); state {
	case rollout.StateIdle:
		done = true
	case rollout.StateInitializing:
		done = p.earlyPods().Replicas == 0 || p.blockedKey(f.Releasing) == ""
	case rollout.StateAborted:
		done = p.onlyStableRuns()
	case rollout.StateFinalising:
	default:
		done = p.blockedKey(f.Releasing) == "" // a release that goes on without permits
	}
	switch {
	case !done || present != "" || blocked || unknown || p.podsLeave():
		return api.FleetReportProgressing, ""
	case p.contested():
		return api.FleetReportCompleted, api.FleetReasonContested
	}
	return api.FleetReportCompleted, ""
}

// podsLeave reports whether the controller of the workload has still to delete pods of a version other than the present one.
func (p *planner) podsLeave() bool {
	served := p.status.Fleet.Served
	return slices.ContainsFunc(p.seen.Workload.Revisions, func(set rollout.Revision) bool {
		return set.Surplus > 0 && (len(served) == 0 || set.Revision != served[0].Revision)
	})
}

// contested reports whether lost pods of the workload would come back in a withdrawn version, because a client has applied it again.
func (p *planner) contested() bool {
	w := p.seen.Workload
	return w.Held && p.blockedKey(p.templateVersion()) != "" && w.UpdateMechanism != rollout.MechanismRollingUpdate && w.RevertsTo == ""
}

// runsOnly reports whether all pods have a version.
func (p *planner) runsOnly(revision string) bool {
	return p.seen.Canary == nil && !slices.ContainsFunc(p.seen.Workload.Revisions, func(set rollout.Revision) bool { return set.Replicas > 0 && set.Revision != revision })
}

// runsBlocked reports whether pods of the workload run a withdrawn version, and whether some run a version without a known name, because it is older
// than the fleet of the Rollout.
func (p *planner) runsBlocked() (blocked, unknown bool) {
	for _, set := range p.seen.Workload.Revisions {
		if set.Replicas > 0 {
			version := p.versionOf(set.Revision)
			blocked, unknown = blocked || p.blockedKey(version) != "", unknown || len(version.Keys()) == 0
		}
	}
	return blocked, unknown
}

func (p *planner) refusalReason() string {
	if p.refused == nil {
		return ""
	}
	return p.refused.reason
}

// awaitsPerson reports whether the release waits for a person in this cluster.
func (p *planner) awaitsPerson() bool {
	if p.refused != nil && p.refused.reason == api.FleetReasonPlanChanged {
		return true
	}
	state := p.currentState()
	if p.seen.Spec.Paused && (state == rollout.StateInitializing || state.InStep()) {
		return true
	}
	if state != rollout.StatePaused {
		return false
	}
	if p.held != nil {
		return p.held.Reason == rollout.ReasonAnalysisInconclusive || p.held.Reason == rollout.ReasonAnalysisFailed
	}
	return p.seen.Spec.WaitsForApproval(p.m.Step) && !p.permitsPauses() && p.pauseDecision() == nil
}

// watchHealth notes since when too few pods are ready, while no change of the release explains it.
func (p *planner) watchHealth() {
	if !p.governed() {
		return
	}
	f, w, state := p.status.Fleet, p.seen.Workload, p.currentState()
	still := state == rollout.StateIdle || state == rollout.StatePaused || state == rollout.StateReady
	if !still || w == nil || w.DesiredReplicas == 0 {
		f.UnreadySince = nil
		return
	}
	ready := w.ReadyPods()
	if state == rollout.StateIdle { // in a step, a release may keep pods from counting as available
		ready = w.Available
	}
	if 100*ready >= healthyPercent*w.DesiredReplicas {
		f.UnreadySince = nil
		return
	}
	if f.UnreadySince == nil {
		f.UnreadySince = new(microTime(p.now))
	}
	if due := f.UnreadySince.Add(unhealthyAfter); p.now.Before(due) {
		p.wakeAt(due)
	}
}

// unhealthy reports whether less than 90 % of the wanted pods have been ready for 60 s.
func (p *planner) unhealthy() bool {
	since := p.status.Fleet.UnreadySince
	return since != nil && !p.now.Before(since.Add(unhealthyAfter))
}
