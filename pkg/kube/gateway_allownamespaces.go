package kube

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
	"sluice.dev/sluice/pkg/traffic"
)

// This file is about cluster-scoped gateway objects. A user who may write Rollouts in one namespace must not change the
// routes of all others, unless the owner of the object allows it.

// namespaceProblem says why a namespace may not route through a cluster-scoped object; nil if it may. A release that is
// on the object stalls at its step, and the executor may still restore the object. A write depends on the object as it
// was observed, so no write raises the share after the owner has revoked the permission.
func (o *observation) namespaceProblem(g *gateway, live *unstructured.Unstructured) *rollout.Problem {
	if live == nil || g.access.Namespace != "" || allowsNamespace(live, o.namespace) {
		return nil
	}
	message := fmt.Sprintf(
		"%[1]s belongs to no namespace, and its owner lets no release of namespace %[2]s shape it: have the owner add the annotation %[3]s: %[2]s to it, with commas between several namespaces",
		g.ref, o.namespace, api.AnnotationAllowNamespaces)
	own := func(r traffic.Release) bool {
		return r.Kind == "" && r.Namespace == o.namespace && r.Name == o.snapshot.rollout.Name
	}
	if slices.ContainsFunc(traffic.ReleasesOn(live), own) {
		message += "; the canary keeps the share that it has until then, or until the release is rolled back or aborted"
	}
	return &rollout.Problem{Reason: rollout.ReasonRouteNotAllowed, Route: g.ref, Message: message}
}

// allowsNamespace reports whether the owner of an object lets releases of a namespace change it.
func allowsNamespace(u *unstructured.Unstructured, namespace string) bool {
	for allowed := range strings.SplitSeq(u.GetAnnotations()[api.AnnotationAllowNamespaces], ",") {
		if allowed = strings.TrimSpace(allowed); allowed == namespace || allowed == "*" {
			return true
		}
	}
	return false
}
