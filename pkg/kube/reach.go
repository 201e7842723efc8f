package kube

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
)

// This file finds out which pods the requests to a stable Service reach.

// endpointManagers are the controllers whose slices follow the selector of a Service. If an executor narrows the
// Service, slices of other managers do not change.
var endpointManagers = []string{"endpointslice-controller.k8s.io", "endpointslicemirroring-controller.k8s.io"}

// stableSelection returns the pods behind the stable Service. For a pod in a slice, the labels of the template do not
// matter: an admission webhook may have given the pod another label.
func (s *Snapshot) stableSelection(b *backend) *rollout.Selected {
	versionsOf, ports := s.endpointVersions(), s.routedPorts(b)
	ready, lacking, served, others := map[string]map[string]bool{}, map[string]string{}, map[string]bool{}, map[string]bool{}
	for _, slice := range b.stableEndpoints.slices {
		if !slices.Contains(endpointManagers, slice.Labels[discoveryv1.LabelManagedBy]) {
			continue
		}
		missing := missingPort(slice, b.stable, ports)
		for _, e := range slice.Endpoints {
			if e.TargetRef == nil || e.TargetRef.Kind != "Pod" {
				continue
			}
			hashes, ours := versionsOf(e.TargetRef)
			if !ours && isReady(e) {
				others[e.TargetRef.Name] = true
			}
			for _, hash := range hashes {
				switch {
				case missing != "":
					lacking[hash] = missing
				case isReady(e): // a pod is in one slice for each address family
					if ready[hash] == nil {
						ready[hash] = map[string]bool{}
					}
					ready[hash][e.TargetRef.Name] = true
				}
				served[hash] = served[hash] || missing == ""
			}
		}
	}
	all := &rollout.Selected{Pods: map[string]rollout.Endpoints{}, Others: slices.Sorted(maps.Keys(others))}
	owners := maps.Clone(b.stable.Spec.Selector)
	delete(owners, s.revisionLabel())
	selects := labels.SelectorFromSet(owners)
	for hash, of := range s.podLabels() {
		e := rollout.Endpoints{Ready: int32(len(ready[hash]))}
		switch {
		case served[hash]:
		case lacking[hash] != "":
			e.UnreachableReason = lacking[hash]
		case !selects.Matches(of):
			e.UnreachableReason = fmt.Sprintf("its selector %s does not match them", selects)
		}
		all.Pods[hash] = e
	}
	return all
}

// podLabels returns labels of the workload's pods, by the hash of their revision.
func (s *Snapshot) podLabels() map[string]labels.Set {
	all := map[string]labels.Set{}
	if s.object.isPresent() {
		for _, pod := range s.object.Pods {
			if metav1.IsControlledBy(pod, s.object.Live) {
				all[pod.Labels[s.revisionLabel()]] = pod.Labels
			}
		}
		return all
	}
	for _, set := range s.replicaSetsOf(s.replicaSetOwners()[0]) {
		all[set.Labels[api.LabelPodTemplateHash]] = set.Spec.Template.Labels
	}
	return all
}

// endpointVersions returns a function that tells which versions a pod may have, and whether it belongs to the workload
// or its canary. A pod of the canary has no version. Neither has a pod whose ReplicaSet the executor has not seen. A
// pod may have several versions if the name of the workload is so long that Kubernetes cuts the hash off the pod's
// name.
func (s *Snapshot) endpointVersions() func(*corev1.ObjectReference) (hashes []string, ours bool) {
	name := s.spec.Workload.Name
	if s.object.isPresent() {
		known := map[types.UID][]string{}
		for _, pod := range s.object.Pods {
			if metav1.IsControlledBy(pod, s.object.Live) {
				known[pod.UID] = []string{pod.Labels[s.revisionLabel()]}
			}
		}
		return func(pod *corev1.ObjectReference) ([]string, bool) {
			hashes, ours := known[pod.UID]
			rest, made := strings.CutPrefix(pod.Name, name+"-")
			return hashes, ours || made && workloadPodSuffix.MatchString(rest)
		}
	}
	owners := s.replicaSetOwners()
	own, canary := s.replicaSetsOf(owners[0]), s.replicaSetsOf(owners[1])
	return func(pod *corev1.ObjectReference) (hashes []string, ours bool) {
		for _, set := range own {
			if strings.HasPrefix(pod.Name, podPrefix(set.Name)) {
				hashes = append(hashes, set.Labels[api.LabelPodTemplateHash])
			}
		}
		rest, made := strings.CutPrefix(pod.Name, name+"-")
		ours = len(hashes) > 0 || slices.ContainsFunc(canary, func(set *appsv1.ReplicaSet) bool { return strings.HasPrefix(pod.Name, podPrefix(set.Name)) }) ||
			made && deploymentPodSuffix.MatchString(strings.TrimPrefix(rest, strings.TrimPrefix(api.SuffixCanary, "-")+"-"))
		return hashes, ours
	}
}

// The name of a pod tells whether a workload created it, also if the executor has not seen its ReplicaSet or revision.
// A Deployment appends the hash of the template and five characters to its own name. Another kind of workload appends a
// number or five characters.
var (
	deploymentPodSuffix = regexp.MustCompile(`^[bcdfghjklmnpqrstvwxz2456789]{5,10}-[bcdfghjklmnpqrstvwxz2456789]{5}$`)
	workloadPodSuffix   = regexp.MustCompile(`^([0-9]+|[bcdfghjklmnpqrstvwxz2456789]{5})$`)
)

// routedPorts returns the names of the ports of the stable Service that gateway objects lead to. It is empty if no
// gateway object names a port.
func (s *Snapshot) routedPorts(b *backend) map[string]bool {
	named := map[string]bool{}
	for _, g := range s.gateways {
		if g.live == nil || !slices.Contains(b.routing.Objects, g.ref) {
			continue
		}
		for _, port := range portsTo(g.live.Object["spec"], b.routing.Service) {
			for _, known := range b.stable.Spec.Ports {
				if port == known.Name || port == strconv.Itoa(int(known.Port)) {
					named[known.Name] = true
				}
			}
		}
	}
	return named
}

// portsTo returns the ports, as numbers or names, that a spec combines with the name of a Service. The fields differ by
// kind: name and port, host and port.number, or serviceName and servicePort.
func portsTo(spec any, service string) (ports []string) {
	switch v := spec.(type) {
	case []any:
		for _, e := range v {
			ports = append(ports, portsTo(e, service)...)
		}
	case map[string]any:
		for _, key := range []string{"name", "host", "serviceName"} {
			if name, _ := v[key].(string); name != service && !strings.HasPrefix(name, service+".") {
				continue
			}
			for _, port := range []any{v["port"], v["servicePort"]} {
				if of, ok := port.(map[string]any); ok {
					port = cmp.Or(of["number"], of["name"])
				}
				if port != nil {
					ports = append(ports, fmt.Sprint(port))
				}
			}
		}
		for _, e := range v {
			ports = append(ports, portsTo(e, service)...)
		}
	}
	return ports
}

// missingPort says which port of the Service the pods in a slice do not have. It returns "" if they have a routed port,
// or any port if the gateway objects name none.
func missingPort(slice *discoveryv1.EndpointSlice, svc *corev1.Service, routed map[string]bool) (missing string) {
	for _, port := range svc.Spec.Ports {
		if len(routed) > 0 && !routed[port.Name] {
			continue
		}
		if slices.ContainsFunc(slice.Ports, func(p discoveryv1.EndpointPort) bool { return ptr.Deref(p.Name, "") == port.Name }) {
			return ""
		}
		missing = cmp.Or(missing, fmt.Sprintf("its port %d leads to their port %s, which they do not have", port.Port, port.TargetPort.String()))
	}
	return missing
}
