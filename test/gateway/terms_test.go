package gateway

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"sluice.dev/sluice/test/world"
)

// One HTTPRoute leads to the workload by two Services. One of them is in a named rule only. Requests with the tag reach
// the canary by both.
func TestARolloutRoutesByTwoServicesOfOneHTTPRoute(t *testing.T) {
	t.Parallel()
	const rules = `[{name: api, matches: [{path: {value: /api}}], backendRefs: [{name: web, port: 80}]}, {backendRefs: [{name: web, port: 80}]},
    {matches: [{path: {value: /admin}}], backendRefs: [{name: admin, port: 80}]}]`
	const route = `routes: [api], tag: {header: x-tag, value: gray, label: example.com/tag}, gateway: {httpRouteName: web}},
        {service: admin, gracePeriodSeconds: 0, gateway: {httpRouteName: web}`
	s := aShop(t, "HTTPRoute", rules, byWeight, route)
	s.w.Apply(t, s.ns, "apiVersion: v1\nkind: Service\nmetadata: {name: admin}\nspec: {selector: {app: web}, ports: [{port: 80}]}")
	s.await(world.Healthy)
	s.release("web:2")
	s.await(world.PausedAt(1))
	s.wantRules(`["x-tag=gray"]: web-canary 1`, "[]: web 80, web-canary 20", "[]: web 1", "[]: admin 80, admin-canary 20")
	canary := s.w.Get(t, s.ns, "deployment", "web-canary")
	if label, _, _ := unstructured.NestedString(canary.Object, "spec", "template", "metadata", "labels", "example.com/tag"); label != "gray" {
		t.Errorf("the canary's pods bear the tag %q", label)
	}
	s.patch(s.kind, `{"metadata":{"annotations":{"note":"changed meanwhile"}}}`)
	s.w.Approve(t, s.ns, "web")
	s.await(world.PausedAt(2))
	s.wantRules(`["x-tag=gray"]: web-canary 1`, "[]: web 40, web-canary 60", "[]: web 1", "[]: admin 40, admin-canary 60")
	s.w.Approve(t, s.ns, "web")
	s.await(world.Healthy)
	s.wantRestored(noteChanged)
	if s.w.Get(t, s.ns, "service", "admin-canary") != nil {
		t.Error("the other canary Service is left")
	}
}
