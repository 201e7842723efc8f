package world

// Unanswered reports whether no client received the answer, for example because the client was killed. Such a write may
// or may not have been made.
func (w Write) Unanswered() bool { return w.Code == 0 || w.Code == 499 || w.Code >= 500 }

// forget drops the state that an unanswered write leaves in doubt, so that no law relies on it.
func (h *history) forget(w Write) {
	switch w.Resource {
	case "services":
		if w.Verb == "create" && h.canaryServices[w.Name] {
			h.services[w.Name] = true
		}
	case "destinationrules", "backendtlspolicies": // a copy may be there
		delete(h.routes, w.Resource+"/"+w.Name)
		clear(h.due)
	case "virtualservices", "httproutes", "ingressroutes", "traefikservices", "apisixroutes", "ingresses":
		delete(h.routes, w.Resource+"/"+w.Name)
	}
}
