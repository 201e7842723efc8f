package kube

import (
	"context"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"sluice.dev/sluice/pkg/kube/apiclient"
	"sluice.dev/sluice/pkg/rollout"
	"sluice.dev/sluice/pkg/traffic"
)

// This file finds policies that cover the stable version but not the canary, and that a release does not copy.

// uncopiedTTL is how long the client keeps a list of such policies.
const uncopiedTTL = time.Minute

// policiesKey names a list of policies of a namespace.
type policiesKey struct {
	schema.GroupVersionResource
	namespace string
}

// readUncovered finds the policies of the namespace that cover only the stable version. It reads nothing while no release is under way or due.
func (o *observation) readUncovered(ctx context.Context) error {
	s := o.snapshot
	if o.wanted != allParts() {
		return nil
	}
	s.coverageProblem = nil
	var covered []traffic.Coverage
	for _, b := range s.backends {
		if b.stable != nil && b.routing.SeparateService() {
			covered = append(covered, traffic.CoverageOf(b.stable, b.routing, s.spec, s.templateLabels()))
		}
	}
	if len(covered) == 0 || !s.releasingOrHeld(s.workloadMeta()) {
		return nil
	}
	served, err := o.policyResources(ctx)
	if err != nil {
		return err
	}
	var told []string
	for _, of := range served {
		if of.copied {
			continue
		}
		all, err := o.readPoliciesOf(ctx, of)
		if err != nil {
			return err
		}
		for _, c := range covered {
			told = append(told, traffic.DescribeUncovered(all, c)...)
		}
	}
	if len(told) > 0 {
		slices.Sort(told)
		s.coverageProblem = &rollout.Problem{Reason: rollout.ReasonPolicyOfStable, Message: "Policies cover the stable version and not the canary, whose requests and pods go without them until the release is over: " +
			strings.Join(slices.Compact(told), "; ") + ". Sluice does not copy them; have them cover both"}
	}
	return nil
}

// readPoliciesOf lists the policies of a kind in the namespace, if the client has not listed them lately. If the executor may not list them, or the API server answers
// with an error, it returns none. `sluice check` reports missing rights.
func (o *observation) readPoliciesOf(ctx context.Context, of policyResource) (all []*unstructured.Unstructured, err error) {
	key := policiesKey{of.GroupVersionResource, o.namespace}
	if known, ok := o.client.uncopiedPolicies.Get(key); ok {
		return known.([]*unstructured.Unstructured), nil
	}
	if o.source == fromMemory {
		return nil, errNotCached
	}
	o.client.readCounts.live.Add(1)
	list, err := apiclient.WithDeadline(ctx, func(ctx context.Context) (*unstructured.UnstructuredList, error) {
		return o.client.objects.Resource(of.GroupVersionResource).Namespace(o.namespace).List(ctx, metav1.ListOptions{})
	})
	fresh := uncopiedTTL
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case apiclient.IsNotFound(err): // the CustomResourceDefinition was deleted in the meantime
		o.client.kinds.InvalidateKind(of.Kind)
	case err != nil && !apiclient.IsForbidden(err):
		fresh = needErrorTTL
	case err == nil:
		for i := range list.Items {
			list.Items[i].SetManagedFields(nil)
			all = append(all, &list.Items[i])
		}
	}
	o.client.uncopiedPolicies.Add(key, all, fresh)
	return all, nil
}

// templateLabels returns the labels of the workload's pod template.
func (s *Snapshot) templateLabels() map[string]string {
	if s.deployment != nil {
		return s.deployment.Spec.Template.Labels
	}
	if s.object.isPresent() {
		found, _, _ := unstructured.NestedStringMap(s.object.Live.Object, "spec", "template", "metadata", "labels")
		return found
	}
	return nil
}
