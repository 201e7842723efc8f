package kube

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"sluice.dev/sluice/pkg/kube/apiclient"
	"sluice.dev/sluice/pkg/script"
	"sluice.dev/sluice/pkg/traffic"
)

// This file finds out which Ingress controller serves an object. The capabilities of a script name the controllers that
// support its output.

const annotationDefaultClass = "ingressclass.kubernetes.io/is-default-class"

// ingressClasses is the kind IngressClass.
func ingressClasses() apiclient.Kind {
	return apiclient.Kind{APIVersion: "networking.k8s.io/v1", Name: "IngressClass"}
}

// readClasses reads the IngressClass of each object whose script is for certain Ingress controllers.
func (o *observation) readClasses(ctx context.Context) error {
	for _, g := range o.snapshot.gateways {
		if !o.wanted[partRoutes] || !g.needsClass || g.live == nil {
			continue
		}
		name := traffic.IngressClassOf(g.live)
		if name == "" && g.ingressScript == nil { // only Ingresses have a default class
			g.surroundings.Class = &script.IngressClass{}
			continue
		}
		class, err := o.readClass(ctx, name)
		if err != nil {
			return err
		}
		g.surroundings.Class = class
	}
	return nil
}

// readClass reads the IngressClass of that name; for the name "" it reads the default class of the cluster. A watch may
// answer, because no user can change the controller of an IngressClass without deleting it.
func (o *observation) readClass(ctx context.Context, name string) (*script.IngressClass, error) {
	class := &script.IngressClass{Name: name}
	found, err := o.resolveKind(ctx, ingressClasses())
	if apiclient.IsUnservedKind(err) {
		return class, nil
	}
	if err != nil {
		return nil, err
	}
	on := types.NamespacedName{Name: name}
	u, known := o.client.informers.forGateway(found.GroupVersionResource).GetObject(on)
	switch {
	case name == "":
		u, err = o.defaultClass(ctx, found.GroupVersionResource)
	case !known:
		u, err = o.fetchIfReadable(ctx, ingressClasses(), on)
	default:
		o.snapshot.addDependency(trackedItem{watchedKind{GroupVersionResource: found.GroupVersionResource}.itemKind(), on.String()}, u)
	}
	if u == nil || err != nil {
		return class, err
	}
	if name == "" {
		o.snapshot.addDependency(trackedItem{watchedKind{GroupVersionResource: found.GroupVersionResource}.itemKind(), types.NamespacedName{Name: u.GetName()}.String()}, u)
	}
	class.Name, class.Default = u.GetName(), name == ""
	class.Controller, _, _ = unstructured.NestedString(u.Object, "spec", "controller")
	return class, nil
}

// defaultClass returns the class that the API server gives a canary Ingress that names none: the newest of the default classes. It returns nil
// when the cluster has none, or when the executor may not list them.
func (o *observation) defaultClass(ctx context.Context, gvr schema.GroupVersionResource) (*unstructured.Unstructured, error) {
	all, known := o.client.informers.forGateway(gvr).ListNamespace("")
	if !known {
		var err error
		if all, _, err = o.listObjects(ctx, gvr, ""); apiclient.IsForbidden(err) {
			return nil, nil
		} else if err != nil {
			return nil, err
		}
	}
	var latest *unstructured.Unstructured
	for _, u := range all {
		made := u.GetCreationTimestamp()
		if u.GetAnnotations()[annotationDefaultClass] == "true" && (latest == nil || made.After(latest.GetCreationTimestamp().Time)) {
			latest = u
		}
	}
	return latest, nil
}
