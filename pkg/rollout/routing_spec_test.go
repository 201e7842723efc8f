package rollout

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"sluice.dev/sluice/pkg/api"
)

func TestParseMakesOneOfEntriesForOneService(t *testing.T) {
	spec := parseYAML(t, `{spec: {workloadRef: {apiVersion: apps/v1, kind: Deployment, name: demo}, strategy: {canary: {steps: [{replicas: 1}], trafficRoutings: [
		{service: web, gracePeriodSeconds: 1, customNetworkRefs: [{apiVersion: networking.istio.io/v1, kind: VirtualService, name: web}]},
		{service: grpc, createCanaryService: false, customNetworkRefs: [{apiVersion: example.com/v1, kind: Route, name: grpc}]},
		{service: web, gateway: {httpRouteName: edge}},
		{service: web, gracePeriodSeconds: 5, customNetworkRefs: [{apiVersion: example.com/v1, kind: Route, name: web}]}]}}}}`)
	want := []Routing{
		{Service: "web", CanaryService: "web-canary", Grace: 5 * time.Second, Objects: []Ref{
			{APIVersion: "networking.istio.io/v1", Kind: "VirtualService", Name: "web"}, {APIVersion: "gateway.networking.k8s.io/v1", Kind: "HTTPRoute", Name: "edge"}, {APIVersion: "example.com/v1", Kind: "Route", Name: "web"},
		}},
		{Service: "grpc", CanaryService: "grpc", Grace: 3 * time.Second, Objects: []Ref{{APIVersion: "example.com/v1", Kind: "Route", Name: "grpc"}}},
	}
	if diff := cmp.Diff(want, spec.Routing); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if len(spec.Unsupported) > 0 {
		t.Errorf("it does not carry out %v", spec.Unsupported)
	}
}

func TestTheObjectsOfSeveralEntries(t *testing.T) {
	entry := func(service, version string) api.TrafficRoutingRef {
		return api.TrafficRoutingRef{Service: service, Routes: []string{service}, CustomNetworkRefs: []api.ObjectRef{{APIVersion: version, Kind: "Route", Name: "edge"}}}
	}
	ingress := func(service string) api.TrafficRoutingRef {
		return api.TrafficRoutingRef{Service: service, Ingress: &api.IngressTrafficRouting{Name: "edge"}}
	}
	all, err := parseRoutings(plan{routings: []api.TrafficRoutingRef{entry("web", "example.com/v1"), entry("api", "example.com/v1beta1")}})
	if err != nil {
		t.Fatal(err)
	}
	edge := Ref{APIVersion: "example.com/v1", Kind: "Route", Name: "edge"}
	for _, r := range all {
		if diff := cmp.Diff([]Ref{edge}, r.Objects); diff != "" {
			t.Errorf("Service %s (-want +got):\n%s", r.Service, diff)
		}
		if diff := cmp.Diff([]string{r.Service}, r.AllowedRules(edge)); diff != "" {
			t.Errorf("the rules for Service %s (-want +got):\n%s", r.Service, diff)
		}
	}
	marked := entry("web", "example.com/v1")
	marked.Tag, marked.CustomNetworkRefs = &api.TrafficTag{Header: "x-tag", Value: "gray"}, []api.ObjectRef{{APIVersion: "example.com/v1", Kind: "Route", Name: "other"}}
	for want, entries := range map[string][]api.TrafficRoutingRef{
		"trafficRoutings[1]: Route edge is named by another entry for the same Service as well: name it once":             {entry("web", "example.com/v1"), entry("web", "example.com/v2")},
		"trafficRoutings[1]: Ingress edge is named by another entry as well: let each Service have an Ingress of its own": {ingress("web"), ingress("api")},
		"trafficRoutings[1]: another entry for Service web has another tag: write the same in both":                       {entry("web", "example.com/v1"), marked},
	} {
		if _, err := parseRoutings(plan{routings: entries}); err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}
