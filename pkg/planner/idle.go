package planner

import (
	"fmt"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
)

// planIdle adopts the workload and waits for a new version of it.
func (p *planner) planIdle() {
	if p.seen.Spec.Disabled {
		p.enterState(rollout.StateDisabled, "Disabled", "Rollout is disabled", "")
		return
	}
	w := p.seen.Workload
	if rival := p.rival(); rival != "" {
		p.holdFor(p.workloadConflict(rival))
		return
	}
	if w == nil || w.Deleting {
		if !p.earlierReleaseCleared(false) {
			return
		}
		if len(p.seen.Spec.Unsupported) > 0 {
			p.holdFor(p.unsupportedFields())
			return
		}
		p.holdFor(p.missingWorkload())
		return
	}
	if typesUID(w.UID) != p.m.WorkloadUID {
		p.m.WorkloadUID, p.m.StableRevision = typesUID(w.UID), "" // nothing is known of the new workload yet
	}
	if !w.Adopted || p.governed() && w.IDLetsThrough {
		id := rollout.StableIDPresent
		if w.Held || p.rollsNatively() || p.governed() {
			id = rollout.StableIDUnknown
		}
		p.addActions(rollout.AdoptWorkload{Workload: p.seen.Spec.Workload, StableID: id})
		return
	}
	due := p.releaseDue()
	if !p.earlierReleaseCleared(due) {
		return
	}
	if !p.imagesDelivered() {
		return
	}
	if due {
		p.startRelease()
		return
	}
	if w.TakenOver || w.Held { // a user has resumed it by force, or its kind cannot be held
		p.resumeWorkload()
		return
	}
	p.recordStableRevision()
	p.recordServed()
	p.showProblems()
}

// rival returns the name of another Rollout that governs the workload, "" for none. That one has adopted the workload, or came first.
func (p *planner) rival() string {
	if w := p.seen.Workload; w != nil && w.AdoptedBy != "" {
		return w.AdoptedBy
	}
	return p.seen.Rival
}

// showProblems shows, while the Rollout is idle, the problem that would stall the next release.
func (p *planner) showProblems() {
	switch w := p.seen.Workload; {
	case p.showDeliveryProblem():
	case len(p.seen.Spec.Unsupported) > 0:
		p.holdFor(p.unsupportedFields())
	case len(p.seen.Problems) > 0:
		p.holdFor(p.seen.Problems[0])
	case p.seen.Spec.TrafficRouting != "" && p.seen.TrafficRouting == nil:
		p.holdFor(p.missingTrafficRouting("does not exist"))
	case w.OwnerOnDelete:
		p.holdFor(rollout.Problem{Reason: rollout.ReasonInvalidSpec, Message: fmt.Sprintf(
			"%s has the update type OnDelete, so users delete pods to replace them, and Sluice cannot release it step by step; "+
				"set its spec.updateStrategy.type to RollingUpdate: kubectl edit %s -n %s", p.seen.Spec.Workload, p.seen.Spec.Workload.KubectlName(), p.seen.Namespace)})
	}
}

// releaseDue reports whether a version waits for its release. Either a policy holds it, or the workload's own controller is rolling it out already
// because it came before the hold.
func (p *planner) releaseDue() bool {
	w := p.seen.Workload
	switch {
	case w.OwnerOnDelete:
		return false // even if a change is held
	case w.Held:
		return true
	}
	return !w.IDLetsThrough && p.rollsNatively() // a change under the id of the stable version is not a release: the policy let it through
}

// rollsNatively reports whether the workload's own controller is rolling out another version.
func (p *planner) rollsNatively() bool {
	w, old := p.seen.Workload, int32(0)
	for _, set := range w.Revisions {
		unknown := set.Revision == "" && !w.Observed // perhaps the revision of the template
		if set.Revision != w.Revision && !unknown {
			old += set.Replicas
		}
	}
	return old > w.OwnerPartition
}

// nothingNew reports whether the held version runs already, for example if the owner changed only the rollout-id.
func (p *planner) nothingNew() bool {
	for _, set := range p.seen.Workload.Revisions {
		if set.Replicas > 0 && set.Revision != p.seen.Workload.Revision {
			return false
		}
	}
	return p.currentState() == rollout.StateInitializing && p.rolledBack() && !p.newVersion()
}

// servingRevision returns the revision that serves. It is the known stable revision if that has pods or its controller creates some. Otherwise it is
// the old revision with the most ready pods. nil means that no old pods run.
func (p *planner) servingRevision() *rollout.Revision {
	w := p.seen.Workload
	if w == nil {
		return nil
	}
	if p.isBlueGreen() && w.UpdateMechanism != rollout.MechanismRollingUpdate && !p.runningTemplateUnknown() {
		return p.replacementRevision()
	}
	var best *rollout.Revision
	for i := range w.Revisions {
		set := &w.Revisions[i]
		comes := w.DesiredReplicas > 0 && set.Hash == w.RevertsTo // its last pod may be missing only for a moment
		if set.Hash == p.m.StableRevision && (set.Replicas > 0 || comes) {
			return set
		}
		if set.Replicas == 0 {
			continue
		}
		if set.Revision == w.Revision && !p.onlyRevisionWithPods(set) {
			continue
		}
		if best == nil || set.Ready > best.Ready {
			best = set
		}
	}
	return best
}

// onlyRevisionWithPods reports whether no other revision has pods: after a rollback, the stable revision is the revision of the template.
func (p *planner) onlyRevisionWithPods(set *rollout.Revision) bool {
	for _, other := range p.seen.Workload.Revisions {
		if other.Hash != set.Hash && other.Replicas > 0 {
			return false
		}
	}
	return true
}

// earlyPods returns the pods of the new version that the workload itself runs. Only a change before the hold creates such pods.
func (p *planner) earlyPods() rollout.Revision {
	w := p.seen.Workload
	if w != nil {
		for _, set := range w.Revisions {
			if set.Revision == w.Revision && set.Hash != p.m.StableRevision {
				return set
			}
		}
	}
	return rollout.Revision{}
}

// startRelease starts a release of the workload's current template.
func (p *planner) startRelease() {
	w := p.seen.Workload
	if p.m.RollbackReplicas = p.podsToRollBack(); p.m.RollbackReplicas == 0 {
		if stable := p.servingRevision(); stable != nil {
			p.m.StableRevision = stable.Hash
		}
	}
	p.m.Epoch++
	p.noteRelease()
	p.goToStep(1)
	p.m.WorkloadUID = typesUID(w.UID)
	p.m.FinaliseReason, p.m.Finalise = "", ""
	if p.m.GraceUntil != nil && !p.now.Before(p.m.GraceUntil.Time) {
		p.m.GraceUntil, p.m.GraceFor = nil, ""
	}
	p.m.RouteDigest, p.m.Contests = "", nil
	p.m.CanaryRevision, p.m.CanaryHash = w.Revision, ""
	p.m.RolloutID = w.RolloutID
	p.followPlan()
	p.status.Analysis = nil
	why := "a new version of the workload is held"
	if !w.Held {
		why = fmt.Sprintf("a new version of the workload was rolling out before it could be held; the executor pauses it late, with %d new pods, which get no traffic", p.earlyPods().Replicas)
	}
	if p.m.RollbackReplicas > 0 {
		why = fmt.Sprintf("the workload was rolled back, and %d pods go back in batches", p.m.RollbackReplicas)
	}
	p.enterState(rollout.StateInitializing, "ReleaseStarted", why, "")
}

// recordStableRevision records the stable revision while no release is under way.
func (p *planner) recordStableRevision() {
	w := p.seen.Workload
	p.m.WorkloadUID = typesUID(w.UID)
	if w.IDLetsThrough && p.m.CanaryRevision != "" && p.m.CanaryRevision != w.Revision && !p.rolledBack() && w.DesiredReplicas > 0 {
		p.kubeEvents = append(p.kubeEvents, p.sameRolloutID())
	}
	most := int32(-1)
	for _, set := range w.Revisions {
		// Several revisions have pods only in a change that is not a release. Then the serving revision is the stable revision.
		if set.Revision == w.Revision && set.Ready >= most || set.Ready > most && set.Replicas > 0 {
			p.m.StableRevision, most = set.Hash, set.Ready
		}
	}
	p.recordRecentRevision()
	if p.m.CanaryRevision != w.Revision {
		p.m.CanaryRevision, p.m.CanaryHash = w.Revision, ""
	}
	p.m.RolloutID = w.RolloutID
	p.followPlan()
	p.goToStep(int32(len(p.seen.Spec.Steps)))
}

// ReasonSameRolloutID is the reason of the Kubernetes Event about a change of the pod template that rolls out without a step.
const ReasonSameRolloutID = "SameRolloutID"

// sameRolloutID reports that the change of the pod template is not a release, because the workload has the rollout-id of the stable version.
func (p *planner) sameRolloutID() rollout.KubeEvent {
	workload := p.seen.Spec.Workload
	return rollout.KubeEvent{Warning: true, Reason: ReasonSameRolloutID, Message: fmt.Sprintf(
		"A change of the pod template of %s under the rollout-id %s of the stable version is no release, by OpenKruise's rule: it rolls out without a step. "+
			"Give each version a rollout-id of its own, or take the annotation off: kubectl annotate %s -n %s %s-",
		workload, p.seen.Workload.RolloutID, workload.KubectlName(), p.seen.Namespace, api.AnnotationRolloutID)}
}

// planDisabled releases the workload and leaves it unmanaged.
func (p *planner) planDisabled() {
	if !p.seen.Spec.Disabled {
		if set := p.servingRevision(); set == nil || set.Hash != p.m.StableRevision {
			p.m.StableRevision = "" // it went between two runs
		}
		p.enterState(rollout.StateIdle, "Enabled", "the Rollout is enabled again", "")
		return
	}
	if p.workloadDisowned() {
		p.waitForEvent("Rollout is disabled")
	}
}

// planTerminated releases the workload, and then removes the finalizer of the Rollout.
func (p *planner) planTerminated() {
	if p.workloadDisowned() && p.seen.Finalizer {
		p.addActions(rollout.RemoveFinalizer{})
	}
}

// workloadDisowned releases the workload, and reports whether no mark of Sluice is left on it.
func (p *planner) workloadDisowned() bool {
	w := p.seen.Workload
	if p.rival() != "" {
		return true
	}
	if !p.earlierReleaseCleared(false) {
		return false
	}
	if w == nil || w.Deleting || !w.HasMarks && !w.Held {
		return true
	}
	if w.Held {
		p.resumeWorkload()
		return false
	}
	p.addActions(rollout.DisownWorkload{Workload: p.seen.Spec.Workload})
	return false
}

// earlierReleaseCleared reports, outside of a release, whether no object of an earlier release is left. Objects are left if an executor died between
// its first action and its commit and the release was then called off, or if the status was lost. If a release is due, the stable Service stays as it
// is, because that release needs it narrowed.
func (p *planner) earlierReleaseCleared(due bool) bool {
	return p.routesRestored() && p.canaryRemoved() && (due || p.serviceRestored()) && p.canaryServiceRemoved() && (due || p.autoscalersRestored())
}

// planInitializing checks all objects that the release needs before the executor creates the first pod.
func (p *planner) planInitializing() {
	if p.endInterruptedRelease() || !p.ensureHeld() {
		return
	}
	if p.newVersion() {
		p.startRelease()
		return
	}
	if !p.imagesDelivered() {
		return
	}
	end := int32(len(p.seen.Spec.Steps)) + 1
	if p.servingRevision() == nil || p.onlyUnpermittedRuns() {
		if p.fleetRefusal(end) != nil && !p.prepareScaleFromZero() || !p.permitted(end) {
			return
		}
		p.startFinalising(api.FinaliseSuccess, "no older version is running, so there is nothing to release step by step")
		return
	}
	if p.holdStoppedRelease() || !p.preflightPassed() {
		return
	}
	if p.inRollbackWindow() && p.fleetRefusal(end) == nil {
		if !p.permitted(end) {
			return
		}
		p.startFinalising(api.FinaliseSuccess, "the version has served lately (rollbackWindow), so it is released without its steps")
		return
	}
	if !p.stableProven() {
		return
	}
	if p.m.RollbackReplicas > 0 && !p.keptPodsLabelled() {
		return
	}
	if !p.permitted(1) {
		return
	}
	p.followPlan()
	p.goToStep(1)
	p.enterState(rollout.StateBeforeUpgrade, "StepStarted", "Rollout is in Progressing", "")
}
