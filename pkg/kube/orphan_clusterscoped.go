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

// This file is about the entries that a Rollout or a TrafficRouting, removed by force, has left on cluster-scoped gateway objects. While its own
// namespace exists, a user can create it again, and it restores all of them in order. When the namespace is gone as well, no user can create it, and
// its backends are gone: then the executor removes the entries.

// CleanUpOrphanedRoutes removes the entries of a deleted Rollout, or of an object of the given kind, from the cluster-scoped gateway objects that
// list it, if neither it nor its namespace exists any more. It returns the number of changed objects. An Event on the object reports a problem that
// a person must fix first.
func (c *Client) CleanUpOrphanedRoutes(ctx context.Context, kind string, gone types.NamespacedName) (taken int, err error) {
	s := &RoutingSnapshot{routing: &api.TrafficRouting{ObjectMeta: metav1.ObjectMeta{Namespace: gone.Namespace, Name: gone.Name}}}
	if s.formerRoutes, err = c.listOrphanedRoutes(ctx, kind, gone); err != nil || len(s.formerRoutes) == 0 {
		return 0, err
	}
	if err := c.readRoutedObjects(ctx, s); err != nil {
		return 0, fmt.Errorf("look at what lists %s: %w", gone, err)
	}
	// An object that has been created again inherits the entry. If it comes later and writes, this write meets a conflict.
	if back, err := c.isRecreated(ctx, kind, gone); back || err != nil {
		return 0, err
	}
	for _, p := range s.problems {
		if p.Reason != rollout.ReasonRouteNotAllowed { // other releases on the object could not be rendered
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

// NamespaceActive reports whether something that is gone may be created again in a namespace.
func (c *Client) NamespaceActive(ctx context.Context, name string) (bool, error) {
	ns, err := apiclient.WithDeadline(ctx, func(ctx context.Context) (*corev1.Namespace, error) {
		return nilIfNotFound(c.core.Namespaces().Get(ctx, name, metav1.GetOptions{}))
	})
	if err != nil {
		return false, fmt.Errorf("get namespace %s: %w", name, err)
	}
	return ns != nil && ns.DeletionTimestamp == nil, nil
}

// isRecreated reports whether the deleted object, or its namespace, exists after all.
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
					break // it removes the entries of the same name as well
				}
			}
		}
	}
	return all, nil
}

// clusterScopedTTL is how long the client remembers the cluster-scoped kinds that releases can route through: namespaces are deleted far more often
// than such kinds are installed. The next resync finds an object of a kind that was missed.
const clusterScopedTTL = 30 * time.Second

// clusterScopedKinds are the cluster-scoped ones of [Client.gatewayKinds].
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

// recordOrphanEvent says by an Event on a gateway object what becomes of it.
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
	c.writeEvent(eventOn(on, 0, true, reasonOrphaned, fmt.Sprintf("%s %s was removed by force while it routed by %s, and its namespace is gone. %s.", kind, gone, g.ref, what), time.Now()))
}
