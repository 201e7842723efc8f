package kube

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"sluice.dev/sluice/pkg/kube/apiclient"
	"sluice.dev/sluice/pkg/script"
	"sluice.dev/sluice/pkg/traffic"
)

// This file looks for the object that stands for a canary's Service where a route leads to another kind of backend. Its
// owner creates that object, and a route that leads nowhere fails every request.

// readBackends finds out, for each route that leads to such an object, whether the object for the canary exists.
func (o *observation) readBackends(ctx context.Context) error {
	for _, g := range o.snapshot.gateways {
		if !o.wanted[partRoutes] || g.live == nil {
			continue
		}
		g.absentBackends = nil
		for _, of := range g.backendKinds {
			for _, routing := range o.snapshot.spec.Routing {
				if !slices.Contains(routing.Objects, g.ref) || !leadsTo(g.live.Object["spec"], of, routing.Service, routing.CanaryService) {
					continue
				}
				u, known, err := o.fetchForStep(ctx, g, apiclient.Kind{APIVersion: of.APIVersion, Name: of.Kind}, types.NamespacedName{Namespace: o.namespace, Name: routing.CanaryService})
				if err != nil {
					return err
				}
				if u == nil && known {
					g.absentBackends = append(g.absentBackends, traffic.MissingBackend{Kind: of.Kind, CanaryService: routing.CanaryService})
				}
			}
		}
	}
	return nil
}

// fetchForStep reads an object that a step of a gateway object needs. u is nil if the object does not exist. known is false if the executor cannot read the object: the
// planner then holds steps of the gateway object, and still restores it.
func (o *observation) fetchForStep(ctx context.Context, g *gateway, of apiclient.Kind, name types.NamespacedName) (u *unstructured.Unstructured, known bool, err error) {
	u, err = o.fetchDependency(ctx, of, name)
	if err == nil {
		return u, true, nil
	}
	found, unknown := o.resolveKind(ctx, of)
	if unknown != nil {
		return nil, false, unknown
	}
	on := apiclient.Access{Verb: "get", Namespace: name.Namespace, Name: name.Name, Route: g.ref, ReadOnly: true}
	return nil, false, o.reportUnreadable(found.GroupVersionResource, on, false, err)
}

// leadsTo reports whether a spec refers to an object of a kind by one of these names, in the form of the Gateway API.
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
