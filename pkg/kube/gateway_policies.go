package kube

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/kube/apiclient"
	"sluice.dev/sluice/pkg/script"
	"sluice.dev/sluice/pkg/traffic"
)

// This file reads policies that are attached to a stable Service by its name. A release copies them for the canary Service.

// policyKindsTTL is how long the client relies on its list of the served kinds of policies.
const policyKindsTTL = time.Minute

// policyResources are the resources of policies that the API server served at the last request.
type policyResources struct {
	asking singleflight.Group
	known  atomic.Pointer[policyAnswer]
}

type policyAnswer struct {
	at     time.Time
	served []policyResource
}

// policyResource is a served kind of policies and its resource.
type policyResource struct {
	apiclient.Kind
	apiclient.Resource
	// copied is true if a release copies the policies of that kind.
	copied bool
}

// policyResources returns the resources of the kinds of policies that the API server serves. The client asks once a minute at most, and only once while no
// release is under way or due.
func (o *observation) policyResources(ctx context.Context) ([]policyResource, error) {
	fresh := policyKindsTTL
	if !o.snapshot.releasingOrHeld(o.snapshot.workloadMeta()) {
		fresh = math.MaxInt64
	}
	return o.client.policyResources(ctx, fresh, o.source == fromMemory)
}

// policyResources returns the resources that the client knows, if they are no older than fresh. Otherwise it asks, but
// never from memory.
func (c *Client) policyResources(ctx context.Context, fresh time.Duration, memory bool) ([]policyResource, error) {
	switch known := c.policyKinds.known.Load(); {
	case known != nil && time.Since(known.at) < fresh:
		return known.served, nil
	case memory:
		return nil, errNotCached
	}
	served, err, _ := c.policyKinds.asking.Do("", func() (any, error) {
		served, err := c.servedPolicies(ctx)
		if err == nil {
			c.policyKinds.known.Store(&policyAnswer{time.Now(), served})
		}
		return served, err
	})
	if err != nil {
		return nil, err
	}
	return served.([]policyResource), nil
}

// servedPolicies asks the API server which kinds of policies it serves.
func (c *Client) servedPolicies(ctx context.Context) (all []policyResource, err error) {
	groups, err := apiclient.WithDeadline(ctx, func(ctx context.Context) (groups metav1.APIGroupList, err error) { // no policy is in the core group
		err = c.discovery.RESTClient().Get().AbsPath("/apis").Do(ctx).Into(&groups)
		return groups, err
	})
	if err != nil {
		return nil, fmt.Errorf("ask for the groups of policies: %w", err)
	}
	copied := traffic.PolicyKinds()
	for i, of := range slices.Concat(copied, traffic.UncopiedKinds()) {
		found, is, err := c.servedIn(ctx, groups.Groups, of)
		if err != nil && i < len(copied) { // kinds that a release does not copy only cause warnings
			return nil, err
		}
		if is && found.Namespaced {
			all = append(all, policyResource{apiclient.Kind{APIVersion: found.GroupVersion().String(), Name: of.Kind}, found, i < len(copied)})
		}
	}
	return all, nil
}

// assignPolicyCopies chooses, for each Service with a canary Service of its own, the first gateway object of a namespace that leads to it. That object owns the copies of
// the Service's policies.
func (s *Snapshot) assignPolicyCopies() {
	taken := map[string]bool{}
	for _, g := range s.gateways {
		g.carries = nil
		if g.referenced || g.renderScript == nil || g.access.Namespace == "" {
			continue
		}
		for _, routing := range s.spec.Routing {
			if routing.SeparateService() && !taken[routing.Service] && slices.Contains(routing.Objects, g.ref) {
				taken[routing.Service] = true
				g.carries = append(g.carries, routing)
			}
		}
	}
}

// readPolicies reads the policies that are attached to the Services of a release, and their copies. While no release is under way, it finds copies that the API server
// created after the end of a release.
func (o *observation) readPolicies(ctx context.Context) error {
	if !o.wanted[partPolicies] {
		return nil
	}
	o.snapshot.assignPolicyCopies()
	if !slices.ContainsFunc(o.snapshot.gateways, func(g *gateway) bool { return len(g.carries) > 0 }) {
		return nil
	}
	served, err := o.policyResources(ctx)
	if err != nil {
		return err
	}
	for _, g := range o.snapshot.gateways {
		g.policies, g.policiesLive = nil, true
		g.namespaceObjects = slices.DeleteFunc(slices.Clone(g.namespaceObjects), g.isWrittenCopy) // the API server lists the copies that still exist
	}
	for _, of := range served {
		if !of.copied {
			continue
		}
		all, live, err := o.listObjects(ctx, of.GroupVersionResource, o.namespace)
		if api.Unserved(err) { // the CustomResourceDefinition was deleted in the meantime
			o.client.kinds.InvalidateKind(of.Kind)
			o.client.policyKinds.known.Store(nil)
			continue
		}
		for _, g := range o.snapshot.gateways {
			switch {
			case len(g.carries) == 0:
			case err != nil: // the executor sees the gateway object, and can restore it without the policies
				on := apiclient.Access{Verb: "list", Namespace: o.namespace, Route: g.ref, Child: true}
				if err := o.reportUnreadable(of.GroupVersionResource, on, false, err); err != nil {
					return err
				}
			default:
				g.childResources[of.Kind] = of.GroupVersionResource
				g.policies, g.policiesLive = append(g.policies, g.attachedPolicies(all)...), g.policiesLive && live
			}
		}
		o.snapshot.addListDependency(watchedKind{GroupVersionResource: of.GroupVersionResource}, o.namespace, all)
	}
	return nil
}

// isWrittenCopy reports whether an object is a copy of a policy that this process wrote after it had listed the policies.
func (g *gateway) isWrittenCopy(o *unstructured.Unstructured) bool {
	of := script.GroupVersionKind{APIVersion: o.GetAPIVersion(), Kind: o.GetKind()}
	return traffic.IsPolicyKind(o.GroupVersionKind().GroupKind()) && !slices.Contains(g.childKinds, of)
}

// attachedPolicies returns the policies that are attached to a Service in g.carries, or to the canary Service of one.
func (g *gateway) attachedPolicies(policies []*unstructured.Unstructured) (found []*unstructured.Unstructured) {
	services := map[string]bool{}
	for _, routing := range g.carries {
		services[routing.Service], services[routing.CanaryService] = true, true
	}
	for _, p := range policies {
		if slices.ContainsFunc(traffic.PolicyTargets(p), func(service string) bool { return services[service] }) {
			found = append(found, p)
		}
	}
	return found
}
