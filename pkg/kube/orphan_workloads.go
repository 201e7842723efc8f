package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/kube/apiclient"
	"sluice.dev/sluice/pkg/workload"
	"sluice.dev/sluice/pkg/workload/kinds"
)

// reasonOrphaned is the reason of the Event on a workload whose Rollout was removed during its release.
const reasonOrphaned = "ReleaseOrphaned"

// CleanUpOrphanedWorkloads removes the marks of a deleted Rollout from its workloads, and returns their number. A user
// removed the finalizer by force, and the next change of such a workload would be held for ever.
//
// A workload in the middle of a release stays held. The stable Service may still be pinned to pods that go when the
// workload is released, and routes may lead to a canary. If the workload is already unmanaged, all objects that still
// carry traffic stay. An Event says how to proceed. Otherwise the executor deletes the objects of the releases and
// restores the autoscalers that they disabled.
func (c *Client) CleanUpOrphanedWorkloads(ctx context.Context, gone types.NamespacedName) (int, error) {
	found, err := c.claimedBy(ctx, gone)
	if err != nil {
		return 0, fmt.Errorf("look for workloads of Rollout %s, which is gone: %w", gone, err)
	}
	own, err := c.userScripts(ctx)
	if err != nil {
		return 0, fmt.Errorf("look for scripts that Rollout %s, which is gone, was routed by: %w", gone, err)
	}
	made, err := c.listOrphanObjects(ctx, gone, own)
	if err != nil {
		return 0, err
	}
	left, err := c.stillInUse(ctx, gone, own, found, made)
	if err != nil {
		return 0, fmt.Errorf("look for what bears traffic by Rollout %s, which is gone: %w", gone, err)
	}
	if left != nil && len(found) == 0 {
		c.recordOrphanedRelease(gone, left.on, left.reason)
	}
	var count int
	for _, o := range found {
		if why := o.keptReason(left); why != "" {
			c.recordOrphanedRelease(gone, o.ObjectReference, why)
			continue
		}
		// No later cleanup would find the autoscalers of a workload without marks.
		if err := c.restoreAutoscalers(ctx, o); err != nil {
			return count, err
		}
		if err := c.disownOrphan(ctx, o); err != nil {
			return count, err
		}
		count++
	}
	if left != nil || count < len(found) {
		return count, nil
	}
	return count, c.deleteOrphans(ctx, gone, made)
}

// orphan is a workload with the mark of a deleted Rollout.
type orphan struct {
	corev1.ObjectReference
	held bool
	// scaledDown is true if a release runs fewer of its pods than its owner wants.
	scaledDown bool
	// disown removes the marks of Sluice; resource is the resource to patch.
	disown   workload.Patch
	resource schema.GroupVersionResource
}

// keptReason says why the workload keeps its marks, "" if it need not.
func (o orphan) keptReason(left *orphanUse) string {
	switch {
	case o.held:
		return fmt.Sprintf("%s %s stays held, because Services and routes may still send traffic to what that release made", o.Kind, o.Name)
	case left != nil:
		return left.reason
	}
	return ""
}

// claimedBy finds the workloads with the mark of a Rollout, of all kinds that may have been released.
func (c *Client) claimedBy(ctx context.Context, gone types.NamespacedName) (found []orphan, err error) {
	options := metav1.ListOptions{LabelSelector: api.LabelWorkloadType}
	deployments, err := apiclient.WithDeadline(ctx, func(ctx context.Context) (*appsv1.DeploymentList, error) {
		return c.apps.Deployments(gone.Namespace).List(ctx, options)
	})
	if err != nil {
		return nil, err
	}
	add := func(o metav1.Object, resource schema.GroupVersionResource, kind string, shrunk bool, disown func() workload.Patch) {
		if o.GetAnnotations()[api.AnnotationRollout] != gone.Name {
			return
		}
		_, held := o.GetAnnotations()[api.AnnotationInProgressing]
		found = append(found, orphan{corev1.ObjectReference{
			APIVersion: resource.GroupVersion().String(), Kind: kind, Namespace: o.GetNamespace(), Name: o.GetName(), UID: o.GetUID(),
		}, held, shrunk, disown(), resource})
	}
	for i := range deployments.Items {
		d := &deployments.Items[i]
		add(d, appsv1.SchemeGroupVersion.WithResource("deployments"), "Deployment", workload.IsScaledDown(d), func() workload.Patch { return workload.DisownDeployment(d) })
	}
	for _, resource := range c.workloadResources(ctx) {
		list, err := apiclient.WithDeadline(ctx, func(ctx context.Context) (*unstructured.UnstructuredList, error) {
			return c.objects.Resource(resource).Namespace(gone.Namespace).List(ctx, options)
		})
		if api.Unserved(err) || apiclient.IsForbidden(err) {
			continue // no such workload was ever adopted, or this executor may not release it
		}
		if err != nil {
			return nil, err
		}
		for i := range list.Items {
			u := &list.Items[i]
			if _, known := workload.KindOfObject(u); known {
				add(u, resource, u.GetKind(), false, workload.Object{Live: u}.DisownWorkload)
			}
		}
	}
	return found, nil
}

// workloadResources returns the resources of the kinds of workloads, other than Deployments, that are served or were
// asked for.
func (c *Client) workloadResources(ctx context.Context) []schema.GroupVersionResource {
	all := map[schema.GroupResource]schema.GroupVersionResource{}
	for _, row := range kinds.All() {
		of := apiclient.Kind{APIVersion: row.GroupKind.Group + "/" + row.Versions[0], Name: row.GroupKind.Kind}
		found, err := apiclient.WithDeadline(ctx, func(ctx context.Context) (apiclient.Resource, error) { return c.kinds.ResourceFor(ctx, of) })
		if err == nil {
			all[found.GroupResource()] = found.GroupVersionResource
		}
	}
	c.informers.mu.Lock()
	defer c.informers.mu.Unlock()
	for kind := range c.informers.kinds {
		if _, known := all[kind.GroupResource()]; kind.isWorkload && !known {
			all[kind.GroupResource()] = kind.GroupVersionResource
		}
	}
	return slices.Collect(maps.Values(all))
}

func (c *Client) disownOrphan(ctx context.Context, o orphan) error {
	body, err := json.Marshal(o.disown)
	if err != nil {
		return fmt.Errorf("release %s %s: %w", o.Kind, o.Name, err)
	}
	_, err = apiclient.WithDeadline(ctx, func(ctx context.Context) (*unstructured.Unstructured, error) {
		return c.objects.Resource(o.resource).Namespace(o.Namespace).Patch(ctx, o.Name, types.MergePatchType, body, metav1.PatchOptions{FieldManager: api.FieldManager})
	})
	if err != nil && !apiclient.IsNotFound(err) {
		return fmt.Errorf("release %s %s: %w", o.Kind, o.Name, err)
	}
	return nil
}

// recordOrphanedRelease tells the user how to end an orphaned release. why says what would break if the executor simply
// removed the release.
func (c *Client) recordOrphanedRelease(gone types.NamespacedName, on corev1.ObjectReference, why string) {
	c.log.Warn("a Rollout was removed by force during its release; what the release made stays, create the Rollout again",
		"namespace", gone.Namespace, "rollout", gone.Name, "kind", on.Kind, "object", on.Name)
	note := fmt.Sprintf("Rollout %[1]s was removed by force during its release. %[3]s. "+
		"Create Rollout %[1]s again: it takes over the remaining objects and releases the version again. "+
		"To remove it, delete it then with kubectl delete rollout %[1]s -n %[2]s, and leave its finalizer alone.", gone.Name, gone.Namespace, why)
	c.eventWriter.writeNow(eventOn(on, 0, true, reasonOrphaned, note, time.Now()))
}
