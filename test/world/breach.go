package world

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"sluice.dev/sluice/pkg/api"
)

// executorUser is the name by which the laws know the executors of each installation. The reader of the audit log writes it in the place of their user name.
const executorUser = "system:serviceaccount:" + api.DefaultNamespace + ":" + api.DefaultExecutor

// Law returns a message for each breach by the writes to one namespace.
type Law func([]Write) (breaches []string)

// Judge fails a test at its end if the audit log shows a breach in a namespace that the test has created itself.
func (w *World) Judge(t testing.TB, namespace string, laws ...Law) {
	t.Helper()
	w.witness(t, namespace, w.auditSize(), laws...)
}

// witness reads the audit log from an offset.
func (w *World) witness(t testing.TB, namespace string, offset int64, laws ...Law) {
	t.Helper()
	t.Cleanup(func() {
		writes, err := w.writesSince(offset, namespace)
		if err != nil {
			t.Error(err)
		}
		for _, broken := range laws {
			for _, breach := range broken(writes) {
				t.Errorf("law broken in namespace %s: %s", namespace, breach)
			}
		}
		Tell(t, writes)
		RecordWrites(t, namespace, writes)
	})
}

// Breaches returns the breaches of these laws by the writes to one namespace:
//
//   - No route leads to a canary Service before it exists, nor after it is gone.
//   - No executor leads a route to a canary Service that lacks copies of policies. The policies are those that the
//     stable Service had when the canary Service was created.
//   - No executor deletes such a copy while a route leads to the canary Service.
//   - No executor deletes a canary workload while a gateway object still carries its release.
//   - Executors create each canary once in an epoch, unless another user deletes it.
//   - Only an executor releases a held workload.
//   - The API server refuses no executor for lack of permission.
func Breaches(writes []Write) []string {
	h := history{
		canaryServices: map[string]bool{}, services: map[string]bool{}, owner: map[string]string{},
		routes: map[string]*unstructured.Unstructured{}, workloads: map[string]*unstructured.Unstructured{}, created: map[string]bool{},
		policies: map[string]*unstructured.Unstructured{}, due: map[string]map[string]bool{},
	}
	for _, w := range writes {
		if w.Resource == "services" && w.Verb == "create" && ours(w.Object) != "" {
			h.canaryServices[w.Name] = true
		}
	}
	for _, w := range writes {
		h.take(w)
	}
	return h.breaches
}

// history is the state of a namespace after some of its writes.
type history struct {
	// canaryServices has the names of all Services that executors have ever created, services the names of existing
	// ones.
	canaryServices, services map[string]bool
	// owner is the UID of the Rollout of each canary workload.
	owner     map[string]string
	routes    map[string]*unstructured.Unstructured
	workloads map[string]*unstructured.Unstructured
	// created has name and epoch of the canaries that executors have created.
	created map[string]bool
	// policies has the policies of Services, including copies. due has, for each canary Service, the policies of its
	// stable Service that it needs a copy of.
	policies map[string]*unstructured.Unstructured
	due      map[string]map[string]bool
	breaches []string
}

func (h *history) breach(w Write, format string, args ...any) {
	h.breaches = append(h.breaches, w.Received.Format("15:04:05.000 ")+fmt.Sprintf(format, args...))
}

func (h *history) take(w Write) {
	if w.Code == 403 && w.User == executorUser {
		h.breach(w, "the executor may not %s %s %s: %s", w.Verb, w.Resource, w.Name, w.Message)
	}
	if w.Unanswered() {
		h.forget(w)
	}
	if w.Code >= 300 || w.Code == 0 {
		return
	}
	h.takePolicy(w)
	switch w.Resource {
	case "services":
		h.takeService(w)
	case "deployments":
		h.takeDeployment(w)
	case "virtualservices", "destinationrules", "httproutes", "ingressroutes", "traefikservices", "apisixroutes", "ingresses":
		h.takeRoute(w)
	}
}

func (h *history) takeService(w Write) {
	switch {
	case w.Verb == "create" && h.canaryServices[w.Name]:
		h.services[w.Name] = true
		h.makeCanaryService(w.Name)
	case w.Verb == "delete":
		delete(h.services, w.Name)
		for name, route := range h.routes {
			if w.User == executorUser && routesTo(route.Object["spec"], w.Name) {
				h.breach(w, "Service %s was deleted while %s routed to it", w.Name, name)
			}
		}
	}
}

func (h *history) takeRoute(w Write) {
	name := w.Resource + "/" + w.Name
	if w.Object == nil {
		delete(h.routes, name)
		return
	}
	before := h.routes[name]
	h.routes[name] = w.Object
	for service := range h.canaryServices {
		h.leads(w, service, before)
		if w.User == executorUser && !h.services[service] && routesTo(w.Object.Object["spec"], service) {
			h.breach(w, "%s was made to route to Service %s, which does not exist", name, service)
		}
	}
}

func (h *history) takeDeployment(w Write) {
	if w.Verb == "delete" {
		h.deleteDeployment(w)
		return
	}
	if w.Object == nil || w.Subresource != "" {
		return
	}
	if uid := ours(w.Object); uid != "" && w.Verb == "create" {
		h.owner[w.Name] = uid
		key := w.Name + " in epoch " + w.Object.GetAnnotations()[api.AnnotationEpoch] + " of Rollout " + uid
		if h.created[key] {
			h.breach(w, "the canary %s was created again", key)
		}
		h.created[key] = true
	}
	if old := h.workloads[w.Name]; old != nil && held(old) && !paused(w.Object) && w.User != executorUser {
		h.breach(w, "%s set the held Deployment %s free", w.User, w.Name)
	}
	h.workloads[w.Name] = w.Object
}

func (h *history) deleteDeployment(w Write) {
	delete(h.workloads, w.Name)
	if w.User != executorUser {
		for key := range h.created {
			if strings.HasPrefix(key, w.Name+" in epoch ") {
				delete(h.created, key)
			}
		}
		return
	}
	uid := h.owner[w.Name]
	for name, route := range h.routes {
		if uid != "" && strings.Contains(route.GetAnnotations()[api.AnnotationReleases], uid) {
			h.breach(w, "the canary %s was deleted while %s carried its release", w.Name, name)
		}
	}
}

// ours returns the UID of the Rollout for which an object was created, "" for an object of others.
func ours(u *unstructured.Unstructured) string {
	if u == nil {
		return ""
	}
	return u.GetLabels()[api.LabelRolloutUID]
}

func paused(d *unstructured.Unstructured) bool {
	paused, _, _ := unstructured.NestedBool(d.Object, "spec", "paused")
	return paused
}

func held(d *unstructured.Unstructured) bool {
	_, marked := d.GetAnnotations()[api.AnnotationInProgressing]
	return marked && paused(d)
}

// routesTo reports whether any part of a spec names a Service as a host.
func routesTo(spec any, service string) bool {
	switch v := spec.(type) {
	case string:
		return v == service || strings.HasPrefix(v, service+".")
	case []any:
		for _, e := range v {
			if routesTo(e, service) {
				return true
			}
		}
	case map[string]any:
		for _, e := range v {
			if routesTo(e, service) {
				return true
			}
		}
	}
	return false
}
