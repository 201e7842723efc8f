package rollout

// serviceWorld is one stable Service and its canary: the versions that they select, 0 for all and for no canary Service, and the ready
// endpoints of the latter.
type serviceWorld struct{ pin, canary, endpoints int8 }

// entry is the index of the entry of the routing that has a Service.
func (m *model) entry(service string) int {
	for i, r := range m.spec.Routing {
		if r.Service == service || r.CanaryService == service {
			return i
		}
	}
	panic("no such Service")
}

// routedBy is the entry of the routing that has a gateway object.
func (m *model) routedBy(object Ref) int {
	for i, r := range m.spec.Routing {
		for _, o := range r.Objects {
			if o == object {
				return i
			}
		}
	}
	panic("no such route")
}

func (w *world) seeServices(s *Seen) {
	for i := range s.Spec.Routing {
		service := w.services[i]
		seen := Backend{StableService: &Service{UID: "s", Hash: hash(service.pin)}, CanaryEndpoints: int32(service.endpoints)}
		if service.canary != 0 {
			seen.CanaryService = &Service{UID: "t", Ours: true, Hash: w.model.newHash(service.canary)}
		}
		s.Backends = append(s.Backends, seen)
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

// unserved reports whether nothing of a release is left on Services.
func (w *world) unserved() bool {
	for _, s := range w.services {
		if s.pin != 0 || s.canary != 0 {
			return false
		}
	}
	return true
}

// reachable is the number of ready pods that a canary Service selects.
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

// serve is what the actions on Services do.
func (w *world) serve(a Action) {
	switch a := a.(type) {
	case PinService:
		w.services[w.model.entry(a.Name)].pin = versionOf(a.Hash)
	case UnpinService:
		w.services[w.model.entry(a.Name)].pin = 0
	case CreateCanaryService:
		if w.model.inPlace() && !w.routedToCanary() && w.services[0].canary == 0 && w.services[1].canary == 0 {
			w.left = w.now - graceOfModels // no traffic has ever been on these Services
		}
		w.services[w.model.entry(a.Name)].canary = serviceOf(a.Hash)
	case PointCanaryService:
		w.services[w.model.entry(a.Name)].canary = serviceOf(a.Hash)
	case DeleteCanaryService:
		w.services[w.model.entry(a.Name)].canary = 0
	}
}

// serviceOf is the version of the pods that a canary Service selects.
func serviceOf(hash string) int8 { return int8(hash[len(hash)-1] - '0') }
