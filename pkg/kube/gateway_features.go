package kube

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sluice.dev/sluice/pkg/kube/apiclient"
)

// This file reads which features the gateways of a route support. A controller may accept a route with a filter that it
// does not support, and then refuse every request. A Gateway may also serve no routes of a kind.

const gatewayAPI = "gateway.networking.k8s.io"

// readFeatures reads which features all Gateways of a route support, for each route whose script needs to know. It also
// finds out whether these Gateways serve routes of its kind. A parent that is not a Gateway, such as a Service of a
// mesh, may serve the route.
func (o *observation) readFeatures(ctx context.Context) error {
	for _, g := range o.snapshot.gateways {
		isRoute := strings.HasPrefix(g.ref.APIVersion, gatewayAPI+"/")
		if !o.wanted[partRoutes] || !g.needsFeatures && !isRoute || g.live == nil {
			continue
		}
		g.surroundings.Features, g.surroundings.Unserved = nil, ""
		var unserved []string
		for _, parent := range parentGateways(g.live, o.namespace) {
			gateway, class, err := o.gatewayOf(ctx, parent.name)
			if err != nil {
				return err
			}
			switch features := supportedFeatures(class); {
			case g.surroundings.Features == nil:
				g.surroundings.Features = features
			case features != nil:
				g.surroundings.Features = slices.DeleteFunc(slices.Clone(g.surroundings.Features), func(f string) bool { return !slices.Contains(features, f) })
			}
			if kinds := supportedKinds(gateway, parent.listener); isRoute && len(kinds) > 0 && !slices.Contains(kinds, g.ref.Kind) {
				unserved = append(unserved, unservedBy(parent.name, class, g.ref.Kind, kinds))
			}
		}
		if all, _, _ := unstructured.NestedSlice(g.live.Object, "spec", "parentRefs"); len(unserved) > 0 && len(unserved) == len(all) {
			g.surroundings.Unserved = strings.Join(unserved, "; ")
		}
	}
	return nil
}

// unservedBy says why a Gateway carries out no route of a kind.
func unservedBy(gateway types.NamespacedName, class *unstructured.Unstructured, kind string, kinds []string) string {
	of := ""
	if class != nil {
		controller, _, _ := unstructured.NestedString(class.Object, "spec", "controllerName")
		of = fmt.Sprintf(" of class %s (controller %s)", class.GetName(), controller)
	}
	return fmt.Sprintf("Gateway %s%s serves no %s (its status.listeners list %s); attach the route to a Gateway that does", gateway, of, kind, strings.Join(kinds, ", "))
}

// parentGateway is a Gateway to which a route is attached, and the listener; "" for all listeners.
type parentGateway struct {
	name     types.NamespacedName
	listener string
}

// parentGateways returns the Gateways to which a route is attached.
func parentGateways(route *unstructured.Unstructured, namespace string) (all []parentGateway) {
	parents, _, _ := unstructured.NestedSlice(route.Object, "spec", "parentRefs")
	for _, parent := range parents {
		ref, _ := parent.(map[string]any)
		kind, _, _ := unstructured.NestedString(ref, "kind")
		group, grouped, _ := unstructured.NestedString(ref, "group")
		name, _, _ := unstructured.NestedString(ref, "name")
		listener, _, _ := unstructured.NestedString(ref, "sectionName")
		on := types.NamespacedName{Namespace: namespace, Name: name}
		if of, _, _ := unstructured.NestedString(ref, "namespace"); of != "" {
			on.Namespace = of
		}
		if (kind == "" || kind == "Gateway") && (!grouped || group == gatewayAPI) && name != "" {
			all = append(all, parentGateway{on, listener})
		}
	}
	return all
}

// gatewayOf reads a Gateway and its class. Each is nil if it does not exist, or if the executor may not read it.
func (o *observation) gatewayOf(ctx context.Context, name types.NamespacedName) (gateway, class *unstructured.Unstructured, err error) {
	gateway, err = o.fetchIfReadable(ctx, apiclient.Kind{APIVersion: gatewayAPI + "/v1", Name: "Gateway"}, name)
	if gateway == nil || err != nil {
		return nil, nil, err
	}
	of, _, _ := unstructured.NestedString(gateway.Object, "spec", "gatewayClassName")
	class, err = o.fetchIfReadable(ctx, apiclient.Kind{APIVersion: gatewayAPI + "/v1", Name: "GatewayClass"}, types.NamespacedName{Name: of})
	return gateway, class, err
}

// supportedKinds returns the kinds of routes that a listener of a Gateway supports, or that any of its listeners
// supports for the name "". It returns nil if the controller does not say.
func supportedKinds(gateway *unstructured.Unstructured, listener string) (kinds []string) {
	if gateway == nil {
		return nil
	}
	listeners, _, _ := unstructured.NestedSlice(gateway.Object, "status", "listeners")
	for _, l := range listeners {
		of, _ := l.(map[string]any)
		if name, _, _ := unstructured.NestedString(of, "name"); listener != "" && name != listener {
			continue
		}
		supported, _, _ := unstructured.NestedSlice(of, "supportedKinds")
		if len(supported) == 0 {
			return nil
		}
		for _, k := range supported {
			ref, _ := k.(map[string]any)
			kind, _, _ := unstructured.NestedString(ref, "kind")
			kinds = append(kinds, kind)
		}
	}
	slices.Sort(kinds)
	return slices.Compact(kinds)
}

// supportedFeatures returns the sorted features in the status of a GatewayClass; nil if it lists none, or if the class
// is nil.
func supportedFeatures(class *unstructured.Unstructured) []string {
	if class == nil {
		return nil
	}
	list, told, _ := unstructured.NestedSlice(class.Object, "status", "supportedFeatures")
	if !told || len(list) == 0 {
		return nil
	}
	features := []string{}
	for _, f := range list {
		name, is := f.(string) // older controllers write strings instead of objects
		if of, ok := f.(map[string]any); ok {
			name, is, _ = unstructured.NestedString(of, "name")
		}
		if is {
			features = append(features, name)
		}
	}
	slices.Sort(features)
	return features
}

// fetchIfReadable reads an object that a route depends on. It returns nil if the object does not exist, or if the executor cannot read it.
func (o *observation) fetchIfReadable(ctx context.Context, of apiclient.Kind, name types.NamespacedName) (*unstructured.Unstructured, error) {
	u, err := o.fetchDependency(ctx, of, name)
	if apiclient.IsForbidden(err) || isLasting(err) {
		return nil, nil
	}
	return u, err
}

// fetchDependency reads an object that a route depends on; it returns nil if the object does not exist.
func (o *observation) fetchDependency(ctx context.Context, of apiclient.Kind, name types.NamespacedName) (*unstructured.Unstructured, error) {
	found, err := o.resolveKind(ctx, of)
	if apiclient.IsUnservedKind(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	u, err := fetchObject(ctx, o, objectQuery[*unstructured.Unstructured]{
		overlay: o.client.informers.forGateway(found.GroupVersionResource), name: name, onAnswer: func() {},
		call: func(ctx context.Context) (*unstructured.Unstructured, error) {
			return apiclient.WithDeadline(ctx, func(ctx context.Context) (*unstructured.Unstructured, error) {
				u, err := o.client.objects.Resource(found.GroupVersionResource).Namespace(name.Namespace).Get(ctx, name.Name, metav1.GetOptions{})
				return u, o.client.serverErrors.recordResult(found.GroupVersionResource, err, time.Now())
			})
		},
	})
	if err == nil {
		o.snapshot.addDependency(trackedItem{watchedKind{GroupVersionResource: found.GroupVersionResource}.itemKind(), name.String()}, u)
	}
	return u, err
}

// addDependency notes the state of an object that a route depends on; nil stands for an object that does not exist.
// When a watch later shows another state of it, the executor reconciles the Rollout again.
func (s *Snapshot) addDependency(on trackedItem, u *unstructured.Unstructured) {
	s.setDependency(on, fingerprintOf(u))
}

// addListDependency notes all objects of a kind and a namespace that a route depends on.
func (s *Snapshot) addListDependency(of watchedKind, namespace string, all []*unstructured.Unstructured) {
	s.setDependency(of.namespaceItem(namespace), fingerprintsOf(all))
}

func (s *Snapshot) setDependency(on trackedItem, print string) {
	if s.dependencies == nil {
		s.dependencies = map[trackedItem]itemVersion{}
	}
	s.dependencies[on] = itemVersion{fingerprint: print}
}
