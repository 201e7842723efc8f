package kube

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
)

// behind returns a slice of the controller that follows the selector of Service web, with the ports and the pods of
// these names. All pods are ready.
func behind(ports []string, pods ...string) *discoveryv1.EndpointSlice {
	slice := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{discoveryv1.LabelManagedBy: "endpointslice-controller.k8s.io"}}}
	for _, port := range ports {
		slice.Ports = append(slice.Ports, discoveryv1.EndpointPort{Name: ptr.To(port), Port: ptr.To[int32](8080)})
	}
	for _, pod := range pods {
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{Addresses: []string{"10.0.0.1"}, TargetRef: &corev1.ObjectReference{Kind: "Pod", Name: pod, UID: types.UID(pod)}})
	}
	return slice
}

// A Service leads to the pods that its slices list, as far as they have its ports.
func TestWhichPodsAStableServiceReaches(t *testing.T) {
	t.Parallel()
	const stable, old, canary = "web-6444769cf-", "web-5c8f9d7b6-", "web-canary-7d9fc8-"
	http := []string{"http"}
	foreign, unready := behind(http, "api-1"), behind(http, stable+"bcdfg", stable+"hjklm")
	foreign.Labels[discoveryv1.LabelManagedBy] = "an operator"
	unready.Endpoints[0].Conditions.Ready = ptr.To(false)
	ready := func(n int32) map[string]rollout.Endpoints {
		return map[string]rollout.Endpoints{"6444769cf": {Ready: n}, "5c8f9d7b6": {}}
	}
	astray := func(why string) map[string]rollout.Endpoints {
		return map[string]rollout.Endpoints{"6444769cf": {UnreachableReason: why}, "5c8f9d7b6": {}}
	}
	const noPort = "its port 80 leads to their port web, which they do not have"
	for name, c := range map[string]struct {
		slices []*discoveryv1.EndpointSlice
		change func(*corev1.Service)
		want   rollout.Selected
	}{
		"pods of two versions and of the canary": {
			[]*discoveryv1.EndpointSlice{behind(http, stable+"bcdfg", stable+"hjklm", old+"bcdfg", canary+"bcdfg")}, nil,
			rollout.Selected{Pods: map[string]rollout.Endpoints{"6444769cf": {Ready: 2}, "5c8f9d7b6": {Ready: 1}}},
		},
		"a pod with addresses of two families": {[]*discoveryv1.EndpointSlice{behind(http, stable+"bcdfg"), behind(http, stable+"bcdfg")}, nil, rollout.Selected{Pods: ready(1)}},
		"pods that are not ready":              {[]*discoveryv1.EndpointSlice{unready}, nil, rollout.Selected{Pods: ready(1)}},
		"none yet":                             {nil, nil, rollout.Selected{Pods: ready(0)}},
		"a selector that does not match": {
			[]*discoveryv1.EndpointSlice{behind(nil)}, func(svc *corev1.Service) { svc.Spec.Selector["tier"] = "front" },
			rollout.Selected{Pods: map[string]rollout.Endpoints{
				"6444769cf": {UnreachableReason: "its selector app=web,tier=front does not match them"}, "5c8f9d7b6": {UnreachableReason: "its selector app=web,tier=front does not match them"},
			}},
		},
		"a selector that is narrowed to another version": {
			[]*discoveryv1.EndpointSlice{behind(http, old+"bcdfg")}, func(svc *corev1.Service) { svc.Spec.Selector[api.LabelPodTemplateHash] = "5c8f9d7b6" },
			rollout.Selected{Pods: map[string]rollout.Endpoints{"6444769cf": {}, "5c8f9d7b6": {Ready: 1}}},
		},
		"pods that a webhook gave the label": {
			[]*discoveryv1.EndpointSlice{behind(http, stable+"bcdfg")}, func(svc *corev1.Service) { svc.Spec.Selector["tier"] = "front" },
			rollout.Selected{Pods: map[string]rollout.Endpoints{"6444769cf": {Ready: 1}, "5c8f9d7b6": {UnreachableReason: "its selector app=web,tier=front does not match them"}}},
		},
		"a port without a name": {
			[]*discoveryv1.EndpointSlice{{ObjectMeta: foreign.ObjectMeta, Endpoints: foreign.Endpoints}, unnamed(stable + "bcdfg")},
			func(svc *corev1.Service) { svc.Spec.Ports[0].Name = "" }, rollout.Selected{Pods: ready(1)},
		},
		"pods without the port": {[]*discoveryv1.EndpointSlice{behind(nil, stable+"bcdfg")}, nil, rollout.Selected{Pods: astray(noPort)}},
		"pods without the port that is routed": {
			[]*discoveryv1.EndpointSlice{behind([]string{"metrics"}, stable+"bcdfg")}, withMetrics, rollout.Selected{Pods: astray(noPort)},
		},
		"pods without a port that is not routed": {[]*discoveryv1.EndpointSlice{behind(http, stable+"bcdfg")}, withMetrics, rollout.Selected{Pods: ready(1)}},
		"pods of others": {
			[]*discoveryv1.EndpointSlice{behind(http, stable+"bcdfg", "web-api-bcdfg", "api-1", "web-0"), foreign}, nil,
			rollout.Selected{Pods: ready(1), Others: []string{"api-1", "web-0", "web-api-bcdfg"}},
		},
		"pods that are too new to be known": {
			[]*discoveryv1.EndpointSlice{behind(http, stable+"bcdfg", "web-7f8d9c6b5-bcdfg", "web-canary-7f8d9c6b5-bcdfg")}, nil, rollout.Selected{Pods: ready(1)},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			set := func(owner, hash string) *appsv1.ReplicaSet {
				return &appsv1.ReplicaSet{
					ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: owner + "-" + hash, Labels: map[string]string{api.LabelPodTemplateHash: hash},
						OwnerReferences: []metav1.OwnerReference{{Kind: "Deployment", Name: owner, Controller: ptr.To(true)}}},
					Spec: appsv1.ReplicaSetSpec{Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web", api.LabelPodTemplateHash: hash}}}},
				}
			}
			route := rollout.Ref{APIVersion: "gateway.networking.k8s.io/v1", Kind: "HTTPRoute", Name: "web"}
			b := &backend{
				routing: rollout.Routing{Service: "web", CanaryService: "web-canary", Objects: []rollout.Ref{route}},
				stable: &corev1.Service{Spec: corev1.ServiceSpec{Selector: map[string]string{"app": "web"},
					Ports: []corev1.ServicePort{{Name: "http", Port: 80, TargetPort: intstr.FromString("web")}}}},
				stableEndpoints: endpointSlices{slices: c.slices, read: true},
			}
			if c.change != nil {
				c.change(b.stable)
			}
			s := &Snapshot{
				rollout:     &api.Rollout{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}},
				spec:        rollout.Spec{Workload: rollout.Ref{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"}},
				replicaSets: []*appsv1.ReplicaSet{set("web", "6444769cf"), set("web", "5c8f9d7b6"), set("web-canary", "7d9fc8")},
				gateways: []*gateway{{ref: route, live: &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
					"rules": []any{map[string]any{"backendRefs": []any{map[string]any{"name": "web", "port": int64(80)}}}}}}}}},
			}
			if diff := cmp.Diff(c.want, *s.stableSelection(b)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// unnamed returns a slice whose port has no name.
func unnamed(pods ...string) *discoveryv1.EndpointSlice {
	slice := behind(nil, pods...)
	slice.Ports = []discoveryv1.EndpointPort{{Port: ptr.To[int32](8080)}}
	return slice
}

func withMetrics(svc *corev1.Service) {
	svc.Spec.Ports = append(svc.Spec.Ports, corev1.ServicePort{Name: "metrics", Port: 9090, TargetPort: intstr.FromString("metrics")})
}

// The executor knows pods of a StatefulSet by their UIDs, and the newest ones by their names.
func TestWhichPodsAStableServiceReachesInAnotherKind(t *testing.T) {
	t.Parallel()
	live := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": map[string]any{"name": "web", "uid": "w"}}}
	pod := func(name, hash string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), Labels: map[string]string{"app": "web", api.LabelControllerRevisionHash: hash},
			OwnerReferences: []metav1.OwnerReference{{UID: "w", Controller: ptr.To(true)}}}}
	}
	s := &Snapshot{
		rollout: &api.Rollout{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}},
		spec:    rollout.Spec{Workload: rollout.Ref{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "web"}}, object: &workloadObject{},
	}
	s.object.Live, s.object.Pods = live, []*corev1.Pod{pod("web-0", "a"), pod("web-1", "b")}
	b := &backend{
		routing: rollout.Routing{Service: "web", CanaryService: "web-canary"},
		stable:  &corev1.Service{Spec: corev1.ServiceSpec{Selector: map[string]string{"app": "web"}}},
		stableEndpoints: endpointSlices{read: true, slices: []*discoveryv1.EndpointSlice{
			behind(nil, "web-0", "web-1", "web-2", "web-bcdfg", "web-api-0", "web-7f8d9c6b5-bcdfg"),
		}},
	}
	want := rollout.Selected{Pods: map[string]rollout.Endpoints{"a": {Ready: 1}, "b": {Ready: 1}}, Others: []string{"web-7f8d9c6b5-bcdfg", "web-api-0"}}
	if diff := cmp.Diff(want, *s.stableSelection(b)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Kinds of gateway objects name the port of a Service in a few ways.
func TestWhichPortsOfAServiceARouteLeadsTo(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		spec any
		want []string
	}{
		"an HTTPRoute":     {map[string]any{"rules": []any{map[string]any{"backendRefs": []any{map[string]any{"name": "web", "port": int64(80)}, map[string]any{"name": "api", "port": int64(81)}}}}}, []string{"80"}},
		"an Ingress":       {map[string]any{"backend": map[string]any{"service": map[string]any{"name": "web", "port": map[string]any{"name": "http"}}}}, []string{"http"}},
		"a VirtualService": {map[string]any{"destination": map[string]any{"host": "web.shop.svc.cluster.local", "port": map[string]any{"number": int64(80)}}}, []string{"80"}},
		"an ApisixRoute":   {[]any{map[string]any{"serviceName": "web", "servicePort": int64(80)}}, []string{"80"}},
		"no port":          {map[string]any{"destination": map[string]any{"host": "web"}}, nil},
		"no spec":          {nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(c.want, portsTo(c.spec, "web")); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
