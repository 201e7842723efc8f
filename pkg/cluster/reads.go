package cluster

import (
	"cmp"
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"sluice.dev/sluice/pkg/script"
)

// This file reads objects that a gateway object names and that its script needs, such as an object with the plugins of a rule.

// readReads reads the objects that gateway objects name, of the kinds that their scripts read. It leaves out those that do not exist.
func (o *observation) readReads(ctx context.Context) error {
	for _, g := range o.snapshot.gateways {
		if !o.wanted[partRoutes] || len(g.reads) == 0 || g.live == nil {
			continue
		}
		g.around.Reads = []any{}
		for _, of := range g.reads {
			for _, name := range namedIn(g.live.Object["spec"], of, g.on.namespace) {
				u, _, err := o.findFor(ctx, g, kind{of.APIVersion, of.Kind}, name)
				if err != nil {
					return err
				}
				if u != nil {
					g.around.Reads = append(g.around.Reads, asRead(u))
				}
			}
		}
	}
	return nil
}

// asRead is the part of an object that a script reads: all but status, labels and annotations.
func asRead(u *unstructured.Unstructured) map[string]any {
	object := script.About(u.Object)
	object["spec"] = u.Object["spec"]
	return object
}

// namedIn returns the names that stand in a spec in the fields of a capability, sorted and without duplicates. namespace is that of the gateway object. It stands in
// for an absent one.
func namedIn(spec any, of script.Reads, namespace string) (names []types.NamespacedName) {
	var look func(any)
	look = func(v any) {
		switch v := v.(type) {
		case []any:
			for _, e := range v {
				look(e)
			}
		case map[string]any:
			name := types.NamespacedName{Namespace: namespace}
			name.Name, _ = v[of.Field].(string)
			if there, _ := v[of.NamespaceField].(string); of.NamespaceField != "" && there != "" {
				name.Namespace = there
			}
			if name.Name != "" {
				names = append(names, name)
			}
			for _, e := range v {
				look(e)
			}
		}
	}
	look(spec)
	slices.SortFunc(names, func(a, b types.NamespacedName) int { return cmp.Compare(a.String(), b.String()) })
	return slices.Compact(names)
}
