package kube

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/kube/apiclient"
	"sluice.dev/sluice/pkg/rollout"
	"sluice.dev/sluice/pkg/traffic"
)

// This file is about entries on cluster-scoped gateway objects that a forcibly removed Rollout or TrafficRouting has
// left. While the namespace exists, its owner can create the Rollout again, which restores the objects in order. When
// the namespace is deleted as well, the backends are gone and no Rollout can. Then the executor removes the entries.

// CleanUpOrphanedRoutes restores the cluster-scoped gateway objects that list a deleted Rollout, or with a kind a
// deleted object of that kind. It does so only if its namespace no longer exists either. It returns the number of
// restored objects. If a person must first correct something, an Event on the object says so.
func (c *Client) CleanUpOrphanedRoutes(ctx context.Context, kind string, gone types.NamespacedName) (taken int, err error) {
	s := &RoutingSnapshot{routing: &api.TrafficRouting{ObjectMeta: metav1.ObjectMeta{Namespace: gone.Namespace, Name: gone.Name}}}
	if s.formerRoutes, err = c.listOrphanedRoutes(ctx, kind, gone); err != nil || len(s.formerRoutes) == 0 {
		return 0, err
	}
	if err := c.readRoutedObjects(ctx, s); err != nil {
		return 0, fmt.Errorf("look at what lists %s: %w", gone, err)
	}
	// A Rollout that exists again takes over the entry. If it is created later and writes, this write meets a conflict.
	if back, err := c.isRecreated(ctx, kind, gone); back || err != nil {
		return 0, err
	}
	for _, p := range s.problems {
		if p.Reason != rollout.ReasonRouteNotAllowed { // the executor could not render the other releases on the object
			c.recordOrphanEvent(kind, gone, s.formerRoutes[0].gateway, p.Message)
			return 0, nil
		}
	}
	for _, r := range slices.Backward(s.formerRoutes) {
		if !r.observeRoute(r.listedRelease(), nil).Shaped || err != nil && r.referenced {
			continue
		}
		failed := c.restoreRoute(ctx, r.gateway, rollout.RestoreRoute{Object: r.ref, Referenced: r.referenced})
		if problem, ok := apiclient.ProblemOf(failed); ok {
			c.recordOrphanEvent(kind, gone, r.gateway, problem.Message)
			continue
		}
		if err = errors.Join(err, failed); failed == nil {
			taken++
			c.recordOrphanEvent(kind, gone, r.gateway, "The executor has removed its entries, and all traffic goes to the stable versions of the remaining releases")
		}
	}
	return taken, err
}

// NamespaceActive reports whether a deleted object may be created again in a namespace.
func (c *Client) NamespaceActive(ctx context.Context, name string) (bool, error) {
	ns, err := apiclient.WithDeadline(ctx, func(ctx context.Context) (*corev1.Namespace, error) {
		return nilIfNotFound(c.core.Namespaces().Get(ctx, name, metav1.GetOptions{}))
	})
	if err != nil {
		return false, fmt.Errorf("get namespace %s: %w", name, err)
	}
	return ns != nil && ns.DeletionTimestamp == nil, nil
}

// isRecreated reports whether the deleted object exists again, or its namespace still exists.
func (c *Client) isRecreated(ctx context.Context, kind string, gone types.NamespacedName) (bool, error) {
	var err error
	if kind == "" {
		_, err = c.getRollout(ctx, gone)
	} else {
		_, err = c.getTrafficRouting(ctx, gone)
	}
	if err == nil || !apiclient.IsNotFound(err) {
		return true, err
	}
	return c.NamespaceActive(ctx, gone.Namespace)
}

// listOrphanedRoutes finds the cluster-scoped gateway objects that list the deleted object.
func (c *Client) listOrphanedRoutes(ctx context.Context, kind string, gone types.NamespacedName) (all []routedObject, err error) {
	kinds, err := c.clusterScopedKinds(ctx)
	if err != nil {
		return nil, fmt.Errorf("look for what can be routed through: %w", err)
	}
	for _, of := range kinds {
		list, err := apiclient.WithDeadline(ctx, func(ctx context.Context) (*unstructured.UnstructuredList, error) {
			return c.objects.Resource(of.GroupVersionResource).List(ctx, metav1.ListOptions{})
		})
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("list %s: %w", of.GroupResource(), err)
		}
		for i := range list.Items {
			u := &list.Items[i]
			for _, rel := range traffic.ReleasesOn(u) {
				if rel.Kind == kind && rel.Namespace == gone.Namespace && rel.Name == gone.Name {
					ref := rollout.Ref{APIVersion: u.GetAPIVersion(), Kind: u.GetKind(), Name: u.GetName()}
					all = append(all, routedObject{&gateway{ref: ref, renderings: c.renderings}, rel})
					break // the cleanup of one release covers all releases with its name
				}
			}
		}
	}
	return all, nil
}

// clusterScopedTTL is how long the client relies on its list of cluster-scoped kinds that can route. A namespace is
// deleted far more often than such a kind is installed, and the next resync finds an overlooked object.
const clusterScopedTTL = 30 * time.Second

// clusterScopedKinds returns the cluster-scoped kinds of [Client.gatewayKinds].
func (c *Client) clusterScopedKinds(ctx context.Context) ([]apiclient.Resource, error) {
	if known, ok := c.clusterScoped.Get(struct{}{}); ok {
		return known.([]apiclient.Resource), nil
	}
	own, err := c.userScripts(ctx)
	if err != nil {
		return nil, err
	}
	kinds, err := c.gatewayKinds(ctx, own)
	if err != nil {
		return nil, err
	}
	kinds = slices.DeleteFunc(kinds, func(of apiclient.Resource) bool { return of.Namespaced })
	c.clusterScoped.Add(struct{}{}, kinds, clusterScopedTTL)
	return kinds, nil
}

// recordOrphanEvent reports the fate of a gateway object by an Event on it.
func (c *Client) recordOrphanEvent(kind string, gone types.NamespacedName, g *gateway, what string) {
	if kind == "" {
		kind = api.KindRollout
	}
	c.log.Warn("a Rollout that was removed by force is still on a gateway object, and its namespace is gone",
		"kind", kind, "namespace", gone.Namespace, "name", gone.Name, "on", g.ref.String(), "then", what)
	if g.live == nil {
		return
	}
	on := corev1.ObjectReference{APIVersion: g.ref.APIVersion, Kind: g.ref.Kind, Name: g.ref.Name, UID: g.live.GetUID()}
	c.eventWriter.writeNow(eventOn(on, 0, true, reasonOrphaned, fmt.Sprintf("%s %s was removed by force while it routed by %s, and its namespace is gone. %s.", kind, gone, g.ref, what), time.Now()))
}
