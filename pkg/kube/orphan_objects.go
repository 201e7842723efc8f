package kube

import (
	"context"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/kube/apiclient"
	"sluice.dev/sluice/pkg/script"
	"sluice.dev/sluice/pkg/traffic"
)

// orphanObject is an object that an executor created for a release.
type orphanObject struct {
	resource string
	object   metav1.Object
	remove   func(context.Context, string, metav1.DeleteOptions) error
}

// deleteOrphans deletes objects that executors created for releases of a Rollout that no longer exists. A Rollout is
// deleted only when none of its objects is left. Such an object comes from an executor whose earlier request arrived
// late.
func (c *Client) deleteOrphans(ctx context.Context, gone types.NamespacedName, found []orphanObject) error {
	if len(found) == 0 {
		return nil
	}
	// These objects may belong to a Rollout that was created since.
	if r, err := c.getRollout(ctx, gone); err == nil && r != nil || err != nil && !apiclient.IsNotFound(err) {
		return err
	}
	for _, l := range found {
		_, err := apiclient.WithDeadline(ctx, func(ctx context.Context) (any, error) {
			return nil, l.remove(ctx, l.object.GetName(), exactDeleteOptions(l.object, metav1.DeletePropagationBackground))
		})
		if err != nil && !apiclient.IsNotFound(err) {
			return fmt.Errorf("take away %s %s of Rollout %s, which is gone: %w", l.resource, l.object.GetName(), gone, err)
		}
		c.log.Info("deleted an object left behind by a deleted Rollout", "namespace", gone.Namespace, "rollout", gone.Name, l.resource, l.object.GetName())
	}
	return nil
}

func (c *Client) listOrphanObjects(ctx context.Context, gone types.NamespacedName, own script.ConfigMap) (found []orphanObject, err error) {
	made := metav1.ListOptions{LabelSelector: api.LabelRolloutUID}
	services, deployments := c.core.Services(gone.Namespace), c.apps.Deployments(gone.Namespace)
	add := func(resource string, object metav1.Object, remove func(context.Context, string, metav1.DeleteOptions) error) {
		if object.GetAnnotations()[api.AnnotationRollout] == gone.Name && object.GetDeletionTimestamp() == nil {
			found = append(found, orphanObject{resource, object, remove})
		}
	}
	_, err = apiclient.WithDeadline(ctx, func(ctx context.Context) (any, error) {
		list, err := services.List(ctx, made)
		if err != nil {
			return nil, err
		}
		for i := range list.Items {
			add("Service", &list.Items[i], services.Delete)
		}
		canaries, err := deployments.List(ctx, made)
		if err != nil {
			return nil, err
		}
		for i := range canaries.Items {
			add("Deployment", &canaries.Items[i], deployments.Delete)
		}
		return nil, nil
	})
	if err == nil {
		var beside []orphanObject
		beside, err = c.listOrphanChildren(ctx, gone, own)
		found = append(found, beside...)
	}
	if err != nil {
		return nil, fmt.Errorf("look for objects left behind by Rollout %s: %w", gone, err)
	}
	return found, nil
}

// listOrphanChildren returns the objects that were created for gateway objects for the releases of a Rollout.
func (c *Client) listOrphanChildren(ctx context.Context, gone types.NamespacedName, own script.ConfigMap) (found []orphanObject, err error) {
	kinds, err := c.childKinds(ctx, own)
	if err != nil {
		return nil, err
	}
	for _, made := range kinds {
		client := c.objects.Resource(made.GroupVersionResource).Namespace(gone.Namespace)
		list, err := apiclient.WithDeadline(ctx, func(ctx context.Context) (*unstructured.UnstructuredList, error) {
			return client.List(ctx, metav1.ListOptions{LabelSelector: api.LabelRolloutUID})
		})
		if apiclient.IsForbidden(err) {
			continue // such objects were never created, or this executor may not delete them
		}
		if err != nil {
			return nil, err
		}
		for i := range list.Items {
			if u := &list.Items[i]; listsRelease(u, gone) && u.GetDeletionTimestamp() == nil {
				found = append(found, orphanObject{u.GetKind(), u, func(ctx context.Context, name string, options metav1.DeleteOptions) error {
					return client.Delete(ctx, name, options)
				}})
			}
		}
	}
	return found, nil
}

// childKinds returns the served kinds of objects that releases create for gateway objects.
func (c *Client) childKinds(ctx context.Context, own script.ConfigMap) (all []apiclient.Resource, err error) {
	for _, of := range c.opts.Scripts.CreatedKinds(own) {
		made, err := apiclient.WithDeadline(ctx, func(ctx context.Context) (apiclient.Resource, error) {
			return c.kinds.ResourceFor(ctx, apiclient.Kind{APIVersion: of.APIVersion, Name: of.Kind})
		})
		if apiclient.IsUnservedKind(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		all = append(all, made)
	}
	policies, err := c.policyResources(ctx, policyKindsTTL, false)
	for _, policy := range policies {
		if policy.copied {
			all = append(all, policy.Resource)
		}
	}
	return all, err
}

// listsRelease reports whether a gateway object, or one of its children, lists a release of a Rollout.
func listsRelease(u *unstructured.Unstructured, of types.NamespacedName) bool {
	return slices.ContainsFunc(traffic.ReleasesOn(u), func(r traffic.Release) bool { return r.Kind == "" && r.Namespace == of.Namespace && r.Name == of.Name })
}
