package cluster

import (
	"cmp"
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"sluice.dev/sluice/pkg/script"
)

// This file reads the objects that a gateway object names and of which its script needs to know, such as the plugins of a rule that stand in an object of their own.

// readReads reads, for each gateway object whose script reads others, those that it names and that exist.
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

// asRead is what a script gets of an object that it reads.
func asRead(u *unstructured.Unstructured) map[string]any {
	return map[string]any{
		"apiVersion": u.GetAPIVersion(), "kind": u.GetKind(), "spec": u.Object["spec"],
		"metadata": map[string]any{"name": u.GetName(), "namespace": u.GetNamespace()},
	}
}

// namedIn returns the names that the fields of a capability have in a spec: sorted, each once. An absent namespace is that of the gateway object.
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
