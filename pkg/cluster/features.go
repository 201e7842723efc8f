package cluster

import (
	"context"
	"errors"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// This file reads what the gateways of a route support: a controller may take a route with a filter that it cannot carry out, and then refuse
// every request.

const gatewayAPI = "gateway.networking.k8s.io"

// readFeatures reads, for each route whose script needs to know, which features the classes of all its Gateways support.
func (o *observation) readFeatures(ctx context.Context) error {
	for _, g := range o.snapshot.gateways {
		if !o.wanted[partRoutes] || !g.needsFeatures || g.live == nil {
			continue
		}
		g.around.Features = nil
		for _, parent := range parentGateways(g.live, o.namespace) {
			features, err := o.featuresOf(ctx, parent)
			switch {
			case err != nil:
				return err
			case g.around.Features == nil:
				g.around.Features = features
			case features != nil:
				g.around.Features = slices.DeleteFunc(slices.Clone(g.around.Features), func(f string) bool { return !slices.Contains(features, f) })
			}
		}
	}
	return nil
}

// parentGateways are the Gateways to which a route is attached.
func parentGateways(route *unstructured.Unstructured, namespace string) (names []types.NamespacedName) {
	parents, _, _ := unstructured.NestedSlice(route.Object, "spec", "parentRefs")
	for _, parent := range parents {
		ref, _ := parent.(map[string]any)
		kind, _, _ := unstructured.NestedString(ref, "kind")
		group, grouped, _ := unstructured.NestedString(ref, "group")
		name, _, _ := unstructured.NestedString(ref, "name")
		if of, _, _ := unstructured.NestedString(ref, "namespace"); of != "" {
			namespace = of
		}
		if (kind == "" || kind == "Gateway") && (!grouped || group == gatewayAPI) && name != "" {
			names = append(names, types.NamespacedName{Namespace: namespace, Name: name})
		}
	}
	return names
}

// featuresOf is what the class of a Gateway says that it supports, sorted; nil when it says nothing, or may not be read.
func (o *observation) featuresOf(ctx context.Context, name types.NamespacedName) ([]string, error) {
	of, err := o.look(ctx, kind{gatewayAPI + "/v1", "Gateway"}, name)
	if of == nil || err != nil {
		return nil, err
	}
	class, _, _ := unstructured.NestedString(of.Object, "spec", "gatewayClassName")
	if of, err = o.look(ctx, kind{gatewayAPI + "/v1", "GatewayClass"}, types.NamespacedName{Name: class}); of == nil || err != nil {
		return nil, err
	}
	list, told, _ := unstructured.NestedSlice(of.Object, "status", "supportedFeatures")
	if !told || len(list) == 0 {
		return nil, nil
	}
	features := []string{}
	for _, f := range list {
		name, is := f.(string) // as controllers wrote it before it became an object
		if of, ok := f.(map[string]any); ok {
			name, is, _ = unstructured.NestedString(of, "name")
		}
		if is {
			features = append(features, name)
		}
	}
	slices.Sort(features)
	return features, nil
}

// look reads an object that a route depends on. It returns nil if the object does not exist, or if the executor cannot read it.
func (o *observation) look(ctx context.Context, of kind, name types.NamespacedName) (*unstructured.Unstructured, error) {
	u, err := o.find(ctx, of, name)
	if IsForbidden(err) || isLasting(err) {
		return nil, nil
	}
	return u, err
}

// find reads an object that a route depends on; nil when there is none.
func (o *observation) find(ctx context.Context, of kind, name types.NamespacedName) (*unstructured.Unstructured, error) {
	found, err := o.resolve(ctx, of)
	var unserved *errUnserved
	if errors.As(err, &unserved) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	u, err := fetch(ctx, o, query[*unstructured.Unstructured]{
		mirror: o.client.mirrors.gateway(found.GroupVersionResource), name: name, answered: func() {},
		call: func(ctx context.Context) (*unstructured.Unstructured, error) {
			return within(ctx, func(ctx context.Context) (*unstructured.Unstructured, error) {
				u, err := o.client.objects.Resource(found.GroupVersionResource).Namespace(name.Namespace).Get(ctx, name.Name, metav1.GetOptions{})
				return u, o.client.troubles.judge(found.GroupVersionResource, err, time.Now())
			})
		},
	})
	if err == nil {
		o.snapshot.dependsOn(item{watchedKind{GroupVersionResource: found.GroupVersionResource}.item(), name.String()}, u)
	}
	return u, err
}

// dependsOn notes an object that a route depends on as it was found; nil stands for none. When a watch shows another state of it later, the
// Rollout is looked at again.
func (s *Snapshot) dependsOn(on item, u *unstructured.Unstructured) {
	s.depend(on, print(u))
}

// dependsOnAll notes all objects of a kind and a namespace that a route depends on.
func (s *Snapshot) dependsOnAll(of watchedKind, namespace string, all []*unstructured.Unstructured) {
	s.depend(of.all(namespace), prints(all))
}

func (s *Snapshot) depend(on item, print string) {
	if s.depended == nil {
		s.depended = map[item]version{}
	}
	s.depended[on] = version{print: print}
}
