package world

import (
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
)

// This file judges how much of the traffic executors send to a new version.

func (e *exposure) takeRoute(w Write) {
	if w.User != executorUser {
		return
	}
	for name, c := range e.rollouts {
		rests := e.rests(c)
		if !c.known || c.step == 0 && !rests || int(c.step) > len(c.spec.Steps) {
			continue
		}
		var step rollout.Step // the zero step while there is no release
		if !rests {
			step = c.spec.Steps[c.step-1]
		}
		most := int64(0)
		if step.Weight != nil {
			most = int64(*step.Weight)
		}
		if c.switches() {
			most = 100
		}
		for _, routing := range c.spec.Routing {
			named := step.Matches
			if tag := routing.Tag; tag != nil {
				named = append(slices.Clone(named), api.HTTPRouteMatch{Headers: []api.HTTPHeaderMatch{{Name: tag.Header, Value: tag.Value}}})
			}
			if got := share(w, routing, named); got > most {
				e.breach(w, "%s/%s sends %d%% to %s when Rollout %s was at a step of %d%%", w.Resource, w.Name, got, canaryOf(routing), name, most)
			}
		}
	}
}

// subset is the name that the built-in script gives the new version in a shared Service.
const subset = "canary"

// canaryOf returns the destination of the traffic for the new version.
func canaryOf(r rollout.Routing) string {
	if r.SeparateService() {
		return r.CanaryService
	}
	return "the subset " + subset + " of " + r.Service
}

// switches reports whether a blue-green release puts all traffic on its new version, before the old pods go.
func (c *committed) switches() bool {
	m := c.last.Sluice
	return c.spec.Style == rollout.StyleBlueGreen && c.state == rollout.StateFinalising && m != nil && m.FinaliseReason == api.FinaliseSuccess
}

// routes reports whether the laws about traffic can read the share of the new version in objects of a resource.
func routes(resource string) bool {
	return resource == "virtualservices" || resource == "httproutes" || resource == "ingresses"
}

// share returns the greatest share, in percent, of the new version in a gateway object. It leaves out requests that
// match a rule of the step.
func share(w Write, routing rollout.Routing, named []api.HTTPRouteMatch) int64 {
	switch w.Resource {
	case "httproutes":
		return shareOfHTTPRoute(w.Object, routing.CanaryService, named)
	case "ingresses":
		return shareOfIngress(w.Object, routing.CanaryService)
	}
	return shareOfVirtualService(w.Object, routing, named)
}

// shareOfHTTPRoute leaves out rules that lead only to the new version if the step names matches: an executor adds such
// rules for them.
func shareOfHTTPRoute(route *unstructured.Unstructured, canary string, named []api.HTTPRouteMatch) int64 {
	most := int64(0)
	rules, _, _ := unstructured.NestedSlice(route.Object, "spec", "rules")
	for _, rule := range rules {
		r, _ := rule.(map[string]any)
		backends, _ := r["backendRefs"].([]any)
		total, ofCanary := int64(0), int64(0)
		for _, backend := range backends {
			b, _ := backend.(map[string]any)
			weight, set := whole(b, "weight")
			if !set {
				weight = 1
			}
			total += weight
			if b["name"] == canary {
				ofCanary += weight
			}
		}
		if total > 0 && !(len(named) > 0 && len(backends) == 1) {
			most = max(most, 100*ofCanary/total)
		}
	}
	return most
}

// shareOfIngress reads the annotation of a canary Ingress.
func shareOfIngress(ingress *unstructured.Unstructured, canary string) int64 {
	rules, _, _ := unstructured.NestedSlice(ingress.Object, "spec", "rules")
	for _, rule := range rules {
		r, _ := rule.(map[string]any)
		paths, _, _ := unstructured.NestedSlice(r, "http", "paths")
		for _, path := range paths {
			p, _ := path.(map[string]any)
			if service, _, _ := unstructured.NestedString(p, "backend", "service", "name"); service != canary {
				continue
			}
			weight, _ := strconv.ParseInt(ingress.GetAnnotations()["nginx.ingress.kubernetes.io/canary-weight"], 10, 64)
			return weight
		}
	}
	return 0
}

// shareOfVirtualService takes a weight as a share, because the weights of a rule add up to 100.
func shareOfVirtualService(route *unstructured.Unstructured, routing rollout.Routing, named []api.HTTPRouteMatch) int64 {
	most := int64(0)
	rules, _, _ := unstructured.NestedSlice(route.Object, "spec", "http")
	for _, rule := range rules {
		r, _ := rule.(map[string]any)
		if narrowed(r, named) {
			continue
		}
		routes, _ := r["route"].([]any)
		for _, to := range routes {
			destination, _ := to.(map[string]any)
			host, _, _ := unstructured.NestedString(destination, "destination", "host")
			part, _, _ := unstructured.NestedString(destination, "destination", "subset")
			weight, set := whole(destination, "weight")
			if !set {
				weight = 100
			}
			canary := routing.SeparateService() || part == subset
			if service := routing.CanaryService; canary && (host == service || strings.HasPrefix(host, service+".")) {
				most = max(most, weight)
			}
		}
	}
	return most
}

// narrowed reports whether a rule is only for requests that match one of the step's rules.
func narrowed(rule map[string]any, named []api.HTTPRouteMatch) bool {
	matches, _ := rule["match"].([]any)
	for _, match := range matches {
		m, _ := match.(map[string]any)
		if !slices.ContainsFunc(named, func(n api.HTTPRouteMatch) bool { return asks(m, n) }) {
			return false
		}
	}
	return len(matches) > 0
}

// asks reports whether a match includes all conditions of another one.
func asks(match map[string]any, named api.HTTPRouteMatch) bool {
	has := func(fields ...string) bool {
		_, found, _ := unstructured.NestedFieldNoCopy(match, fields...)
		return found
	}
	for _, h := range named.Headers {
		if !has("headers", h.Name) {
			return false
		}
	}
	for _, q := range named.QueryParams {
		if !has("queryParams", q.Name) {
			return false
		}
	}
	return named.Path == nil || has("uri")
}
