package kube

import (
	"context"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/kube/apiclient"
	"sluice.dev/sluice/pkg/rollout"
	"sluice.dev/sluice/pkg/script"
	"sluice.dev/sluice/pkg/traffic"
)

// This file reads and writes the objects that scripts create for gateway objects.

// readChildren reads, for each gateway object whose script may create others, all objects of those kinds in the
// namespace.
func (o *observation) readChildren(ctx context.Context) error {
	for _, g := range o.snapshot.gateways {
		if !o.wanted[partRoutes] {
			break
		}
		g.namespaceObjects, g.childResources = nil, map[apiclient.Kind]schema.GroupVersionResource{}
		if len(g.childKinds) > 0 && g.resource.Resource != "" && g.access.Namespace == "" {
			o.addProblem(rollout.Problem{Reason: rollout.ReasonRouteUnsupported, Route: g.ref, Message: fmt.Sprintf(
				"%s belongs to no namespace, so its script cannot create further objects: remove creates from its capabilities", g.ref)})
			continue
		}
		for _, of := range g.childKinds {
			if err := o.readChildKind(ctx, g, of); err != nil {
				return err
			}
		}
	}
	return nil
}

func (o *observation) readChildKind(ctx context.Context, g *gateway, of script.GroupVersionKind) error {
	made := apiclient.Kind{APIVersion: of.APIVersion, Name: of.Kind}
	found, err := o.resolveKind(ctx, made)
	if err != nil {
		return fmt.Errorf("look for what %s may make: %w", g.ref, err)
	}
	g.childResources[made] = found.GroupVersionResource
	all, live, err := o.listObjects(ctx, found.GroupVersionResource, o.namespace)
	if err != nil {
		return o.reportUnreadable(found.GroupVersionResource, apiclient.Access{Verb: "list", Namespace: o.namespace, Route: g.ref, Child: true}, true, err)
	}
	g.namespaceObjects, g.confirmedLive = append(g.namespaceObjects, all...), g.confirmedLive && live
	return nil
}

// listObjects returns the objects of a resource in a namespace, "" for cluster-scoped ones. live is true if the API
// server has answered, and not a watch.
func (o *observation) listObjects(ctx context.Context, gvr schema.GroupVersionResource, namespace string) (found []*unstructured.Unstructured, live bool, err error) {
	m := o.client.informers.forGateway(gvr)
	if o.source != fromServer {
		if found, known := m.ListNamespace(namespace); known {
			o.client.readCounts.watched.Add(1)
			return found, false, nil
		}
		if o.source == fromMemory {
			return nil, false, errNotCached
		}
	}
	o.client.readCounts.live.Add(1)
	list, err := apiclient.WithDeadline(ctx, func(ctx context.Context) (*unstructured.UnstructuredList, error) {
		return o.client.objects.Resource(gvr).Namespace(namespace).List(ctx, metav1.ListOptions{})
	})
	if err = o.client.serverErrors.recordResult(gvr, err, time.Now()); err != nil {
		return nil, false, fmt.Errorf("list %s: %w", gvr.GroupResource(), err)
	}
	for i := range list.Items {
		m.StoreAnswer(&list.Items[i])
		found = append(found, &list.Items[i])
	}
	return found, true, nil
}

// childResource returns the resource of an object's kind and the client for it.
func (c *Client) childResource(ctx context.Context, g *gateway, u *unstructured.Unstructured) (schema.GroupVersionResource, dynamic.ResourceInterface, error) {
	found, err := c.kinds.ResourceFor(ctx, apiclient.Kind{APIVersion: u.GetAPIVersion(), Name: u.GetKind()})
	if err != nil {
		return schema.GroupVersionResource{}, nil, err
	}
	return found.GroupVersionResource, c.objects.Resource(found.GroupVersionResource).Namespace(g.access.Namespace), nil
}

func (g *gateway) childAccess(verb string, gvr schema.GroupVersionResource, u *unstructured.Unstructured) apiclient.Access {
	return apiclient.Access{Verb: verb, Group: gvr.Group, Resource: gvr.Resource, Namespace: g.access.Namespace, Name: u.GetName(), Route: g.ref, Child: true}
}

// applyChildren creates or updates the children of a gateway object. It creates one only while the observation is
// recent.
func (c *Client) applyChildren(ctx context.Context, g *gateway, a rollout.Action, sure time.Time, all []*unstructured.Unstructured) error {
	all, err := c.assignNumbers(ctx, g, a, all)
	if err != nil {
		return err
	}
	for _, u := range all {
		gvr, client, err := c.childResource(ctx, g, u)
		if err != nil {
			return fmt.Errorf("%s: %w", a, err)
		}
		verb, put := "update", updateChild
		if u.GetResourceVersion() == "" {
			verb, put = "create", createChild
		}
		written, err := put(ctx, client, u, a, sure)
		if err != nil {
			return apiclient.ActionError(a, g.childAccess(verb, gvr, u), err)
		}
		c.informers.forGateway(gvr).StoreAnswer(written)
		g.replaceChild(written, written)
	}
	return nil
}

func createChild(ctx context.Context, client dynamic.ResourceInterface, u *unstructured.Unstructured, a rollout.Action, sure time.Time) (*unstructured.Unstructured, error) {
	if err := checkFence(ctx, sure, a); err != nil {
		return nil, err
	}
	ctx, cancel := withFenceDeadline(ctx, sure)
	defer cancel()
	return apiclient.WithDeadline(ctx, func(ctx context.Context) (*unstructured.Unstructured, error) {
		return client.Create(ctx, traffic.StampCreation(u, time.Now()), metav1.CreateOptions{FieldManager: api.FieldManager, FieldValidation: metav1.FieldValidationStrict})
	})
}

func updateChild(ctx context.Context, client dynamic.ResourceInterface, u *unstructured.Unstructured, _ rollout.Action, _ time.Time) (*unstructured.Unstructured, error) {
	return apiclient.WithDeadline(ctx, func(ctx context.Context) (*unstructured.Unstructured, error) {
		return client.Update(ctx, u, metav1.UpdateOptions{FieldManager: api.FieldManager, FieldValidation: metav1.FieldValidationStrict})
	})
}

// replaceChild replaces a child of the gateway object in the snapshot; nil removes it.
func (g *gateway) replaceChild(was, is *unstructured.Unstructured) {
	same := func(o *unstructured.Unstructured) bool { return o.GetUID() == was.GetUID() }
	g.namespaceObjects, g.policies = slices.DeleteFunc(slices.Clone(g.namespaceObjects), same), slices.DeleteFunc(slices.Clone(g.policies), same)
	if is != nil {
		g.namespaceObjects = append(g.namespaceObjects, is)
	}
}

// deleteChildren deletes children of the gateway object if they have not changed since they were read. It frees their
// numbers first: no other object can take a number while an object still bears it.
func (c *Client) deleteChildren(ctx context.Context, g *gateway, a rollout.Action, all []*unstructured.Unstructured) error {
	if err := c.freeNumbers(ctx, g, a, all); err != nil {
		return err
	}
	for _, u := range all {
		if u.GetDeletionTimestamp() != nil {
			continue
		}
		gvr, client, err := c.childResource(ctx, g, u)
		if err != nil {
			return fmt.Errorf("%s: %w", a, err)
		}
		_, err = apiclient.WithDeadline(ctx, func(ctx context.Context) (any, error) {
			return nil, client.Delete(ctx, u.GetName(), exactDeleteOptions(u, metav1.DeletePropagationBackground))
		})
		if err != nil && !apiclient.IsNotFound(err) {
			return apiclient.ActionError(a, g.childAccess("delete", gvr, u), err)
		}
		g.replaceChild(u, afterDeletion(c.informers.forGateway(gvr), u, false))
	}
	return nil
}

// children returns the objects that the release created for the gateway object.
func (g *gateway) children() []*unstructured.Unstructured {
	if g.plan == nil {
		return nil
	}
	return g.plan.LiveChildren()
}
