package planner

import (
	"fmt"
	"slices"
	"strings"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
)

// serviceWorld is one stable Service and its canary Service. It has the versions that they select, 0 for all versions and for no canary Service, and
// the ready endpoints of the canary Service. astray: the selector of the stable Service matches no pod; strayed: it once did not.
type serviceWorld struct {
	pin, canary, endpoints int8
	astray, strayed        bool
}

// entry returns the index of the routing entry with a Service.
func (m *model) entry(service string) int {
	for i, r := range m.spec.Routing {
		if r.Service == service || r.CanaryService == service {
			return i
		}
	}
	panic("no such Service")
}

// routedBy returns the index of the routing entry with a gateway object.
func (m *model) routedBy(object rollout.Ref) int {
	for i, r := range m.spec.Routing {
		for _, o := range r.Objects {
			if o == object {
				return i
			}
		}
	}
	panic("no such route")
}

func (w *world) seeServices(s *rollout.Seen) {
	for i := range s.Spec.Routing {
		service := w.services[i]
		seen := rollout.Backend{StableService: &rollout.Service{UID: "s", Hash: hash(service.pin)}, CanaryEndpoints: int32(service.endpoints), Stable: w.selected(service)}
		if service.canary != 0 {
			seen.CanaryService = &rollout.Service{UID: "t", Ours: true, Hash: w.model.newHash(service.canary)}
		}
		s.Backends = append(s.Backends, seen)
	}
}

// selected returns the pods of the workload behind a stable Service.
func (w *world) selected(service serviceWorld) *rollout.Selected {
	all := &rollout.Selected{Pods: map[string]rollout.Endpoints{}}
	for v := int8(1); v <= 3; v++ {
		if (service.pin == 0 || service.pin == v) && w.pods[v] > 0 {
			all.Pods[hash(v)] = rollout.Endpoints{Ready: int32(w.pods[v] - w.raw[v])}
			if service.astray {
				all.Pods[hash(v)] = rollout.Endpoints{UnreachableReason: "its selector does not match them"}
			}
		}
	}
	return all
}

// stableServes checks a decision while requests to a stable Service reach no stable pod although some are ready. No step begins or goes on, and no
// gateway object gives the new version more.
func (c *checks) stableServes(w *world, seen rollout.Seen, d rollout.Decision) {
	before, after := machine(&seen.Status), machine(&d.Status)
	step, _ := seen.Spec.Step(after.Step)
	if seen.Workload == nil || !step.RoutesTraffic() || w.model.inPlace() && !w.model.beside() && w.model.replicas(seen.Spec, after.Step) == int32(w.model.size()) {
		return
	}
	for i, routing := range seen.Spec.Routing {
		ready := slices.ContainsFunc(seen.Workload.Revisions, func(set rollout.Revision) bool { return set.Hash == after.StableRevision && set.Ready > 0 })
		if !routing.SeparateService() || !ready || seen.Backends[i].Stable.Pods[after.StableRevision].UnreachableReason == "" {
			continue
		}
		for _, t := range after.Transitions {
			switch from, to := rollout.State(t.From), rollout.State(t.To); {
			case t.Seq <= before.TransitionSeq:
			case from == rollout.StateInitializing && to == rollout.StateBeforeUpgrade, from == rollout.StateBeforeUpgrade && to == rollout.StateUpgrade, from == rollout.StateUpgrade && to == rollout.StateTrafficRouting:
				c.fail("StableServes", "%s > %s while Service %s reaches nobody", t.From, to, routing.Service)
			}
		}
		for _, a := range d.Actions {
			if route, ok := a.(rollout.ApplyRoute); ok && route.Step > 0 && rollout.State(after.State).InStep() {
				c.fail("StableServes", "%s while Service %s reaches nobody", a, routing.Service)
			}
		}
	}
}

// pinned reports whether all stable Services select a version.
func (w *world) pinned(version int8) bool {
	for i := range w.model.spec.Routing {
		if w.services[i].pin != version {
			return false
		}
	}
	return len(w.model.spec.Routing) > 0
}

// strays lists changes of a stable Service by its owner, who reverts them in the end.
func (w *world) strays(astray bool) (moves []move) {
	for i := range w.model.spec.Routing {
		if s := w.services[i]; w.model.strays && s.astray != astray && !(astray && s.strayed) {
			moves = append(moves, move{fmt.Sprintf("the selector of Service %d matches no pod: %t", i, astray), func(w *world) {
				w.services[i].astray, w.services[i].strayed = astray, true
				w.touched(onService0 << i)
			}})
		}
	}
	return moves
}

// unserved reports whether a release has left all Services.
func (w *world) unserved() bool {
	for _, s := range w.services {
		if s.pin != 0 || s.canary != 0 {
			return false
		}
	}
	return true
}

// reachable returns the number of ready pods that a canary Service selects.
func (w *world) reachable(i int) int8 {
	selected := w.services[i].canary
	if w.model.inPlace() {
		if selected == 0 {
			return 0
		}
		return w.pods[selected] - w.raw[selected]
	}
	if selected != 0 && selected == w.canary.version && !w.canary.deleting {
		return w.canary.ready
	}
	return 0
}

// serve carries out the actions on Services.
func (w *world) serve(a rollout.Action) {
	switch a := a.(type) {
	case rollout.PinService:
		w.services[w.model.entry(a.Name)].pin = versionOf(a.Hash)
	case rollout.UnpinService:
		w.services[w.model.entry(a.Name)].pin = 0
	case rollout.CreateCanaryService:
		if w.model.inPlace() && !w.routedToCanary() && w.services[0].canary == 0 && w.services[1].canary == 0 {
			w.left = w.now - graceOfModels // these Services have never had traffic
		}
		w.services[w.model.entry(a.Name)].canary = serviceOf(a.Hash)
	case rollout.PointCanaryService:
		w.services[w.model.entry(a.Name)].canary = serviceOf(a.Hash)
	case rollout.DeleteCanaryService:
		w.services[w.model.entry(a.Name)].canary = 0
	}
}

// serviceOf returns the version of the pods that a canary Service selects.
func serviceOf(hash string) int8 { return int8(hash[len(hash)-1] - '0') }

// serving counts the ready pods that get requests from a Service. In a model without Services, every pod counts.
func (w *world) serving(i int) int8 {
	pin, routed := w.services[i].pin, w.routedToCanary()
	beside := w.canary.ready
	if w.canary.deleting || pin != 0 && !routed {
		beside = 0
	}
	if pin == 0 {
		return w.allReady() + beside
	}
	ready := w.pods[pin] - w.raw[pin]
	if next := w.services[i].canary; w.model.inPlace() && routed && next != 0 && next != pin {
		ready += w.pods[next] - w.raw[next]
	}
	return ready + beside
}

// serves checks a move of the executor, or of a controller, while a release is finalised: the move must not delete the last serving pod. letsGo
// checks the moves of an unmanaged workload's controller when the executor releases the workload.
func (c *checks) serves(before, after *world) {
	if free := !before.stopped && !before.parked; free && !strings.HasPrefix(c.doing, "write ") {
		return
	}
	if before.state() != rollout.StateFinalising || before.unsettled() || after.gone || after.uid == 0 || after.empty || after.hidden || after.forced > 0 || after.model.fails || after.model.broken != 0 {
		return
	}
	for i := range max(1, len(after.model.spec.Routing)) {
		if pin := after.services[i].pin; pin != 0 && after.pods[pin] == 0 {
			continue // a release that begins without a stable pod creates the new pods afterwards
		}
		c.that(before.serving(i) == 0 || after.serving(i) > 0, "WhatServesStays", "nothing serves any more; before, %d pods did", before.serving(i))
	}
}

// letsGo checks an action after which the workload's controller may delete all older pods at once: other pods must serve by then.
func (c *checks) letsGo(w *world, a rollout.Action) {
	m := machine(&w.status)
	if !w.model.whole && !w.model.anew || w.state() != rollout.StateFinalising || w.running() == w.pods[w.template] {
		return
	}
	switch a.(type) {
	case rollout.DeleteCanary:
		c.that(m.FinaliseReason == api.FinaliseWorkloadGone || w.stopped || w.canary.ready == 0 || w.pinned(versionOf(m.StableRevision)), "WhatServesStays", "%s, and the workload may take all its pods", a)
	case rollout.ResumeWorkload:
		c.that(!w.model.inPlace() || !w.held || m.FinaliseReason != api.FinaliseRollback, "WhatServesStays", "%s, which may take all its pods", a)
	}
}
