package kube

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"sluice.dev/sluice/pkg/rollout"
)

func TestReadyEndpointsAreThePodsOfTheCanary(t *testing.T) {
	t.Parallel()
	yes, no := true, false
	pod := func(name string, ready, terminating *bool) discoveryv1.Endpoint {
		return discoveryv1.Endpoint{
			Addresses: []string{"10.0.0.1"}, TargetRef: &corev1.ObjectReference{Kind: "Pod", Name: name, UID: types.UID(name)},
			Conditions: discoveryv1.EndpointConditions{Ready: ready, Terminating: terminating},
		}
	}
	cases := map[string]struct {
		endpoints []discoveryv1.Endpoint
		want      int32
	}{
		"nothing":                           {nil, 0},
		"ready pods":                        {[]discoveryv1.Endpoint{pod("web-canary-abc-1", &yes, &no), pod("web-canary-abc-2", nil, nil)}, 2},
		"pods that are not ready":           {[]discoveryv1.Endpoint{pod("web-canary-abc-1", &no, nil)}, 0},
		"pods that are on their way out":    {[]discoveryv1.Endpoint{pod("web-canary-abc-1", &yes, &yes)}, 0},
		"pods of an older canary":           {[]discoveryv1.Endpoint{pod("web-canary-old-1", &yes, nil)}, 0},
		"a pod in slices of two families":   {[]discoveryv1.Endpoint{pod("web-canary-abc-1", &yes, nil), pod("web-canary-abc-1", &yes, nil)}, 1},
		"an address that belongs to no pod": {[]discoveryv1.Endpoint{{Addresses: []string{"10.0.0.9"}}}, 0},
		"an endpoint without an address":    {[]discoveryv1.Endpoint{{TargetRef: &corev1.ObjectReference{Name: "web-canary-abc-1"}}}, 0},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &Snapshot{
				spec:   rollout.Spec{Style: rollout.StyleCanary},
				canary: &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "web-canary"}},
				Seen:   rollout.Seen{Canary: &rollout.Canary{Hash: "abc"}},
			}
			var endpoints []*discoveryv1.EndpointSlice
			for _, e := range c.endpoints {
				endpoints = append(endpoints, &discoveryv1.EndpointSlice{Endpoints: []discoveryv1.Endpoint{e}})
			}
			if got := s.readyEndpoints(endpoints); got != c.want {
				t.Errorf("%d endpoints are ready, want %d", got, c.want)
			}
		})
	}
}
