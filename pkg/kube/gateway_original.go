package kube

import (
	"cmp"
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
	"sluice.dev/sluice/pkg/traffic"
)

// This file keeps originals that are too large for the annotation of a gateway object in ControllerRevisions, which the object owns, in its
// namespace; those of objects that belong to none in the namespace of Sluice. One is created before the object names it, and deleted while
// the object still does: after a crash at any point, what is left is seen and removed.

const revisions = "controllerrevisions"

// saw takes in a gateway object, with its original where that is stored apart. That one is read beside what the caller goes on to do, which must
// not use g.live until all reads have ended.
func (o *observation) saw(ctx context.Context, g *gateway, live *unstructured.Unstructured) {
	g.live, g.storedIn = live, ""
	if live != nil {
		g.storedIn = traffic.StoredIn(live)
	}
	if g.storedIn == "" {
		return
	}
	if o.source == fromMemory {
		o.reads.Go(func() error { return errUnknown })
		return
	}
	on := g.revision("get", g.storedIn)
	o.read(ctx, on, func(ctx context.Context) error {
		revision, err := found(o.client.apps.ControllerRevisions(on.namespace).Get(ctx, g.storedIn, metav1.GetOptions{}))
		if revision != nil {
			live = traffic.ExpandOriginal(live, revision.Data.Raw)
		}
		g.live = live
		return err
	})
}

func (g *gateway) revision(verb, name string) target {
	return target{verb: verb, group: appsv1.GroupName, resource: revisions, namespace: cmp.Or(g.on.namespace, api.Namespace), name: name}
}

// storeOriginal makes sure that the original is there under its name, which stands for its content.
func (c *Client) storeOriginal(ctx context.Context, g *gateway, a rollout.Action, stored *traffic.Stored) error {
	if stored.Name == g.storedIn && traffic.StoredIn(g.live) == "" {
		return nil // it was read from there
	}
	created := &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{
			Name: stored.Name, Labels: map[string]string{api.LabelOriginalOf: string(g.live.GetUID()), api.LabelRolloutUID: g.uid},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: g.live.GetAPIVersion(), Kind: g.live.GetKind(), Name: g.live.GetName(), UID: g.live.GetUID(),
			}},
		},
		Data: runtime.RawExtension{Raw: stored.Data}, Revision: 1,
	}
	on := g.revision("create", stored.Name)
	_, err := within(ctx, func(ctx context.Context) (*appsv1.ControllerRevision, error) {
		return c.apps.ControllerRevisions(on.namespace).Create(ctx, created, metav1.CreateOptions{FieldManager: api.FieldManager})
	})
	switch {
	case isNotFound(err) && g.on.namespace == "":
		return refusedRoute(a, g.ref, fmt.Errorf("the original of %s is too large for its annotations, and namespace %s, in which it would be kept, does not exist; create it: kubectl create namespace %[2]s",
			g.ref, on.namespace))
	case err == nil || !apierrors.IsAlreadyExists(err):
		return c.onRevision(a, on, err)
	}
	return c.checkStored(ctx, g, a, stored)
}

// checkStored refuses to rely on an object that bears the name of an original and is none.
func (c *Client) checkStored(ctx context.Context, g *gateway, a rollout.Action, stored *traffic.Stored) error {
	on := g.revision("get", stored.Name)
	there, err := within(ctx, func(ctx context.Context) (*appsv1.ControllerRevision, error) {
		return c.apps.ControllerRevisions(on.namespace).Get(ctx, stored.Name, metav1.GetOptions{})
	})
	if err != nil {
		return c.onRevision(a, on, err)
	}
	referring := traffic.ReferToOriginal(g.live, stored.Name)
	if traffic.StoredIn(traffic.ExpandOriginal(referring, there.Data.Raw)) == "" {
		return nil
	}
	return refusedRoute(a, g.ref, fmt.Errorf(
		"ControllerRevision %s/%s has the name under which the original of %s is stored, and holds something else; delete it", on.namespace, stored.Name, g.ref))
}

// restoreStored restores an object whose original is stored apart. The object names it until it is deleted.
func (c *Client) restoreStored(ctx context.Context, g *gateway, a rollout.Action, restored *unstructured.Unstructured) error {
	if err := c.writeRoute(ctx, g, a, traffic.ReferToOriginal(restored, g.storedIn)); err != nil {
		return err
	}
	if err := c.dropOriginals(ctx, g, a); err != nil {
		return err
	}
	restored = restored.DeepCopy()
	restored.SetResourceVersion(g.live.GetResourceVersion())
	return c.writeRoute(ctx, g, a, restored)
}

// dropOriginals deletes whatever originals of the object are stored, those of a write that was cut short included.
func (c *Client) dropOriginals(ctx context.Context, g *gateway, a rollout.Action) error {
	on := g.revision("list", "")
	client := c.apps.ControllerRevisions(on.namespace)
	list, err := within(ctx, func(ctx context.Context) (*appsv1.ControllerRevisionList, error) {
		return client.List(ctx, metav1.ListOptions{LabelSelector: labels.Set{api.LabelOriginalOf: string(g.live.GetUID())}.String()})
	})
	if err != nil {
		return c.onRevision(a, on, err)
	}
	for i := range list.Items {
		stored := &list.Items[i]
		_, err := within(ctx, func(ctx context.Context) (any, error) {
			return nil, client.Delete(ctx, stored.Name, exactly(stored, metav1.DeletePropagationBackground))
		})
		if err != nil && !isNotFound(err) {
			return c.onRevision(a, g.revision("delete", stored.Name), err)
		}
	}
	return nil
}

func (c *Client) onRevision(a rollout.Action, on target, err error) error {
	if err == nil {
		return nil
	}
	return c.onAction(a, on, err)
}
