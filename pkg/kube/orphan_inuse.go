package kube

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/kube/apiclient"
	"sluice.dev/sluice/pkg/rollout"
	"sluice.dev/sluice/pkg/script"
	"sluice.dev/sluice/pkg/traffic"
	"sluice.dev/sluice/pkg/workload"
)

// This file is about a release whose workload is already unmanaged, and whose Rollout was removed before its other
// changes were undone. Only the deleted Rollout knows how to undo them. So they stay until the Rollout exists again and
// undoes them in order.

// orphanUse says why no object of a release may be deleted: an object still carries traffic through the release.
type orphanUse struct {
	on     corev1.ObjectReference
	reason string
}

// stillInUse finds an object that still carries traffic through a release of a deleted Rollout; nil if there is no such
// object.
func (c *Client) stillInUse(ctx context.Context, gone types.NamespacedName, own script.ConfigMap, found []orphan, made []orphanObject) (*orphanUse, error) {
	if len(found)+len(made) == 0 {
		return nil, nil
	}
	for _, o := range found {
		for _, l := range made {
			if o.scaledDown && l.object.GetLabels()[api.LabelCanaryDeployment] == o.Name {
				return &orphanUse{o.ObjectReference, fmt.Sprintf("%s %s does not have all of its pods back, so the pods of the canary stay and serve in their place", o.Kind, o.Name)}, nil
			}
		}
	}
	if r, err := c.pinnedServiceInUse(ctx, made); err != nil || r != nil {
		return r, err
	}
	return c.routeInUse(ctx, gone, own, made)
}

// pinnedServiceInUse finds a stable Service that selects one version only. It would send no traffic to pods of the next
// version.
func (c *Client) pinnedServiceInUse(ctx context.Context, made []orphanObject) (*orphanUse, error) {
	for _, l := range made {
		owner := metav1.GetControllerOf(l.object)
		if owner == nil || owner.Kind != "Service" {
			continue
		}
		stable, err := apiclient.WithDeadline(ctx, func(ctx context.Context) (*corev1.Service, error) {
			return nilIfNotFound(c.core.Services(l.object.GetNamespace()).Get(ctx, owner.Name, metav1.GetOptions{}))
		})
		if err != nil {
			return nil, fmt.Errorf("get Service %s: %w", owner.Name, err)
		}
		if stable != nil && traffic.ObserveService(stable, "", "").Hash != "" {
			return &orphanUse{refToService(stable),
				fmt.Sprintf("Service %s still selects pods of one version only, so what that release made stays", stable.Name)}, nil
		}
	}
	return nil, nil
}

// routeInUse finds a gateway object that lists a release of the Rollout, or names a Service that was created for one.
// If the executor may not list a kind, it cannot tell whether an object of that kind names the Service.
func (c *Client) routeInUse(ctx context.Context, gone types.NamespacedName, own script.ConfigMap, made []orphanObject) (*orphanUse, error) {
	kinds, err := c.gatewayKinds(ctx, own)
	if err != nil {
		return nil, fmt.Errorf("look for what can be routed through: %w", err)
	}
	var untold *orphanUse
	for _, kind := range kinds {
		resource, namespace := kind.GroupVersionResource, ""
		if kind.Namespaced {
			namespace = gone.Namespace
		}
		list, err := apiclient.WithDeadline(ctx, func(ctx context.Context) (*unstructured.UnstructuredList, error) {
			return c.objects.Resource(resource).Namespace(namespace).List(ctx, metav1.ListOptions{})
		})
		switch {
		case apierrors.IsNotFound(err):
			continue // no release was routed through it
		case apiclient.IsForbidden(err):
			if untold == nil {
				untold = possiblyInUse(resource, made)
			}
			continue
		case err != nil:
			return nil, fmt.Errorf("list %s: %w", resource.GroupResource(), err)
		}
		for i := range list.Items {
			if u := &list.Items[i]; leadsToOrphan(u, gone, made) {
				return &orphanUse{corev1.ObjectReference{APIVersion: u.GetAPIVersion(), Kind: u.GetKind(), Namespace: u.GetNamespace(), Name: u.GetName(), UID: u.GetUID()},
					fmt.Sprintf("%s %s still leads to what that release made, so all of that stays", u.GetKind(), u.GetName())}, nil
			}
		}
	}
	return untold, nil
}

// possiblyInUse is about a kind that the executor may not list. An object of the kind may lead to a Service of the
// release. It returns nil if the release created no Service.
func possiblyInUse(kind schema.GroupVersionResource, made []orphanObject) *orphanUse {
	for _, l := range made {
		if l.resource == "Service" {
			return &orphanUse{refToService(l.object),
				fmt.Sprintf("Sluice may not list %s, so it cannot tell whether one still leads to Service %s, and all that the release made stays",
					kind.GroupResource(), l.object.GetName())}
		}
	}
	return nil
}

func refToService(s metav1.Object) corev1.ObjectReference {
	return corev1.ObjectReference{APIVersion: "v1", Kind: "Service", Namespace: s.GetNamespace(), Name: s.GetName(), UID: s.GetUID()}
}

func leadsToOrphan(u *unstructured.Unstructured, gone types.NamespacedName, made []orphanObject) bool {
	// A child of a gateway object leads nowhere once the canary Service is deleted that it was created for.
	if u.GetLabels()[api.LabelRolloutUID] == "" && listsRelease(u, gone) {
		return true
	}
	if traffic.IsPolicyKind(u.GroupVersionKind().GroupKind()) { // a policy routes no requests
		return false
	}
	for _, l := range made {
		if l.resource == "Service" && traffic.MentionsService(u.Object["spec"], l.object.GetName(), gone.Namespace) {
			return true
		}
	}
	return false
}

// gatewayKinds returns the resources of all served kinds that have a script. No release was routed through any other
// kind.
func (c *Client) gatewayKinds(ctx context.Context, own script.ConfigMap) (all []apiclient.Resource, err error) {
	served, err := apiclient.WithDeadline(ctx, c.discovery.ServerGroupsWithContext)
	if err != nil {
		return nil, err
	}
	for _, of := range append(c.opts.Scripts.ListKinds(own), script.IngressKind()) {
		found, is, err := c.servedIn(ctx, served.Groups, schema.GroupKind(of))
		if err != nil {
			return nil, err
		}
		if is {
			all = append(all, found)
		}
	}
	return all, nil
}

// servedIn returns the resource of a kind, if the API server serves it. groups are the groups that the API server
// serves.
func (c *Client) servedIn(ctx context.Context, groups []metav1.APIGroup, of schema.GroupKind) (found apiclient.Resource, served bool, err error) {
	at := slices.IndexFunc(groups, func(g metav1.APIGroup) bool { return g.Name == of.Group })
	if at < 0 {
		return found, false, nil
	}
	found, err = c.servedAs(ctx, groups[at], of.Kind)
	if apiclient.IsUnservedKind(err) {
		return found, false, nil
	}
	return found, err == nil, err
}

// userScripts returns the current scripts of users.
func (c *Client) userScripts(ctx context.Context) (script.ConfigMap, error) {
	name := c.opts.ScriptConfigMap
	if name.Name == "" {
		return script.ConfigMap{}, nil
	}
	cm, err := apiclient.WithDeadline(ctx, func(ctx context.Context) (*corev1.ConfigMap, error) {
		return nilIfNotFound(c.core.ConfigMaps(name.Namespace).Get(ctx, name.Name, metav1.GetOptions{}))
	})
	if err != nil || cm == nil {
		return script.ConfigMap{}, err
	}
	return script.ConfigMap{Name: name.String(), Data: cm.Data, Override: cm.Annotations[api.AnnotationOverride] == "true"}, nil
}

// servedAs returns the resource of a kind in the first version of its group that has the kind.
func (c *Client) servedAs(ctx context.Context, group metav1.APIGroup, name string) (found apiclient.Resource, err error) {
	for _, version := range append([]metav1.GroupVersionForDiscovery{group.PreferredVersion}, group.Versions...) {
		found, err = apiclient.WithDeadline(ctx, func(ctx context.Context) (apiclient.Resource, error) {
			return c.kinds.ResourceFor(ctx, apiclient.Kind{APIVersion: version.GroupVersion, Name: name})
		})
		if err == nil {
			return found, nil
		}
	}
	return found, err
}

// restoreAutoscalers restores the autoscalers that a release disabled for a workload that is now released. If the
// executor may no longer list autoscalers, it releases the workload without them. Otherwise the next change of the
// workload would be held for ever.
func (c *Client) restoreAutoscalers(ctx context.Context, of orphan) error {
	ref := rollout.Ref{APIVersion: of.APIVersion, Kind: of.Kind, Name: of.Name}
	for _, versions := range autoscalerKinds() {
		all, err := c.listAutoscalers(ctx, of.Namespace, versions)
		if apiclient.IsForbidden(err) {
			c.log.Warn("autoscalers may not be listed; an autoscaler that a release disabled stays disabled until its scaleTargetRef names the workload again",
				"namespace", of.Namespace, "kind", of.Kind, "workload", of.Name, "error", err)
			continue
		}
		if err != nil {
			return err
		}
		for _, one := range all {
			if seen, is := workload.ObserveAutoscaler(one.live, ref); !is || !seen.Disabled && !seen.Marked {
				continue
			}
			_, err := c.patchAutoscaler(ctx, one, of.Namespace, workload.RestoreAutoscaler(one.live))
			if err != nil && !apiclient.IsNotFound(err) {
				return fmt.Errorf("give %s %s its %s back: %w", one.live.GetKind(), one.live.GetName(), of.Kind, err)
			}
		}
	}
	return nil
}
