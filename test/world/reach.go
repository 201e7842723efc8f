package world

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
)

// StableServes returns a message for each time an executor left requests to a stable Service without a pod that answers
// them:
//
//   - No route sends a part of the traffic to a canary Service while the stable Service is narrowed and lists no pod,
//     ready or not. All of the traffic is allowed.
//   - No stable Service is narrowed while it lists ready pods whose names do not begin with the workload's name.
//
// Neither counts if the Rollout accepts it. StableServes reads VirtualServices, HTTPRoutes and canary Ingresses. It
// relies on the EndpointSlices of Kubernetes's own controller. It is silent once a user has deleted pods, because the
// controller may not list their successors yet.
func StableServes(writes []Write) []string {
	r := reach{rollouts: map[string]rollout.Spec{}, services: map[string]map[string]string{}, slices: map[string]slice{}, shares: map[string]int64{}}
	for _, w := range writes {
		if w.Unanswered() || w.Code >= 300 || w.Code == 0 {
			continue
		}
		r.take(w)
	}
	return r.breaches
}

// managedByKubernetes marks the EndpointSlices of Kubernetes's own controller for Services with a selector.
const managedByKubernetes = "endpointslice-controller.k8s.io"

// reach has the pods behind stable Services of a namespace after some of its writes.
type reach struct {
	rollouts map[string]rollout.Spec
	// services has the selectors of Services and slices the EndpointSlices, both by name. shares has the shares of
	// canary Services, by route and Service.
	services map[string]map[string]string
	slices   map[string]slice
	shares   map[string]int64
	// lost is set once a user has deleted pods.
	lost     bool
	breaches []string
}

// slice is an EndpointSlice: its Service, and the pods that it lists.
type slice struct {
	service     string
	pods, ready []string
}

func (r *reach) breach(w Write, format string, args ...any) {
	r.breaches = append(r.breaches, w.Received.Format("15:04:05.000 ")+fmt.Sprintf(format, args...))
}

func (r *reach) take(w Write) {
	switch {
	case w.Resource == "pods" && strings.HasPrefix(w.Verb, "delete") && w.User != executorUser:
		r.lost = true
	case w.Resource == "endpointslices":
		delete(r.slices, w.Name)
		if w.Object != nil && w.Object.GetLabels()[discoveryv1.LabelManagedBy] == managedByKubernetes {
			r.slices[w.Name] = sliceOf(w.Object)
		}
	case w.Object == nil:
	case w.Resource == "rollouts":
		parsed := &api.Rollout{}
		if runtime.DefaultUnstructuredConverter.FromUnstructured(w.Object.Object, parsed) == nil {
			if spec, err := rollout.Parse(parsed); err == nil {
				r.rollouts[w.Name] = spec
			}
		}
	case w.Resource == "services":
		r.takeService(w)
	case routes(w.Resource):
		r.takeRoute(w)
	}
}

func sliceOf(u *unstructured.Unstructured) slice {
	s := slice{service: u.GetLabels()[discoveryv1.LabelServiceName]}
	s.pods, s.ready = EndpointPods(u)
	return s
}

// EndpointPods returns the pods behind all endpoints of an EndpointSlice, and the pods behind the ready ones.
func EndpointPods(slice *unstructured.Unstructured) (pods, ready []string) {
	endpoints, _, _ := unstructured.NestedSlice(slice.Object, "endpoints")
	for _, e := range endpoints {
		endpoint, _ := e.(map[string]any)
		pod, _, _ := unstructured.NestedString(endpoint, "targetRef", "name")
		pods = append(pods, pod)
		if is, _, _ := unstructured.NestedBool(endpoint, "conditions", "ready"); is {
			ready = append(ready, pod)
		}
	}
	return pods, ready
}

// listed returns the pods behind a Service.
func (r *reach) listed(service string) (pods, ready []string) {
	for _, s := range r.slices {
		if s.service == service {
			pods, ready = append(pods, s.pods...), append(ready, s.ready...)
		}
	}
	return pods, ready
}

func revisionOf(selector map[string]string) string {
	return cmp.Or(selector[api.LabelPodTemplateHash], selector[api.LabelControllerRevisionHash])
}

func (r *reach) takeService(w Write) {
	selector, _, _ := unstructured.NestedStringMap(w.Object.Object, "spec", "selector")
	before := r.services[w.Name]
	r.services[w.Name] = selector
	if w.User != executorUser || revisionOf(selector) == "" || revisionOf(before) != "" {
		return
	}
	for name, spec := range r.rollouts {
		if spec.AllowDropped || !slices.ContainsFunc(spec.Routing, func(of rollout.Routing) bool { return of.Service == w.Name }) {
			continue
		}
		_, ready := r.listed(w.Name)
		others := slices.DeleteFunc(ready, func(pod string) bool { return strings.HasPrefix(pod, spec.Workload.Name+"-") })
		if len(others) > 0 {
			r.breach(w, "Service %s was narrowed for Rollout %s while it had pods of others: %v", w.Name, name, others)
		}
	}
}

func (r *reach) takeRoute(w Write) {
	for name, spec := range r.rollouts {
		for _, of := range spec.Routing {
			if !of.SeparateService() {
				continue
			}
			key := w.Resource + "/" + w.Name + " " + of.CanaryService
			was, is := r.shares[key], share(w, of, nil)
			r.shares[key] = is
			pods, _ := r.listed(of.Service)
			if is > was && is < 100 && w.User == executorUser && revisionOf(r.services[of.Service]) != "" && len(pods) == 0 && !spec.AllowUnreachable && !r.lost {
				r.breach(w, "%s/%s sends %d%% to %s for Rollout %s, and Service %s lists no pod", w.Resource, w.Name, is, of.CanaryService, name, of.Service)
			}
		}
	}
}
