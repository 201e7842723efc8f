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

// StableServes tells where an executor left requests to a stable Service without a pod that answers them:
//
//   - no route sends more of the traffic, but not all of it, to a canary Service while the stable Service is narrowed and lists no pod at all, ready or not;
//   - no stable Service is narrowed while it lists ready pods that the workload does not bear the name of.
//
// Neither counts where the Rollout accepts it. It reads VirtualServices, HTTPRoutes and canary Ingresses. It goes by what Kubernetes's own controller of
// EndpointSlices writes, and is silent once a user has deleted pods: then the controller may not list their followers yet.
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

// reach is what stable Services of a namespace reach after some of its writes.
type reach struct {
	rollouts map[string]rollout.Spec
	// services are the selectors of Services, slices the EndpointSlices, both by name; shares are those of canary Services, by route and Service.
	services map[string]map[string]string
	slices   map[string]slice
	shares   map[string]int64
	// lost: somebody has deleted pods.
	lost     bool
	breaches []string
}

// slice is an EndpointSlice: whose it is, and the pods that it lists.
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

// EndpointPods are the pods behind all endpoints of an EndpointSlice, and those behind the ready ones.
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

// listed are the pods behind a Service.
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
