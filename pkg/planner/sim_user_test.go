package planner

import (
	"fmt"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
)

// edit changes the status as a user does with kubectl.
func (w *world) edit(change func(*api.CommonStatus)) {
	status := w.status.DeepCopy()
	change(status.Common())
	w.status = *status
	w.touched(onRollout)
}

func (w *world) state() rollout.State {
	if w.status.Sluice == nil {
		return rollout.StateIdle
	}
	return rollout.State(w.status.Sluice.State)
}

func (w *world) step() int8 {
	if w.status.Sluice == nil {
		return 0
	}
	return int8(w.status.Sluice.Step)
}

// unsettled reports whether the Rollout has not recorded the stable revision of its workload yet, so it can only guess.
func (w *world) unsettled() bool {
	m := machine(&w.status)
	return m.StableRevision == "" || string(m.WorkloadUID) != fmt.Sprint(w.uid)
}

// approve is an approval of a user, polite or blind. The ghost records the allowed step: one more step, if the step is paused.
func (w *world) approve() {
	if w.state() == rollout.StatePaused && w.status.Common().CurrentStepState == api.StepPaused {
		w.allow(w.step() + 1)
	}
	w.edit(func(c *api.CommonStatus) { c.CurrentStepState = api.StepReady })
}

func (w *world) allow(step int8) { w.allowed = max(w.allowed, step) }

// change gives the workload another template. The admission policy holds it while the workload is adopted.
func (w *world) change(template int8) {
	w.template, w.stoppedVersion = template, 0
	w.hasty = !w.empty && w.running() == 0
	w.written()
	switch {
	case w.adopted && !w.empty:
		w.hold()
	case w.empty && !w.held:
		w.trusted[template] = true // the workload has no other version from which a release could start
	}
	w.touched(onWorkload)
}

// hold carries out the hold of the admission policies, or of an executor without them.
func (w *world) hold() {
	w.adopted, w.held, w.stopped = true, true, true
	w.parked = w.parked || w.model.lever != rollout.MechanismRollingUpdate
}

func (w *world) remove() {
	w.uid, w.template, w.pods, w.stopped, w.held, w.adopted, w.set = 0, 0, [4]int8{}, false, false, false, 0
	w.place, w.capacity = newPlace(w.model), newCapacity(w.model)
	w.existed, w.made, w.stoppedVersion = [4]bool{}, [4]int8{}, 0
	if w.canary.version != 0 {
		w.canary.deleting = true // the garbage collector deletes it after its owner
	}
	w.touched(onWorkload)
	w.touched(onCanary)
}

const deletion = "the Rollout is deleted"

// users lists the acts of users while their budget lasts. A change of a Service does not use the budget, and happens once.
func (w *world) users() []move {
	if w.gone {
		return nil
	}
	moves := w.strays(true)
	if w.budget == 0 {
		return moves
	}
	add := func(when bool, name string, do func(*world)) {
		if when {
			moves = append(moves, move{name: name, do: func(w *world) { w.budget--; do(w) }})
		}
	}
	for v := int8(1); v <= 3; v++ {
		add(w.uid != 0 && v != w.template, fmt.Sprintf("the template becomes v%d", v), func(w *world) { w.change(v) })
	}
	add(w.uid != 0, "the workload is deleted", (*world).remove)
	add(w.uid != 0 && w.model.scales && !w.empty, "the workload is scaled to 0", (*world).scaleToZero)
	add(w.uid != 0 && w.model.blinks && !w.hidden, "the workload is not found", func(w *world) { w.hidden = true; w.touched(onWorkload) })
	add(w.uid == 0, "the workload is made again", func(w *world) {
		w.born++
		w.uid, w.template, w.pods, w.capacity = w.born, 2, [4]int8{2: w.model.size()}, newCapacity(w.model)
		for v := range w.trusted {
			w.trusted[v] = v == 2 || int8(v) == w.lingering && w.trusted[v]
		}
		w.existed, w.made, w.current, w.at = [4]bool{2: true}, [4]int8{2: 1}, 2, w.model.numbered(2)
		if !w.routedToCanary() && w.unserved() && w.canary.version == 0 {
			w.left = w.now - graceOfModels // these pods have never had traffic
		}
		w.touched(onWorkload)
	})
	add(!w.deleting, deletion, func(w *world) { w.deleting, w.gone = true, !w.finalizer; w.touched(onRollout) })
	for _, m := range w.losses() {
		add(w.model.fails, m.name, m.do)
	}
	for _, m := range w.mislaid() {
		add(true, m.name, m.do)
	}
	for _, m := range w.misfortunes() {
		add(w.model.measures(), m.name, m.do)
	}
	for _, m := range w.hubActs() {
		add(true, m.name, m.do)
	}
	for _, m := range w.commands() {
		add(true, m.name, m.do)
	}
	add(true, "spec.disabled is turned", func(w *world) { w.disabled = !w.disabled; w.touched(onRollout) })
	add(w.model.other != nil, "the steps are changed", func(w *world) { w.revised = !w.revised; w.touched(onRollout) })
	add(w.model.refuses && !w.agrees, "the owner accepts beforehand that steps replace all pods", (*world).agree)
	add(!w.paused, "the Rollout is paused", func(w *world) { w.paused = true; w.touched(onRollout) })
	if c := w.status.Common(); c != nil && w.status.Sluice.Epoch > 0 {
		for _, m := range w.senders() {
			add(true, m.name, m.do)
		}
		add(c.CurrentStepState != api.StepReady, "a blind approval", (*world).approve)
		for _, to := range w.model.jumps() {
			add(c.NextStepIndex != to, fmt.Sprintf("a jump to step %d", to), func(w *world) {
				if w.state().InStep() && int(to) <= len(w.agreed().Steps) {
					w.allow(int8(to))
				}
				w.edit(func(c *api.CommonStatus) { c.NextStepIndex = to })
			})
		}
	}
	return moves
}

// jumps returns the steps that users jump to, one of them beyond the last step.
func (m *model) jumps() []int32 {
	jumps := []int32{1, 2, 9}
	if len(m.spec.Steps) > 2 {
		jumps = append(jumps, 3)
	}
	return jumps
}

// measures reports whether the model has an analysis.
func (m *model) measures() bool {
	return m.spec.ReleaseAnalysis != nil || m.spec.StepAnalysis(1) != nil || m.spec.StepAnalysis(2) != nil
}

// plan returns the owner's spec, with the first steps or with the other steps.
func (m *model) plan(revised bool) rollout.Spec {
	spec := m.spec
	if revised {
		spec.Steps = m.other
		spec.Hash = rollout.PlanHash(spec)
	}
	return spec
}

// agreed returns the committed plan.
func (w *world) agreed() rollout.Spec {
	if other := w.model.plan(true); w.model.other != nil && machine(&w.status).PlanHash == other.Hash {
		return other
	}
	return w.model.spec
}

// mostAllowed returns the number of pods of the last step that users have allowed, in one plan.
func (w *world) mostAllowed(spec rollout.Spec) int32 {
	return w.model.replicas(spec, min(int32(w.allowed), int32(len(spec.Steps))))
}

// replicas returns the number of pods of a step.
func (m *model) replicas(spec rollout.Spec, step int32) int32 {
	if int(step) > len(spec.Steps) {
		return int32(m.size()) // all traffic, on all the new pods
	}
	p := planner{seen: rollout.Seen{Spec: spec, Workload: &rollout.Workload{DesiredReplicas: int32(m.size())}}, m: &api.SluiceStatus{Step: step}}
	return p.desiredNewPods()
}

// needed returns the number of pods of a step that must be ready.
func (m *model) needed(spec rollout.Spec, step int32) int32 {
	pods := m.replicas(spec, step)
	return max(pods-spec.FailureThreshold.Of(pods), min(pods, 1))
}
