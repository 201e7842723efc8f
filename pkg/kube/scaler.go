package kube

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/kube/apiclient"
	"sluice.dev/sluice/pkg/rollout"
	"sluice.dev/sluice/pkg/workload"
)

// autoscalerKinds returns the kinds of autoscalers, each in the versions to try. The client uses the first served
// version.
func autoscalerKinds() [][]schema.GroupVersionResource {
	return [][]schema.GroupVersionResource{
		{
			{Group: "autoscaling", Version: "v2", Resource: "horizontalpodautoscalers"},
			{Group: "autoscaling", Version: "v1", Resource: "horizontalpodautoscalers"},
		},
		{{Group: "keda.sh", Version: "v1alpha1", Resource: "scaledobjects"}},
	}
}

// autoscaler is an autoscaler of the workload.
type autoscaler struct {
	live     *unstructured.Unstructured
	resource schema.GroupVersionResource
}

// autoscalersTTL is how long the client uses a list of autoscalers in the middle of a release. It does not watch
// autoscalers, so it sees a new one at the next list. It lists them when a release begins or ends, and after a change
// of its own.
const autoscalersTTL = 10 * time.Second

// autoscalerListKey names the list of one kind in one namespace.
type autoscalerListKey struct {
	namespace string
	kind      schema.GroupResource
}

// disablesAutoscalers reports whether a release disables the autoscalers of the workload, because the workload then
// does not have the pods that its owner wants. Other releases do not read autoscalers.
func (s *Snapshot) disablesAutoscalers() bool {
	return s.spec.Style == rollout.StyleBlueGreen || s.spec.ConstantCapacity || s.deployment != nil && workload.IsScaledDown(s.deployment)
}

// scaledByOthers reports whether another manager has scaled a workload that a release scales down for a canary.
func (s *Snapshot) scaledByOthers() bool {
	return s.deployment != nil && workload.ScaledByOthers(s.deployment)
}

// ownerDeployment returns the Deployment as its owner wants it. An autoscaler that a user has enabled again sets the
// number of replicas by the remaining pods alone. ownerDeployment then keeps the number that the owner wanted before,
// and meddled is true.
func (s *Snapshot) ownerDeployment() (d *appsv1.Deployment, meddled bool) {
	if !s.scaledByOthers() || !slices.ContainsFunc(s.observeAutoscalers(), func(one rollout.Autoscaler) bool { return !one.Disabled }) {
		return s.deployment, false
	}
	return workload.AcceptReplicas(s.deployment), true
}

// readAutoscalers reads the autoscalers of the workload.
func (o *observation) readAutoscalers(ctx context.Context) {
	if !o.snapshot.disablesAutoscalers() {
		return
	}
	o.snapshot.autoscalers = nil
	for _, versions := range autoscalerKinds() {
		o.reads.Go(func() error {
			list, err := o.autoscalersOfKind(ctx, versions)
			if apiclient.IsForbidden(err) { // an executor that may not list them may not patch them either; the release goes on, because none may exist
				p := apiclient.ForbiddenProblem(o.accessTo("list", versions[0].Group, versions[0].Resource, ""), err)
				p.Warning, p.Unknown = true, false
				o.addProblem(p)
				return nil
			}
			if err != nil {
				return err
			}
			o.addAutoscalers(list)
			return nil
		})
	}
}

// autoscalersOfKind returns all autoscalers of one kind, from an earlier list if that is enough.
func (o *observation) autoscalersOfKind(ctx context.Context, versions []schema.GroupVersionResource) ([]autoscaler, error) {
	key := autoscalerListKey{o.namespace, versions[0].GroupResource()}
	if o.source != fromServer && !o.snapshot.scaledByOthers() {
		known, _ := o.client.autoscalers.Get(key)
		if list, is := known.([]autoscaler); is && cachedListSuffices(list, o.snapshot.releaseState(), o.snapshot.spec.Workload) {
			return list, nil
		}
	}
	if o.source == fromMemory {
		return nil, errNotCached
	}
	list, err := o.client.listAutoscalers(ctx, o.namespace, versions)
	if err == nil {
		o.client.autoscalers.Add(key, list, autoscalersTTL)
	}
	return list, err
}

// cachedListSuffices reports whether an earlier list is enough in a state. At the end of a release the list may have an
// autoscaler as it was before another executor disabled it. Then no executor would restore it.
func cachedListSuffices(list []autoscaler, state rollout.State, of rollout.Ref) bool {
	if !state.Releasing() || state == rollout.StateInitializing {
		return false
	}
	return state.InStep() || !slices.ContainsFunc(list, func(one autoscaler) bool {
		seen, is := workload.ObserveAutoscaler(one.live, of)
		return is && !seen.Disabled
	})
}

// listAutoscalers lists one kind in the first served version.
func (c *Client) listAutoscalers(ctx context.Context, namespace string, versions []schema.GroupVersionResource) (all []autoscaler, err error) {
	for _, resource := range versions {
		c.readCounts.live.Add(1)
		// The cache of the API server is enough: the API server refuses a patch if the name belongs to another object
		// now.
		list, err := apiclient.WithDeadline(ctx, func(ctx context.Context) (*unstructured.UnstructuredList, error) {
			return c.objects.Resource(resource).Namespace(namespace).List(ctx, metav1.ListOptions{ResourceVersion: "0"})
		})
		if apierrors.IsNotFound(err) { // the kind is not served
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("list %s: %w", resource.GroupResource(), err)
		}
		for i := range list.Items {
			all = append(all, autoscaler{&list.Items[i], resource})
		}
		return all, nil
	}
	return nil, nil
}

// addAutoscalers keeps the autoscalers of the workload.
func (o *observation) addAutoscalers(all []autoscaler) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, one := range all {
		if _, ok := workload.ObserveAutoscaler(one.live, o.snapshot.spec.Workload); ok {
			o.snapshot.autoscalers = append(o.snapshot.autoscalers, one)
		}
	}
}

// observeAutoscalers returns the autoscalers for the core, in an order that does not depend on the order of the reads.
func (s *Snapshot) observeAutoscalers() (seen []rollout.Autoscaler) {
	for _, o := range s.autoscalers {
		if one, ok := workload.ObserveAutoscaler(o.live, s.spec.Workload); ok {
			seen = append(seen, one)
		}
	}
	slices.SortFunc(seen, func(a, b rollout.Autoscaler) int {
		return cmp.Or(cmp.Compare(a.Object.Kind, b.Object.Kind), cmp.Compare(a.Object.Name, b.Object.Name))
	})
	return seen
}

// changeAutoscaler disables an autoscaler of the workload, or restores it.
func (c *Client) changeAutoscaler(ctx context.Context, s *Snapshot, action rollout.Action, of rollout.Ref, change func(*unstructured.Unstructured) workload.Patch) error {
	i := slices.IndexFunc(s.autoscalers, func(o autoscaler) bool {
		return o.live.GetAPIVersion() == of.APIVersion && o.live.GetKind() == of.Kind && o.live.GetName() == of.Name
	})
	if i < 0 {
		return apiclient.StaleAction(action)
	}
	o := s.autoscalers[i]
	patched, err := c.patchAutoscaler(ctx, o, s.rollout.Namespace, change(o.live))
	if err != nil {
		return apiclient.ActionError(action, s.accessTo("patch", o.resource.Group, o.resource.Resource, of.Name), err)
	}
	s.autoscalers[i].live = patched
	return nil
}

func (c *Client) patchAutoscaler(ctx context.Context, o autoscaler, namespace string, patch workload.Patch) (*unstructured.Unstructured, error) {
	body, err := json.Marshal(patch)
	if err != nil {
		return nil, err
	}
	defer c.autoscalers.Remove(autoscalerListKey{namespace, o.resource.GroupResource()}) // regardless of the result
	return apiclient.WithDeadline(ctx, func(ctx context.Context) (*unstructured.Unstructured, error) {
		return c.objects.Resource(o.resource).Namespace(namespace).
			Patch(ctx, o.live.GetName(), types.MergePatchType, body, metav1.PatchOptions{FieldManager: api.FieldManager})
	})
}
