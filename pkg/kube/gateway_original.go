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
	"sluice.dev/sluice/pkg/kube/apiclient"
	"sluice.dev/sluice/pkg/rollout"
	"sluice.dev/sluice/pkg/traffic"
)

// This file stores originals that are too large for the annotation of a gateway object. It stores each in a
// ControllerRevision that the object owns, in its namespace, or in the namespace of Sluice for a cluster-scoped object.
// The executor creates a ControllerRevision before the object names it, and deletes it while the object still does. So
// after a crash at any point it sees and removes the remaining ones.

const revisions = "controllerrevisions"

// storeGateway takes in a gateway object, with its original if that is stored apart. It reads a stored original in the
// background. The caller must not use g.live until all reads have ended.
func (o *observation) storeGateway(ctx context.Context, g *gateway, live *unstructured.Unstructured) {
	g.live, g.storedIn = live, ""
	if live != nil {
		g.storedIn = traffic.StoredIn(live)
	}
	if g.storedIn == "" {
		return
	}
	if o.source == fromMemory {
		o.reads.Go(func() error { return errNotCached })
		return
	}
	on := o.client.revisionAccess(g, "get", g.storedIn)
	o.startRead(ctx, on, func(ctx context.Context) error {
		revision, err := nilIfNotFound(o.client.apps.ControllerRevisions(on.Namespace).Get(ctx, g.storedIn, metav1.GetOptions{}))
		if revision != nil {
			live = traffic.ExpandOriginal(live, revision.Data.Raw)
		}
		g.live = live
		return err
	})
}

func (c *Client) revisionAccess(g *gateway, verb, name string) apiclient.Access {
	return apiclient.Access{Verb: verb, Group: appsv1.GroupName, Resource: revisions, Namespace: cmp.Or(g.access.Namespace, c.opts.Installation.Namespace), Name: name}
}

// storeOriginal creates the ControllerRevision of an original, unless it exists. Its name stands for its content.
func (c *Client) storeOriginal(ctx context.Context, g *gateway, a rollout.Action, stored *traffic.Stored) error {
	if stored.Name == g.storedIn && traffic.StoredIn(g.live) == "" {
		return nil // the original was read from there
	}
	created := &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{
			Name: stored.Name, Labels: map[string]string{api.LabelOriginalOf: string(g.live.GetUID()), api.LabelRolloutUID: g.rolloutUID},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: g.live.GetAPIVersion(), Kind: g.live.GetKind(), Name: g.live.GetName(), UID: g.live.GetUID(),
			}},
		},
		Data: runtime.RawExtension{Raw: stored.Data}, Revision: 1,
	}
	on := c.revisionAccess(g, "create", stored.Name)
	_, err := apiclient.WithDeadline(ctx, func(ctx context.Context) (*appsv1.ControllerRevision, error) {
		return c.apps.ControllerRevisions(on.Namespace).Create(ctx, created, metav1.CreateOptions{FieldManager: api.FieldManager})
	})
	switch {
	case apiclient.IsNotFound(err) && g.access.Namespace == "":
		return refusedRoute(a, g.ref, fmt.Errorf("the original of %s is too large for its annotations, and namespace %s, in which it would be kept, does not exist; create it: kubectl create namespace %[2]s",
			g.ref, on.Namespace))
	case err == nil || !apierrors.IsAlreadyExists(err):
		return c.onRevision(a, on, err)
	}
	return c.checkStored(ctx, g, a, stored)
}

// checkStored returns an error if an object has the name of a stored original and other content.
func (c *Client) checkStored(ctx context.Context, g *gateway, a rollout.Action, stored *traffic.Stored) error {
	on := c.revisionAccess(g, "get", stored.Name)
	there, err := apiclient.WithDeadline(ctx, func(ctx context.Context) (*appsv1.ControllerRevision, error) {
		return c.apps.ControllerRevisions(on.Namespace).Get(ctx, stored.Name, metav1.GetOptions{})
	})
	if err != nil {
		return c.onRevision(a, on, err)
	}
	referring := traffic.ReferToOriginal(g.live, stored.Name)
	if traffic.StoredIn(traffic.ExpandOriginal(referring, there.Data.Raw)) == "" {
		return nil
	}
	return refusedRoute(a, g.ref, fmt.Errorf(
		"ControllerRevision %s/%s has the name under which the original of %s is stored, and holds something else; delete it", on.Namespace, stored.Name, g.ref))
}

// restoreStored restores an object whose original is stored apart. The object names the original until that is deleted.
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

// dropOriginals deletes all stored originals of the object, also the original of an interrupted write.
func (c *Client) dropOriginals(ctx context.Context, g *gateway, a rollout.Action) error {
	on := c.revisionAccess(g, "list", "")
	client := c.apps.ControllerRevisions(on.Namespace)
	list, err := apiclient.WithDeadline(ctx, func(ctx context.Context) (*appsv1.ControllerRevisionList, error) {
		return client.List(ctx, metav1.ListOptions{LabelSelector: labels.Set{api.LabelOriginalOf: string(g.live.GetUID())}.String()})
	})
	if err != nil {
		return c.onRevision(a, on, err)
	}
	for i := range list.Items {
		stored := &list.Items[i]
		_, err := apiclient.WithDeadline(ctx, func(ctx context.Context) (any, error) {
			return nil, client.Delete(ctx, stored.Name, exactDeleteOptions(stored, metav1.DeletePropagationBackground))
		})
		if err != nil && !apiclient.IsNotFound(err) {
			return c.onRevision(a, c.revisionAccess(g, "delete", stored.Name), err)
		}
	}
	return nil
}

func (c *Client) onRevision(a rollout.Action, on apiclient.Access, err error) error {
	if err == nil {
		return nil
	}
	return apiclient.ActionError(a, on, err)
}
