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
	"sluice.dev/sluice/pkg/rollout"
	"sluice.dev/sluice/pkg/script"
	"sluice.dev/sluice/pkg/traffic"
)

// This file reads and writes the objects that scripts make beside gateway objects.

// readBeside reads, for each gateway object whose script may make others, all objects of those kinds in the namespace.
func (o *observation) readBeside(ctx context.Context) error {
	for _, g := range o.snapshot.gateways {
		if !o.wanted[partRoutes] {
			break
		}
		g.others, g.makes = nil, map[kind]schema.GroupVersionResource{}
		if len(g.creates) > 0 && g.resource.Resource != "" && g.on.namespace == "" {
			o.problem(rollout.Problem{Reason: rollout.HoldRouteRefused, Route: g.ref, Message: fmt.Sprintf(
				"%s belongs to no namespace, so its script cannot make objects beside it: take creates out of its capabilities", g.ref)})
			continue
		}
		for _, of := range g.creates {
			if err := o.readKind(ctx, g, of); err != nil {
				return err
			}
		}
	}
	return nil
}

func (o *observation) readKind(ctx context.Context, g *gateway, of script.GroupVersionKind) error {
	made := kind{of.APIVersion, of.Kind}
	found, err := o.resolve(ctx, made)
	if err != nil {
		return fmt.Errorf("look for what %s may make: %w", g.ref, err)
	}
	g.makes[made] = found.GroupVersionResource
	all, live, err := o.all(ctx, found.GroupVersionResource, o.namespace)
	if err != nil {
		return o.withoutThese(found.GroupVersionResource, target{verb: "list", namespace: o.namespace, route: g.ref, made: true}, true, err)
	}
	g.others, g.fresh = append(g.others, all...), g.fresh && live
	return nil
}

// all are the objects of a resource in a namespace, "" for those that belong to none. live: the API server has answered them, and no watch.
func (o *observation) all(ctx context.Context, gvr schema.GroupVersionResource, namespace string) (found []*unstructured.Unstructured, live bool, err error) {
	m := o.client.mirrors.gateway(gvr)
	if o.source != fromServer {
		if found, known := m.inNamespace(namespace); known {
			o.client.reads.watched.Add(1)
			return found, false, nil
		}
		if o.source == fromMemory {
			return nil, false, errUnknown
		}
	}
	o.client.reads.live.Add(1)
	list, err := within(ctx, func(ctx context.Context) (*unstructured.UnstructuredList, error) {
		return o.client.objects.Resource(gvr).Namespace(namespace).List(ctx, metav1.ListOptions{})
	})
	if err = o.client.troubles.judge(gvr, err, time.Now()); err != nil {
		return nil, false, fmt.Errorf("list %s: %w", gvr.GroupResource(), err)
	}
	for i := range list.Items {
		m.saw(&list.Items[i])
		found = append(found, &list.Items[i])
	}
	return found, true, nil
}

// madeAt is where objects of the kind of another one are written to.
func (c *Client) madeAt(ctx context.Context, g *gateway, u *unstructured.Unstructured) (schema.GroupVersionResource, dynamic.ResourceInterface, error) {
	found, err := c.kinds.find(ctx, kind{u.GetAPIVersion(), u.GetKind()})
	if err != nil {
		return schema.GroupVersionResource{}, nil, err
	}
	return found.GroupVersionResource, c.objects.Resource(found.GroupVersionResource).Namespace(g.on.namespace), nil
}

func (g *gateway) madeOn(verb string, gvr schema.GroupVersionResource, u *unstructured.Unstructured) target {
	return target{verb: verb, group: gvr.Group, resource: gvr.Resource, namespace: g.on.namespace, name: u.GetName(), route: g.ref, made: true}
}

// putBeside creates or updates objects beside the gateway object. What is created is so while the look at the world is recent, or never.
func (c *Client) putBeside(ctx context.Context, g *gateway, a rollout.Action, sure time.Time, all []*unstructured.Unstructured) error {
	all, err := c.number(ctx, g, a, all)
	if err != nil {
		return err
	}
	for _, u := range all {
		gvr, client, err := c.madeAt(ctx, g, u)
		if err != nil {
			return fmt.Errorf("%s: %w", a, err)
		}
		verb, put := "update", updated
		if u.GetResourceVersion() == "" {
			verb, put = "create", created
		}
		written, err := put(ctx, client, u, a, sure)
		if err != nil {
			return c.onAction(a, g.madeOn(verb, gvr, u), err)
		}
		c.mirrors.gateway(gvr).saw(written)
		g.replace(written, written)
	}
	return nil
}

func created(ctx context.Context, client dynamic.ResourceInterface, u *unstructured.Unstructured, a rollout.Action, sure time.Time) (*unstructured.Unstructured, error) {
	if err := mayMake(ctx, sure, a); err != nil {
		return nil, err
	}
	ctx, cancel := soon(ctx, sure)
	defer cancel()
	return within(ctx, func(ctx context.Context) (*unstructured.Unstructured, error) {
		return client.Create(ctx, traffic.StampCreation(u, time.Now()), metav1.CreateOptions{FieldManager: api.FieldManager, FieldValidation: metav1.FieldValidationStrict})
	})
}

func updated(ctx context.Context, client dynamic.ResourceInterface, u *unstructured.Unstructured, _ rollout.Action, _ time.Time) (*unstructured.Unstructured, error) {
	return within(ctx, func(ctx context.Context) (*unstructured.Unstructured, error) {
		return client.Update(ctx, u, metav1.UpdateOptions{FieldManager: api.FieldManager, FieldValidation: metav1.FieldValidationStrict})
	})
}

// replace puts an object, nil for none, in the place of one beside the gateway object.
func (g *gateway) replace(was, is *unstructured.Unstructured) {
	same := func(o *unstructured.Unstructured) bool { return o.GetUID() == was.GetUID() }
	g.others, g.policies = slices.DeleteFunc(slices.Clone(g.others), same), slices.DeleteFunc(slices.Clone(g.policies), same)
	if is != nil {
		g.others = append(g.others, is)
	}
}

// deleteBeside deletes objects that were made beside the gateway object, as they were seen, and gives their numbers back first: nobody
// takes a number that an object still has.
func (c *Client) deleteBeside(ctx context.Context, g *gateway, a rollout.Action, all []*unstructured.Unstructured) error {
	if err := c.freeNumbers(ctx, g, a, all); err != nil {
		return err
	}
	for _, u := range all {
		if u.GetDeletionTimestamp() != nil {
			continue
		}
		gvr, client, err := c.madeAt(ctx, g, u)
		if err != nil {
			return fmt.Errorf("%s: %w", a, err)
		}
		_, err = within(ctx, func(ctx context.Context) (any, error) {
			return nil, client.Delete(ctx, u.GetName(), exactly(u, metav1.DeletePropagationBackground))
		})
		if err != nil && !isNotFound(err) {
			return c.onAction(a, g.madeOn("delete", gvr, u), err)
		}
		g.replace(u, leave(c.mirrors.gateway(gvr), u, false))
	}
	return nil
}

// made are the objects that the release made beside the gateway object.
func (g *gateway) made() []*unstructured.Unstructured {
	if g.plan == nil {
		return nil
	}
	return g.plan.LiveChildren()
}
