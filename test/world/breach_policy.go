package world

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/traffic"
)

// This file judges policies that are attached to Services. Requests to a canary without them may go in plain text to
// pods that speak TLS.
//
// isPolicy reports whether an object is of a kind that releases copy.

// isPolicy reports whether an object is of a kind that releases copy.
func isPolicy(u *unstructured.Unstructured) bool {
	return u != nil && traffic.IsPolicyKind(u.GroupVersionKind().GroupKind())
}

// takePolicy records a policy. An executor must not delete a copy while a route leads to the canary, unless the policy
// is gone or the owner made one for the canary.
func (h *history) takePolicy(w Write) {
	key := w.Resource + "/" + w.Name
	if w.Verb != "delete" {
		if isPolicy(w.Object) {
			h.policies[key] = w.Object
		}
		return
	}
	copied := h.policies[key]
	delete(h.policies, key)
	if copied == nil || ours(copied) == "" || w.User != executorUser {
		return
	}
	for _, canary := range traffic.PolicyTargets(copied) {
		for name, route := range h.routes {
			if !isPolicy(route) && routesTo(route.Object["spec"], canary) && len(h.uncopied(canary, copied.GetKind())) > 0 {
				h.breach(w, "%s was deleted while %s led to Service %s", key, name, canary)
			}
		}
	}
}

// makeCanaryService records the policies that the stable Service has when an executor creates its canary Service. The
// release must copy them.
func (h *history) makeCanaryService(canary string) {
	h.due[canary] = map[string]bool{}
	for key, p := range h.policies {
		if ours(p) == "" && slices.Contains(traffic.PolicyTargets(p), strings.TrimSuffix(canary, api.SuffixCanary)) {
			h.due[canary][key] = true
		}
	}
}

// uncopied returns policies of a kind, "" for any, that the canary Service lacks. The stable Service has had them since
// an executor created the canary Service.
func (h *history) uncopied(canary, kind string) (missing []string) {
	for key := range h.due[canary] {
		p := h.policies[key]
		if p == nil || kind != "" && p.GetKind() != kind || !slices.Contains(traffic.PolicyTargets(p), strings.TrimSuffix(canary, api.SuffixCanary)) {
			continue
		}
		has := false
		for _, other := range h.policies {
			has = has || other.GroupVersionKind().GroupKind() == p.GroupVersionKind().GroupKind() && slices.Contains(traffic.PolicyTargets(other), canary)
		}
		if !has {
			missing = append(missing, key)
		}
	}
	return missing
}

// leads judges a write after which a route leads to a canary for the first time.
func (h *history) leads(w Write, canary string, before *unstructured.Unstructured) {
	if isPolicy(w.Object) || w.User != executorUser || before != nil && routesTo(before.Object["spec"], canary) || !routesTo(w.Object.Object["spec"], canary) {
		return
	}
	for _, policy := range h.uncopied(canary, "") {
		h.breach(w, "%s/%s was led to Service %s, which lacks a copy of %s", w.Resource, w.Name, canary, policy)
	}
}
