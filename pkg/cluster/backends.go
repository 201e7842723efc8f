package cluster

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"sluice.dev/sluice/pkg/script"
	"sluice.dev/sluice/pkg/traffic"
)

// This file looks for what takes the place of a canary's Service where a route leads to something else: its owner makes that, and a route
// that leads nowhere fails every request.

// readBackends finds, for each route that leads to such an object, whether there is one for the canary.
func (o *observation) readBackends(ctx context.Context) error {
	for _, g := range o.snapshot.gateways {
		if !o.wanted[partRoutes] || g.live == nil {
			continue
		}
		g.absent = nil
		for _, of := range g.backends {
			for _, routing := range o.snapshot.spec.Routing {
				if !slices.Contains(routing.Objects, g.ref) || !leadsTo(g.live.Object["spec"], of, routing.Service, routing.CanaryService) {
					continue
				}
				there, err := o.isThere(ctx, g, kind{of.APIVersion, of.Kind}, routing.CanaryService)
				if err != nil {
					return err
				}
				if !there {
					g.absent = append(g.absent, traffic.Absent{Kind: of.Kind, CanaryService: routing.CanaryService})
				}
			}
		}
	}
	return nil
}

// isThere reports whether there is an object of the route's namespace. One that may not be read is a problem.
func (o *observation) isThere(ctx context.Context, g *gateway, of kind, name string) (bool, error) {
	u, err := o.find(ctx, of, types.NamespacedName{Namespace: o.namespace, Name: name})
	if IsForbidden(err) {
		found, unknown := o.resolve(ctx, of)
		if unknown != nil {
			return false, unknown
		}
		o.problem(forbidden(target{verb: "get", group: found.Group, resource: found.Resource, namespace: o.namespace, name: name, route: g.ref}, err))
		return true, nil
	}
	return u != nil, err
}

// leadsTo reports whether anything in a spec refers to an object of a kind by one of these names, as the Gateway API does.
func leadsTo(spec any, of script.GroupVersionKind, names ...string) bool {
	switch v := spec.(type) {
	case []any:
		return slices.ContainsFunc(v, func(e any) bool { return leadsTo(e, of, names...) })
	case map[string]any:
		kind, _, _ := unstructured.NestedString(v, "kind")
		group, _, _ := unstructured.NestedString(v, "group")
		name, _, _ := unstructured.NestedString(v, "name")
		if kind == of.Kind && group == schema.FromAPIVersionAndKind(of.APIVersion, of.Kind).Group && slices.Contains(names, name) {
			return true
		}
		for _, e := range v {
			if leadsTo(e, of, names...) {
				return true
			}
		}
	}
	return false
}
