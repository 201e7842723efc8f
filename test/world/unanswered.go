package world

// Unanswered reports whether nobody was there any more to take the answer, as when the one who asked was killed. Such a write may
// have been made or not.
func (w Write) Unanswered() bool { return w.Code == 0 || w.Code == 499 || w.Code >= 500 }

// forget drops what a write without an answer leaves in doubt, so that nothing is concluded from it.
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
