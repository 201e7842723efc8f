package kube

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/kube/apiclient"
	"sluice.dev/sluice/pkg/rollout"
	"sluice.dev/sluice/pkg/script"
)

// This file reads objects that a gateway object names and that its script needs, such as an object with the plugins of a rule.

// readNamedObjects reads the objects that gateway objects name, of the kinds that their scripts read. It leaves out those that do not exist.
func (o *observation) readNamedObjects(ctx context.Context) error {
	for _, g := range o.snapshot.gateways {
		if !o.wanted[partRoutes] || len(g.readKinds) == 0 || g.live == nil {
			continue
		}
		g.surroundings.Reads = []any{}
		if err := o.readNamedBy(ctx, g, g.live, map[read]bool{}); err != nil {
			return err
		}
	}
	return nil
}

// read is an object that the executor has looked for.
type read struct {
	apiclient.Kind
	types.NamespacedName
}

// readNamedBy reads the objects that an object names, and the objects that those name in turn. seen has the objects
// that it already looked for, because objects may name each other. It leaves out objects that an executor created,
// which do not express the owner's intent.
func (o *observation) readNamedBy(ctx context.Context, g *gateway, by *unstructured.Unstructured, seen map[read]bool) error {
	for _, of := range g.readKinds {
		of = of.For(g.ref.APIVersion)
		for _, named := range of.Named(by.Object["spec"], by.GetNamespace()) {
			one := read{apiclient.Kind{APIVersion: of.APIVersion, Name: of.Kind}, types.NamespacedName(named)}
			if seen[one] {
				continue
			}
			seen[one] = true
			u, _, err := o.fetchForStep(ctx, g, one.Kind, one.NamespacedName)
			if err != nil {
				return err
			}
			if u == nil || u.GetLabels()[api.LabelRolloutUID] != "" {
				continue
			}
			g.surroundings.Reads = append(g.surroundings.Reads, o.asRead(u))
			if err := o.readNamedBy(ctx, g, u, seen); err != nil {
				return err
			}
		}
	}
	return nil
}

// asRead returns the part of an object that a script reads: everything but status, labels and annotations. It adds the
// stable Services whose traffic the release routes on the object itself.
func (o *observation) asRead(u *unstructured.Unstructured) map[string]any {
	object := script.AboutObject(u.Object)
	object["spec"] = u.Object["spec"]
	ref := rollout.Ref{APIVersion: u.GetAPIVersion(), Kind: u.GetKind(), Name: u.GetName()}
	var services []any
	for _, routing := range o.snapshot.spec.Routing {
		routes := slices.ContainsFunc(routing.Objects, func(routed rollout.Ref) bool { return sameObject(routed, ref) })
		if routes && u.GetNamespace() == o.namespace {
			services = append(services, routing.Service)
		}
	}
	if services != nil {
		object["services"] = services
	}
	return object
}
