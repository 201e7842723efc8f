package planner

import (
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
)

// invariants returns the names of the invariants in docs/invariants.md.
func invariants() []string {
	return []string{
		"NoTrafficBeforeReady", "ExposureNeverAboveCommittedStep", "NoStepSkippedWithoutApproval", "OneApprovalOneStep",
		"FailedMetricsRaiseNothing", "NoPromotionWithoutVerdict", "StoppedVersionNeverLetGo", "ApprovalCountsForOnePause", "ReplayChangesNothing", "RejectionHolds", "OnlyWhatIsMissingIsLate",
		"CanaryServiceNeverRemovedWhileRouted", "CanaryPodsNeverRemovedWhileRouted", "GraceSpentBeforeRemoval", "UnwantedVersionNeverInStableService",
		"StableServicePinnedBeforeCanary", "NothingNamedBeforeItIsKnown", "WorkloadNeverFreeDuringRelease", "OnlyAgreedVersionLetGo", "StableIsWhatWasAgreed", "IntentCommittedBeforeRaise",
		"OwnersBudgetKept", "RollbackInBatchKeepsToTheStep", "StableComesBackFromZero", "StablePodsKeptUntilPromoted", "EpochMonotonic", "TransitionSeqGapless", "StatusOnlyMovesWhenSomethingChanged", "NothingLeftAtRest", "NoWritesAtRest",
		"RestReached", "RequestsReachTheirEnd", "CapacityKept", "PodsStayConstant", "WhatServesStays", "StableServes", "LastStablePodKept",
		"NothingBeyondThePermit", "PermitBeginsOneRelease", "PermitSetsImagesOnce", "WithdrawnVersionStaysOut", "WithdrawnMeansGone", "CompletedMeansWhole",
	}
}

// checks checks every decision, every write and every idle world. It keeps the first finding of each kind.
type checks struct {
	found map[string]string
	where func() string
	doing string
}

func newChecks() *checks {
	return &checks{found: map[string]string{}, where: func() string { return "" }}
}

func (c *checks) fail(name, format string, args ...any) {
	if c.found[name] == "" {
		c.found[name] = fmt.Sprintf(format, args...) + "\n  during: " + c.doing + "\n    " + c.where()
	}
}

func (c *checks) that(ok bool, name, format string, args ...any) {
	if !ok {
		c.fail(name, format, args...)
	}
}

func sameStatus(a, b *api.RolloutStatus) bool { return reflect.DeepEqual(a, b) }

// decision checks a decision against the observed state.
func (c *checks) decision(w *world, seen rollout.Seen, d rollout.Decision) {
	before, after := machine(&seen.Status), machine(&d.Status)
	made := after.TransitionSeq - before.TransitionSeq
	c.that(after.Epoch >= before.Epoch && after.PauseSeq >= before.PauseSeq, "EpochMonotonic", "epoch %d became %d", before.Epoch, after.Epoch)
	c.outbox(before, after, made)
	c.followed(before, d)
	c.that(made > 0 || reflect.DeepEqual(after.Since, before.Since), "StatusOnlyMovesWhenSomethingChanged", "since moved without a transition")
	for _, a := range d.Actions {
		c.that(!a.RaisesExposure() || d.CommitFirst || intended(w, &d.Status), "IntentCommittedBeforeRaise", "%s before the commit", a)
		c.action(w, seen, d, a)
	}
	begun := before.Epoch
	if carried := w.run.plan.carried; carried != nil {
		begun = machine(carried).Epoch // checked at the time of the decision, against the state of that time
	}
	if after.Epoch != begun {
		c.stable(w, d.Status.Sluice.StableRevision)
	}
	c.metrics(w, seen, d)
	c.reported(w, d)
	c.stableServes(w, seen, d)
	c.late(w, seen, d)
	approvals := len(d.Status.Approvals) - len(seen.Status.Approvals)
	wanted := before.State == string(rollout.StatePaused) && seen.Status.Common().CurrentStepState == api.StepReady || seen.Status.Command != nil
	if all := seen.Status.Analysis; all != nil && all.Step != nil {
		wanted = wanted || all.Step.Phase == api.AnalysisPassed
	}
	passes := w.model.fleet && w.model.pauses == api.FleetLocalPausesPass
	c.that(approvals == 0 || approvals == 1 && wanted || passes, "OneApprovalOneStep", "%d approvals came of one look", approvals)
}

// late checks a release that a deadline stops: its step had the whole time, no user delayed it, and a part of it is still missing.
func (c *checks) late(w *world, seen rollout.Seen, d rollout.Decision) {
	before, after := machine(&seen.Status), machine(&d.Status)
	expired := slices.ContainsFunc(after.Transitions, func(t api.Transition) bool {
		return t.Seq > before.TransitionSeq && t.To == string(rollout.StateAborted) && t.From != string(rollout.StateStalled) && t.Reason == string(rollout.ReasonProgressDeadlineExceeded)
	})
	held := slices.ContainsFunc(d.Status.Conditions, func(c api.Condition) bool { return c.Reason == rollout.ReasonProgressDeadlineExceeded })
	if !expired && !held {
		return
	}
	c.that(before.StepSince != nil && !w.time().Add(time.Duration(w.back)*time.Second).Before(before.StepSince.Add(seen.Spec.ProgressDeadline)), "OnlyWhatIsMissingIsLate", "the step began at %s", before.StepSince)
	c.that(!seen.Spec.Paused && seen.Workload != nil, "OnlyWhatIsMissingIsLate", "it was held up by its owner")
	want, there := w.model.replicas(seen.Spec, before.Step), true
	for _, route := range seen.Routes {
		there = there && route.Steps[before.Step].Accepted
	}
	if w.model.inPlace() {
		there = there && seen.Workload.Paused && seen.Workload.Observed
	}
	endpoints := true
	for _, backend := range seen.Backends {
		endpoints = endpoints && (backend.CanaryService == nil || backend.CanaryEndpoints >= want)
	}
	c.that(w.model.ready(seen, after.CanaryRevision) < want || !endpoints || !there, "OnlyWhatIsMissingIsLate", "step %d has all that it needs", before.Step)
}

// intended reports whether the committed status is in the same step of the same release as a decision.
func intended(w *world, next *api.RolloutStatus) bool {
	before, after := machine(&w.status), machine(next)
	return before.Epoch == after.Epoch && before.Step == after.Step && before.FinaliseReason == after.FinaliseReason &&
		(before.State == after.State || rollout.State(before.State).InStep() && rollout.State(after.State).InStep())
}

func machine(s *api.RolloutStatus) api.SluiceStatus {
	if s.Sluice == nil {
		return api.SluiceStatus{State: string(rollout.StateIdle)}
	}
	return *s.Sluice
}

func (c *checks) outbox(before, after api.SluiceStatus, made int64) {
	c.that(made >= 0 && made <= int64(len(after.Transitions)), "TransitionSeqGapless", "%d transitions were made, %d kept", made, len(after.Transitions))
	for i, t := range after.Transitions {
		c.that(t.Seq == after.TransitionSeq-int64(len(after.Transitions)-1-i), "TransitionSeqGapless", "transition %d has number %d", i, t.Seq)
	}
	var next *api.Transition
	for t := range (&planner{m: &after}).stateTransitions() {
		c.that(next == nil || next.From == t.To, "TransitionSeqGapless", "the transition after %d does not start from %s", t.Seq, t.To)
		next = t
	}
}

// action checks one action against the observed state.
func (c *checks) action(w *world, seen rollout.Seen, d rollout.Decision, a rollout.Action) {
	c.lastKept(w, seen, d, a)
	switch a := a.(type) {
	case rollout.ApplyRoute:
		if a.Step < 0 {
			return
		}
		want := w.model.needed(seen.Spec, a.Step)
		c.that(w.model.ready(seen, machine(&d.Status).CanaryRevision) >= want, "NoTrafficBeforeReady", "step %d is routed to a canary that is not ready", a.Step)
		if i := w.model.routedBy(a.Object); seen.Spec.Routing[i].SeparateService() {
			endpoints := seen.Backends[i].CanaryEndpoints
			c.that(endpoints >= want, "NoTrafficBeforeReady", "step %d is routed to %d endpoints", a.Step, endpoints)
		}
	case rollout.ScaleWorkload:
		c.scaled(seen, d, a)
	case rollout.UnpinService:
		m := machine(&d.Status)
		if w.model.inPlace() && !w.model.beside() && rollout.State(m.State).InStep() && w.model.replicas(seen.Spec, m.Step) == int32(w.model.size()) {
			return // the step leaves the stable Service no stable pods
		}
		if m.State != string(rollout.StateFinalising) || m.FinaliseReason != api.FinaliseSuccess {
			c.unpinned(w, seen, a)
		}
	case rollout.CreateCanary, rollout.ResumeRollingUpdate, rollout.PartitionWorkload, rollout.ReplacePods:
		if w.lowers(a) || w.forced > 0 {
			return // or the executor had to open the stable Service because no stable pod was left
		}
		if w.model.inPlace() && (w.model.replicas(seen.Spec, machine(&d.Status).Step) == int32(w.model.size()) || rollout.State(machine(&d.Status).State) == rollout.StateFinalising) {
			return
		}
		if w.model.inPlace() && !slices.ContainsFunc(seen.Workload.Revisions, func(set rollout.Revision) bool {
			return set.Hash == machine(&d.Status).StableRevision && set.Replicas > 0
		}) {
			return // no stable pod is left for the stable Service
		}
		for i, routing := range seen.Spec.Routing {
			pinned := !routing.SeparateService() || seen.Backends[i].StableService.Hash != "" || !seen.Spec.Steps[machine(&d.Status).Step-1].RoutesTraffic()
			c.that(pinned, "StableServicePinnedBeforeCanary", "%s while Service %s selects all versions", a, routing.Service)
		}
	}
}

// unpinned checks the opening of the stable Service: no pod of an unwanted version may run. After a rollback, this also holds for the pods that the
// workload itself runs.
func (c *checks) unpinned(w *world, seen rollout.Seen, a rollout.UnpinService) {
	unwanted := func(v int8) bool {
		return v != 0 && !w.trusted[v] && (seen.Workload == nil || version(v) != seen.Workload.Revision)
	}
	c.that(!unwanted(w.canary.version), "UnwantedVersionNeverInStableService", "%s with a canary of %s", a, version(w.canary.version))
	c.that(!unwanted(w.lingering), "UnwantedVersionNeverInStableService", "%s with pods of %s that have outlived their canary", a, version(w.lingering))
	pinned := func(set rollout.Revision) bool {
		return set.Hash == seen.Backends[w.model.entry(a.Name)].StableService.Hash && set.Replicas > 0 && set.Revision == seen.Workload.Revision
	}
	if seen.Workload == nil || !slices.ContainsFunc(seen.Workload.Revisions, pinned) {
		return
	}
	for _, set := range seen.Workload.Revisions {
		c.that(set.Replicas == 0 || !unwanted(versionOf(set.Revision)), "UnwantedVersionNeverInStableService", "%s with early pods of %s", a, set.Revision)
	}
}

// write checks one write against the world at the time of the write.
func (c *checks) write(w *world, next write) {
	m := machine(&w.status)
	c.letsGo(w, next.action)
	switch a := next.action.(type) {
	case nil:
		c.committed(w, next.status)
	case rollout.CreateCanary:
		c.raise(w, a, m.Step, a.Replicas)
		c.that(a.Epoch == m.Epoch, "IntentCommittedBeforeRaise", "%s of epoch %d in epoch %d", a, a.Epoch, m.Epoch)
	case rollout.ScaleCanary:
		c.raise(w, a, m.Step, a.Replicas)
	case rollout.ApplyRoute:
		if a.Step < 0 {
			c.handBack(w, a)
			return
		}
		if int(a.Step) > len(w.agreed().Steps) {
			c.that(m.FinaliseReason == api.FinaliseSuccess, "IntentCommittedBeforeRaise", "%s in %s", a, m.State)
			return
		}
		c.raise(w, a, a.Step, 0)
		c.names(w, a)
	case rollout.PrepareRoute:
		c.raise(w, a, a.Step, 0)
	case rollout.ClearRoute:
		c.cleared(w, a)
	case rollout.DeleteCanary:
		c.that(!w.routedToCanary(), "CanaryPodsNeverRemovedWhileRouted", "%s", a)
		c.that(w.now-w.left >= graceOfModels, "GraceSpentBeforeRemoval", "%s %d s after its traffic left", a, w.now-w.left)
	case rollout.DeleteCanaryService:
		c.that(!w.routedToCanary(), "CanaryServiceNeverRemovedWhileRouted", "%s", a)
		c.that(w.now-w.left >= graceOfModels, "GraceSpentBeforeRemoval", "%s %d s after its traffic left", a, w.now-w.left)
	case rollout.ResumeRollingUpdate:
		c.advanced(w, m, a)
	case rollout.PartitionWorkload:
		c.partitioned(w, m, a)
	case rollout.ReplacePods:
		c.replaced(w, m, a)
	case rollout.DeleteRevision:
		c.that(w.empty && w.pods[versionOf(a.Hash)] == 0 && a.Hash != m.StableRevision, "StableComesBackFromZero", "%s of %d pods", a, w.pods[versionOf(a.Hash)])
	case rollout.ResumeWorkload:
		c.resume(w, m, a)
	case rollout.DisownWorkload:
		free := rollout.State(m.State) == rollout.StateDisabled || rollout.State(m.State) == rollout.StateTerminated || rollout.State(m.State) == rollout.StateIdle
		c.that(free, "WorkloadNeverFreeDuringRelease", "%s in %s", a, m.State)
	}
}

func (c *checks) raise(w *world, a rollout.Action, step, replicas int32) {
	m := machine(&w.status)
	c.that(rollout.State(m.State).InStep() && m.Step >= step, "IntentCommittedBeforeRaise", "%s in %s of step %d", a, m.State, m.Step)
	if m.Step > 0 {
		c.that(step <= m.Step && replicas <= w.model.replicas(w.agreed(), m.Step), "ExposureNeverAboveCommittedStep", "%s in step %d", a, m.Step)
	}
}

func (c *checks) resume(w *world, m api.SluiceStatus, a rollout.Action) {
	state, template := rollout.State(m.State), version(w.template)
	known := w.pods[versionOf(m.StableRevision)] > 0
	c.that(!known || w.stoppedVersion == 0 || w.stoppedVersion != w.template, "StoppedVersionNeverLetGo", "%s with %s, which was aborted", a, template)
	c.that(state == rollout.StateFinalising || state == rollout.StateDisabled || state == rollout.StateTerminated || !w.held, "WorkloadNeverFreeDuringRelease", "%s in %s", a, state)
	switch {
	case state != rollout.StateFinalising:
	case m.FinaliseReason == api.FinaliseSuccess:
		c.that(template == m.CanaryRevision, "OnlyAgreedVersionLetGo", "%s with %s after a success of %s", a, template, m.CanaryRevision)
	case m.FinaliseReason == api.FinaliseRollback:
		c.that(hash(w.template) == m.StableRevision, "OnlyAgreedVersionLetGo", "%s with %s after a rollback", a, template)
	case m.FinaliseReason == api.FinaliseContinuous || m.FinaliseReason == api.FinaliseSuperseded || m.FinaliseReason == api.FinaliseRollbackInBatch:
		c.fail("OnlyAgreedVersionLetGo", "%s in a continuous release", a)
	}
}

// committed checks a commit: the step must not exceed the user's approvals.
func (c *checks) committed(w *world, next *api.RolloutStatus) {
	c.fleetCommitted(w, next)
	before, after, allowed := machine(&w.status), machine(next), w.allowed
	if after.Epoch != before.Epoch {
		allowed = 1
	}
	c.reached(w, next)
	if state := rollout.State(after.State); state.InStep() {
		c.that(int8(after.Step) <= allowed, "NoStepSkippedWithoutApproval", "step %d is committed, agreed is %d", after.Step, allowed)
	}
	if after.State == string(rollout.StateFinalising) && after.FinaliseReason == api.FinaliseSuccess && before.State != after.State && before.Epoch == after.Epoch {
		steps := w.agreed().Steps
		last := steps[len(steps)-1]
		done := int(allowed) > len(steps) || int(allowed) == len(steps) && last.Replicas == rollout.Amount{Value: 100, Percent: true} && !w.model.beside()
		c.that(done || rollout.State(before.State) == rollout.StateInitializing, "NoStepSkippedWithoutApproval", "success is committed, agreed is %d", allowed)
	}
}

// stable checks the revision from which a release starts: never an unapproved revision while another one serves.
func (c *checks) stable(w *world, revision string) {
	m := machine(&w.status)
	promoted := int(w.allowed) > len(w.agreed().Steps) && version(versionOf(revision)) == m.CanaryRevision // approved as a whole a moment ago
	if w.trusted[versionOf(revision)] || promoted || w.unsettled() || w.forced > 0 {
		return
	}
	known := versionOf(m.StableRevision)
	c.that(w.pods[known] == 0, "StableIsWhatWasAgreed", "%q is taken for stable, while %s has %d pods", revision, hash(known), w.pods[known])
}

// settled checks a status that needs no more actions: another plan a little later must not change it.
func (c *checks) settled(w *world) {
	again := Plan(w.see(), w.time().Add(time.Millisecond))
	c.that(sameStatus(&w.status, &again.Status), "StatusOnlyMovesWhenSomethingChanged", "the status of %s is written again", machine(&w.status).State)
}

// rest checks a world in which nothing more happens by itself.
func (c *checks) rest(w *world) {
	if w.waits() { // the failing version may run only because its owner wants it
		return
	}
	c.that(w.canary.version == 0 && w.unserved() && !w.routedToCanary() && !w.named.there, "NothingLeftAtRest", "a canary, a Service, a route or what it named is left")
	if w.gone {
		if w.model.blinks {
			return // if the workload was not found when its Rollout was deleted, an executor removes the marks when it finds them
		}
		c.that(!w.shrunk && w.told == w.wants, "NothingLeftAtRest", "the workload has %d of %d replicas", w.told, w.wants)
		c.that(!w.adopted && !w.held && (!w.stopped || w.model.spec.KeepPaused), "NothingLeftAtRest", "marks are left on the workload of a Rollout that is gone")
		return
	}
	c.that(!w.shrunk && w.told == w.wants, "NothingLeftAtRest", "the workload has %d of %d replicas", w.told, w.wants)
	c.that(!w.parked && !w.backwards && !w.unscaled && !w.widened && w.room == 0 && w.raw == [4]int8{}, "NothingLeftAtRest", "the workload still has %+v", w.place)
	c.that(!w.held && !w.stopped, "NothingLeftAtRest", "the workload is still held in %s", w.state())
	c.that(w.state() != rollout.StateDisabled || !w.adopted, "NothingLeftAtRest", "marks are left on the workload of a disabled Rollout")
	c.that(w.disabled == (w.state() == rollout.StateDisabled), "RestReached", "a Rollout that is disabled (%t) rests in %s", w.disabled, w.state())
	c.that(!w.deleting && (w.state() == rollout.StateIdle || w.state() == rollout.StateDisabled), "RestReached", "the machine rests in %s", w.state())
	d := Plan(w.see(), w.time().Add(time.Hour))
	c.that(len(d.Actions) == 0 && d.WakeAt.IsZero() && sameStatus(&w.status, &d.Status), "NoWritesAtRest", "at rest there is something to do: %v", d.Actions)
}

// report fails the test of each violated invariant.
func (c *checks) report(t *testing.T) {
	for _, name := range invariants() {
		t.Run(name, func(t *testing.T) {
			if found := c.found[name]; found != "" {
				t.Error(found)
			}
		})
	}
}

func TestDocumentListsEveryInvariant(t *testing.T) {
	body, err := os.ReadFile("../../docs/invariants.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range invariants() {
		if !strings.Contains(string(body), "`"+name+"`") {
			t.Errorf("docs/invariants.md does not describe %s", name)
		}
	}
}
