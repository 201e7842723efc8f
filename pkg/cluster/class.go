package cluster

import (
	"cmp"
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"sluice.dev/sluice/pkg/script"
)

// This file reads which Ingress controller serves an object: what a script writes is for the controllers that its capabilities name.

const (
	annotationIngressClass = "kubernetes.io/ingress.class"
	annotationDefaultClass = "ingressclass.kubernetes.io/is-default-class"
)

// ingressClasses is the kind IngressClass.
func ingressClasses() kind { return kind{"networking.k8s.io/v1", "IngressClass"} }

// ingressClassOf is the name of the class of an object that an Ingress controller serves, by either way to say it; "" for none.
func ingressClassOf(u *unstructured.Unstructured) string {
	class, _, _ := unstructured.NestedString(u.Object, "spec", "ingressClassName")
	return cmp.Or(class, u.GetAnnotations()[annotationIngressClass])
}

// readClasses reads the class of each object whose script is for certain Ingress controllers.
func (o *observation) readClasses(ctx context.Context) error {
	for _, g := range o.snapshot.gateways {
		if !o.wanted[partRoutes] || !g.needsClass || g.live == nil {
			continue
		}
		name := ingressClassOf(g.live)
		if name == "" && g.ingress == nil { // the default class is that of Ingresses
			g.class = &script.IngressClass{}
			continue
		}
		class, err := o.readClass(ctx, name)
		if err != nil {
			return err
		}
		g.class = class
	}
	return nil
}

// readClass reads the class of a name, "" for the default one of the cluster. It takes the word of a watch, if there is one: who
// gives a class another controller deletes it and makes it again.
func (o *observation) readClass(ctx context.Context, name string) (*script.IngressClass, error) {
	class := &script.IngressClass{Name: name}
	found, err := o.resolve(ctx, ingressClasses())
	var unserved *errUnserved
	if errors.As(err, &unserved) {
		return class, nil
	}
	if err != nil {
		return nil, err
	}
	on := types.NamespacedName{Name: name}
	u, known := o.client.mirrors.gateway(found.GroupVersionResource).get(on)
	switch {
	case name == "":
		u, err = o.defaultClass(ctx, found.GroupVersionResource)
	case !known:
		u, err = o.look(ctx, ingressClasses(), on)
	default:
		o.snapshot.dependsOn(item{watchedKind{GroupVersionResource: found.GroupVersionResource}.item(), on.String()}, u)
	}
	if u == nil || err != nil {
		return class, err
	}
	if name == "" {
		o.snapshot.dependsOn(item{watchedKind{GroupVersionResource: found.GroupVersionResource}.item(), types.NamespacedName{Name: u.GetName()}.String()}, u)
	}
	class.Name, class.Default = u.GetName(), name == ""
	class.Controller, _, _ = unstructured.NestedString(u.Object, "spec", "controller")
	return class, nil
}

// defaultClass is the class that the API server gives a canary Ingress without one: of several the one that was made last. nil when there is none, or
// when it may not be read.
func (o *observation) defaultClass(ctx context.Context, gvr schema.GroupVersionResource) (*unstructured.Unstructured, error) {
	all, known := o.client.mirrors.gateway(gvr).inNamespace("")
	if !known {
		var err error
		if all, _, err = o.all(ctx, gvr, ""); IsForbidden(err) {
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
