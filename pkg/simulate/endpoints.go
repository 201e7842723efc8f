package simulate

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	"sluice.dev/sluice/pkg/api"
)

// This file is the controller of EndpointSlices.

// settleEndpoints gives each Service of the release the endpoints of the pods that it selects. If the store does not have the whole cluster, it omits the
// Services whose EndpointSlices the executor has not read.
func (s *store) settleEndpoints(namespace string) error {
	for _, k := range s.listKeys(services, namespace) {
		service := s.objects[k]
		if !s.whole && service.GetLabels()[api.LabelRolloutUID] == "" && len(s.slicesOf(service)) == 0 {
			continue
		}
		if err := s.settleEndpointsOf(service); err != nil {
			return err
		}
	}
	return nil
}

// slicesOf returns the keys of the EndpointSlices of a Service.
func (s *store) slicesOf(service *unstructured.Unstructured) []key {
	return slices.DeleteFunc(s.listKeys(endpointSlices, service.GetNamespace()), func(k key) bool {
		return s.objects[k].GetLabels()[discoveryv1.LabelServiceName] != service.GetName()
	})
}

// settleEndpointsOf keeps one slice for the pods with the same ports.
func (s *store) settleEndpointsOf(service *unstructured.Unstructured) error {
	svc, err := fromUnstructured[corev1.Service](service)
	if err != nil {
		return err
	}
	if len(svc.Spec.Selector) == 0 {
		return nil // no controller creates endpoints for it
	}
	wanted := map[key]*discoveryv1.EndpointSlice{}
	var ports [][]discoveryv1.EndpointPort
	for i, pod := range s.readyPods(svc.Namespace, labels.SelectorFromSet(svc.Spec.Selector)) {
		of := endpointPorts(svc, pod.containers)
		n := slices.IndexFunc(ports, func(known []discoveryv1.EndpointPort) bool { return equality.Semantic.DeepEqual(known, of) })
		if n < 0 {
			n, ports = len(ports), append(ports, of)
		}
		at := key{endpointSlices, svc.Namespace, fmt.Sprintf("%s-rehearsal-%d", svc.Name, n)}
		if wanted[at] == nil {
			wanted[at] = &discoveryv1.EndpointSlice{
				ObjectMeta: metav1.ObjectMeta{Name: at.name, Namespace: svc.Namespace, Labels: withEntry(withEntry(maps.Clone(svc.Labels), discoveryv1.LabelServiceName, svc.Name),
					discoveryv1.LabelManagedBy, "endpointslice-controller.k8s.io"),
					OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(service, corev1.SchemeGroupVersion.WithKind("Service"))}},
				AddressType: discoveryv1.AddressTypeIPv4, Ports: of,
			}
		}
		wanted[at].Endpoints = append(wanted[at].Endpoints, discoveryv1.Endpoint{
			Addresses: []string{fmt.Sprintf("10.0.%d.%d", i/250, i%250+1)}, Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(true)}, TargetRef: &pod.ref,
		})
	}
	for _, k := range s.slicesOf(service) { // including the slices read from a cluster
		if wanted[k] == nil {
			s.removeObject(k)
		}
	}
	for _, at := range slices.SortedFunc(maps.Keys(wanted), compareKeys) {
		o, err := toUnstructured(wanted[at], discoveryv1.SchemeGroupVersion.WithKind("EndpointSlice"))
		if err != nil {
			return err
		}
		if s.objects[at] == nil {
			s.createObject(at, o)
			continue
		}
		next := s.objects[at].DeepCopy()
		next.Object["endpoints"], next.Object["ports"] = o.Object["endpoints"], o.Object["ports"]
		s.updateObject(at, next)
	}
	return nil
}

// endpointPorts returns the ports of a Service that lead to a port of the containers. Kubernetes does not check a numeric target port.
func endpointPorts(svc *corev1.Service, containers []corev1.Container) (ports []discoveryv1.EndpointPort) {
	for _, port := range svc.Spec.Ports {
		number := cmp.Or(port.TargetPort.IntVal, port.Port)
		if name := port.TargetPort.StrVal; name != "" {
			number = 0
			for _, c := range containers {
				for _, known := range c.Ports {
					if known.Name == name {
						number = known.ContainerPort
					}
				}
			}
		}
		if number != 0 {
			ports = append(ports, discoveryv1.EndpointPort{Name: ptr.To(port.Name), Port: ptr.To(number), Protocol: ptr.To(cmp.Or(port.Protocol, corev1.ProtocolTCP))})
		}
	}
	return ports
}

// readyPod is a pod that can receive requests.
type readyPod struct {
	ref        corev1.ObjectReference
	containers []corev1.Container
}

// readyPods returns the ready pods that a selector matches. The store has no objects for the pods of ReplicaSets, and counts them by the status.
func (s *store) readyPods(namespace string, selector labels.Selector) (found []readyPod) {
	add := func(o *unstructured.Unstructured, name string, fields ...string) {
		var spec corev1.PodSpec
		body, _, _ := unstructured.NestedMap(o.Object, fields...)
		_ = runtime.DefaultUnstructuredConverter.FromUnstructured(body, &spec) // a pod spec that cannot be decoded has no named port
		ref := corev1.ObjectReference{Kind: "Pod", Namespace: namespace, Name: name, UID: o.GetUID()}
		found = append(found, readyPod{ref, slices.Concat(spec.InitContainers, spec.Containers)})
	}
	for _, k := range s.listKeys(replicaSets, namespace) {
		set := s.objects[k]
		of, _, _ := unstructured.NestedStringMap(set.Object, "spec", "template", "metadata", "labels")
		n, _, _ := unstructured.NestedInt64(set.Object, "status", "readyReplicas")
		for i := range n {
			if selector.Matches(labels.Set(of)) {
				add(set, fmt.Sprintf("%s-%d", k.name, i), "spec", "template", "spec")
			}
		}
	}
	for _, k := range s.listKeys(pods, namespace) {
		pod := s.objects[k]
		owner := metav1.GetControllerOfNoCopy(pod)
		if owner != nil && owner.Kind != "ReplicaSet" && selector.Matches(labels.Set(pod.GetLabels())) {
			add(pod, k.name, "spec")
		}
	}
	return found
}
