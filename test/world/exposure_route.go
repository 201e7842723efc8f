package world

import (
	"slices"
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
		var step rollout.Step // of none while there is no release
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
			if got := share(w.Object, routing, named); got > most {
				e.breach(w, "virtualservices/%s sends %d%% to %s when Rollout %s was at a step of %d%%", w.Name, got, canaryOf(routing), name, most)
			}
		}
	}
}

// subset is by what the built-in script tells the new version apart in a Service that both versions share.
const subset = "canary"

// canaryOf is what a route sends the traffic of the new version to.
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

// share is the greatest weight with which a rule sends requests to the new version that match nothing that a step names.
func share(route *unstructured.Unstructured, routing rollout.Routing, named []api.HTTPRouteMatch) int64 {
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

// narrowed reports whether a rule is for requests only that match one of those that a step names.
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

// asks reports whether a match asks for all that another one names.
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
