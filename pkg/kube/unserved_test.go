package kube_test

import (
	"strings"
	"testing"

	"sluice.dev/sluice/pkg/rollout"
)

func TestAGatewayKindThatGoesIsSaidAndFoundAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const group = "goes.example.com"
	const crd = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: gadgets.goes.example.com}
spec:
  group: goes.example.com
  scope: Namespaced
  names: {kind: Gadget, plural: gadgets, singular: gadget}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: goes, labels: {sluice.dev/aggregate-to-executor: "true"}}
rules: [{apiGroups: [goes.example.com], resources: [gadgets], verbs: [get, update, patch]}]`
	w.apply(deployment, service, strings.NewReplacer("networking.istio.io/v1", group+"/v1", "VirtualService", "Gadget").Replace(canaryRollout))
	missing := func() bool {
		for _, p := range w.observe("web").Seen.Problems {
			if p.Reason == rollout.ReasonRouteMissing && !p.Unknown && strings.Contains(p.Message, "does not serve Gadget web") {
				return true
			}
		}
		return false
	}
	for range 2 {
		w.apply(crd)
		w.eventually("the kind is served", func() bool { return !missing() })
		w.kubectl("", "delete", "crd", "gadgets."+group)
		w.eventually("the kind that is gone is said", missing)
	}
}
