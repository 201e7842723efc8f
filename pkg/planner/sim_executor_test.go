package planner

import (
	"slices"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
)

// object is the object whose version a write depends on.
type object uint16

const (
	onRollout object = 1 << iota
	onWorkload
	onCanary
	onRoute0
	onRoute1
	onService0
	onService1
	onCanaryService0
	onCanaryService1
)

// run is the current run of an executor: its remaining writes, and the objects that have changed since its observation.
type run struct {
	writes []write
	moved  object
	plan   Run
	acts   *rollout.Decision // the executor is taking its actions, and carries its status afterwards
	view   *world            // the executor's observation, with its own writes in it
}

func (r *run) active() bool { return len(r.writes) > 0 }

// write is one action, or the commit if action is nil.
type write struct {
	action rollout.Action
	status *api.RolloutStatus
}

func (w *world) touched(o object) {
	if len(w.run.writes) > 0 {
		w.run.moved |= o
	}
}

// plan observes, decides, and prepares the writes. It reports whether there are any.
func (w *world) plan() bool {
	view := *w
	view.run = run{}
	w.run = run{view: &view}
	return w.decide(&view)
}

// decide prepares the writes for an observed world.
func (w *world) decide(view *world) bool {
	seen := view.see()
	d := w.run.plan.Plan(seen, w.time())
	w.model.check.decision(w, seen, d)
	w.model.digest.add(d)
	changed := !sameStatus(&seen.Status, &d.Status)
	var writes []write
	if changed && (d.CommitFirst || len(d.Actions) == 0) {
		writes = append(writes, write{status: &d.Status})
	}
	for _, a := range d.Actions {
		writes = append(writes, write{action: a})
	}
	w.run.writes, w.run.acts = writes, nil
	if changed && !d.CommitFirst {
		w.run.acts = &d
	}
	if len(writes) == 0 {
		w.run = run{}
	}
	return len(writes) > 0
}

// advance makes the next write of the current run. A conflict ends the run.
func (w *world) advance() {
	next := w.run.writes[0]
	on := w.subject(next.action)
	if w.run.moved&on != 0 || w.gone {
		w.run = run{}
		return
	}
	w.model.check.write(w, next)
	view := *w.run.view
	w.run.writes, w.run.view = w.run.writes[1:], &view
	for _, target := range []*world{w, &view} {
		if next.action == nil {
			target.commit(next.status)
		} else {
			target.take(next.action)
		}
		if a, ok := next.action.(rollout.ApplyRoute); ok {
			target.routedBy[w.routeIndex(a.Object)] = view.revised // even if the owner has changed the steps since
		}
	}
	if next.action == nil {
		w.run.plan.StatusCommitted()
	}
	if w.run.active() {
		return
	}
	if acts := w.run.acts; acts != nil && next.action != nil {
		// The run carries the status into its next decision, which is based on the observation of this one.
		w.run.plan.CarryStatus(*acts)
		if w.run.moved == 0 {
			permit := view.fleetWorld // the executor reads it once in a run
			view = *w
			view.run, view.fleetWorld = run{}, permit
		}
		w.decide(&view)
		return
	}
	w.run = run{}
}

func (w *world) commit(status *api.RolloutStatus) {
	if w.status.Sluice == nil || status.Sluice.Epoch != w.status.Sluice.Epoch {
		w.allowed, w.forced, w.failed = 1, max(0, w.forced-1), 0
		w.trusted[versionOf(status.Sluice.StableRevision)] = true // checked at the time of the decision
	}
	if before := machine(&w.status); rollout.State(status.Sluice.State).InStep() && (!rollout.State(before.State).InStep() || status.Sluice.Epoch != before.Epoch) {
		w.found = w.running() - w.pods[versionOf(status.Sluice.StableRevision)] // even if the template has changed since the decision
		w.came = w.found
	}
	if machine(status).FinaliseReason == api.FinaliseSuccess {
		w.trusted[versionOf(status.Sluice.CanaryRevision)] = true
	} else if status.Sluice.State == string(rollout.StateIdle) {
		w.trusted[versionOf(status.Sluice.StableRevision)] = true
	}
	if status.Sluice.State == string(rollout.StateAborted) {
		w.stoppedVersion = versionOf(status.Sluice.CanaryRevision)
	} else if seq := machine(&w.status).TransitionSeq; slices.ContainsFunc(status.Sluice.Transitions, func(t api.Transition) bool {
		return t.Seq > seq && t.Reason == string(api.FinaliseRetry)
	}) {
		w.stoppedVersion = 0 // the version is retried, regardless of its earlier abort
	}
	w.status = *status
	w.timeIsUp()
}

// timeIsUp allows the next step if the pause is over by the clock, even if the step also waits for another event.
func (w *world) timeIsUp() {
	s := w.status.Sluice
	if s == nil || w.state() != rollout.StatePaused && w.state() != rollout.StateAnalysis {
		return
	}
	step := w.agreed().Steps[w.step()-1]
	woken := s.WakeAt != nil && !s.WakeAt.After(w.time())
	paused := w.state() == rollout.StatePaused && !step.Manual && !s.Since.Add(step.Pause).After(w.time())
	if woken || paused {
		w.allow(w.step() + 1)
	}
}

func (w *world) subject(a rollout.Action) object {
	switch a := a.(type) {
	case nil, rollout.AddFinalizer, rollout.RemoveFinalizer, rollout.RecordPermit:
		return onRollout
	case rollout.AdoptWorkload, rollout.DisownWorkload, rollout.HoldWorkload, rollout.ResumeWorkload, rollout.RestoreTemplate, rollout.SetImages,
		rollout.TakeOverWorkload, rollout.ResumeRollingUpdate, rollout.PauseWorkload, rollout.FreezeWorkload, rollout.HoldRevisionUnavailable, rollout.ScaleRevision, rollout.PartitionWorkload, rollout.ReplacePods, rollout.DeleteRevision,
		rollout.ScaleWorkload, rollout.RestoreReplicas:
		return onWorkload
	case rollout.DisableAutoscaler, rollout.RestoreAutoscaler:
		return 0
	case rollout.CreateCanary:
		return onCanary | onWorkload // it copies the observed workload
	case rollout.ScaleCanary, rollout.ShrinkCanary, rollout.DeleteCanary:
		return onCanary
	case rollout.PinService:
		return onService0 << w.model.entry(a.Name)
	case rollout.UnpinService:
		return onService0 << w.model.entry(a.Name)
	case rollout.CreateCanaryService:
		return onCanaryService0 << w.model.entry(a.Name)
	case rollout.PointCanaryService:
		return onCanaryService0 << w.model.entry(a.Name)
	case rollout.DeleteCanaryService:
		return onCanaryService0 << w.model.entry(a.Name)
	case rollout.ApplyRoute:
		return w.route(a.Object)
	case rollout.RestoreRoute:
		return w.route(a.Object)
	case rollout.PrepareRoute:
		return w.route(a.Object)
	case rollout.ClearRoute:
		return w.route(a.Object)
	}
	panic("an action that the world does not know")
}

func (w *world) routeIndex(ref rollout.Ref) int {
	for i, o := range objectsOf(w.model.spec) {
		if o == ref {
			return i
		}
	}
	panic("no such route")
}

func (w *world) route(ref rollout.Ref) object { return onRoute0 << w.routeIndex(ref) }

// take carries out one action.
func (w *world) take(a rollout.Action) {
	switch a := a.(type) {
	case rollout.AddFinalizer:
		w.finalizer = true
	case rollout.RecordPermit:
		w.fence = a.Permit.Seq
	case rollout.RemoveFinalizer:
		w.finalizer = false
		w.gone = w.deleting
	case rollout.AdoptWorkload:
		w.adopted = true
	case rollout.DisownWorkload:
		w.adopted, w.held = false, false
		w.told, w.shrunk = w.wants, false
		w.free()
	case rollout.HoldWorkload:
		w.hold()
		w.written()
	case rollout.ResumeWorkload:
		w.held, w.stopped = false, a.Paused
		w.free()
	case rollout.TakeOverWorkload, rollout.ResumeRollingUpdate, rollout.PauseWorkload, rollout.FreezeWorkload, rollout.HoldRevisionUnavailable, rollout.ScaleRevision, rollout.PartitionWorkload, rollout.ReplacePods, rollout.DeleteRevision:
		w.let(a)
	case rollout.DisableAutoscaler:
		w.unscaled = true
	case rollout.RestoreAutoscaler:
		w.unscaled = false
	case rollout.RestoreTemplate:
		w.change(versionOf(a.Hash))
	case rollout.SetImages:
		w.change(versionOf(a.Version))
		w.hold()
		w.model.check.that(a.Permit.Seq > w.imaged, "PermitSetsImagesOnce", "the images of permit %d are set again", a.Permit.Seq)
		w.set, w.imaged = a.Permit.Seq, a.Permit.Seq
	case rollout.CreateCanary:
		w.canary = canaryWorld{version: w.template, replicas: int8(a.Replicas), epoch: a.Epoch}
		w.left = w.now - graceOfModels // these pods have never had traffic
	case rollout.ScaleCanary:
		w.canary.replicas = int8(a.Replicas)
	case rollout.DeleteCanary:
		if w.canary.deleting = a.Foreground; !a.Foreground {
			w.canary, w.lingering = canaryWorld{}, w.canary.version
		}
	case rollout.ShrinkCanary, rollout.ScaleWorkload, rollout.RestoreReplicas:
		w.resize(a)
	case rollout.PinService, rollout.UnpinService, rollout.CreateCanaryService, rollout.PointCanaryService, rollout.DeleteCanaryService:
		w.serve(a)
	case rollout.ApplyRoute:
		i := w.routeIndex(a.Object)
		w.routed[i], w.accepted[i] = int8(a.Step), false
	case rollout.RestoreRoute:
		i := w.routeIndex(a.Object)
		w.routed[i], w.accepted[i], w.left = 0, false, w.now
	case rollout.PrepareRoute:
		w.makeNamed(true)
	case rollout.ClearRoute:
		w.makeNamed(false)
	}
}
