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
	"sluice.dev/sluice/pkg/rollout"
	"sluice.dev/sluice/pkg/workload"
)

// scalerKinds are the kinds of autoscalers, each in the versions to try: the first that is served is taken.
func scalerKinds() [][]schema.GroupVersionResource {
	return [][]schema.GroupVersionResource{
		{
			{Group: "autoscaling", Version: "v2", Resource: "horizontalpodautoscalers"},
			{Group: "autoscaling", Version: "v1", Resource: "horizontalpodautoscalers"},
		},
		{{Group: "keda.sh", Version: "v1alpha1", Resource: "scaledobjects"}},
	}
}

// scaler is an autoscaler of the workload.
type scaler struct {
	live     *unstructured.Unstructured
	resource schema.GroupVersionResource
}

// scalersTTL is how long a list of autoscalers is good enough in the middle of a release. Nothing tells of one that comes, so that it is
// seen with the next look that lists them; a release that begins or ends lists them, and what this client changed itself it lists again.
const scalersTTL = 10 * time.Second

// scalerKey names a list: that of one kind in one namespace.
type scalerKey struct {
	namespace string
	kind      schema.GroupResource
}

// takesScalers reports whether the autoscalers of the workload are taken off in a release: then the workload does not have the pods that its
// owner wants. Nobody else pays for it.
func (s *Snapshot) takesScalers() bool {
	return s.spec.Style == rollout.StyleBlueGreen || s.spec.ConstantCapacity || s.deployment != nil && workload.IsScaledDown(s.deployment)
}

// scaled reports whether somebody has scaled a workload that gives way to a canary.
func (s *Snapshot) scaled() bool { return s.deployment != nil && workload.ScaledByOthers(s.deployment) }

// owners is the Deployment as its owner wants it. A number that came while an autoscaler is at work, because somebody has put that back, is the
// autoscaler's: it took the pods that were left for all there are.
func (s *Snapshot) owners() (d *appsv1.Deployment, meddled bool) {
	if !s.scaled() || !slices.ContainsFunc(s.seeScalers(), func(one rollout.Autoscaler) bool { return !one.Disabled }) {
		return s.deployment, false
	}
	return workload.AcceptReplicas(s.deployment), true
}

// readScalers reads the autoscalers of the workload.
func (o *observation) readScalers(ctx context.Context) {
	if !o.snapshot.takesScalers() {
		return
	}
	o.snapshot.scalers = nil
	for _, versions := range scalerKinds() {
		o.reads.Go(func() error {
			list, err := o.scalersOf(ctx, versions)
			if IsForbidden(err) { // what may not be listed may not be patched either; the release goes on, for there may be none
				p := forbidden(o.target("list", versions[0].Group, versions[0].Resource, ""), err)
				p.Warning, p.Unknown = true, false
				o.problem(p)
				return nil
			}
			if err != nil {
				return err
			}
			o.scalersFound(list)
			return nil
		})
	}
}

// scalersOf are all of one kind: as they were listed a while ago where that will do.
func (o *observation) scalersOf(ctx context.Context, versions []schema.GroupVersionResource) ([]scaler, error) {
	key := scalerKey{o.namespace, versions[0].GroupResource()}
	if o.source != fromServer && !o.snapshot.scaled() {
		known, _ := o.client.scalers.Get(key)
		if list, is := known.([]scaler); is && goodEnough(list, o.snapshot.state(), o.snapshot.spec.Workload) {
			return list, nil
		}
	}
	if o.source == fromMemory {
		return nil, errUnknown
	}
	list, err := o.client.listScalers(ctx, o.namespace, versions)
	if err == nil {
		o.client.scalers.Add(key, list, scalersTTL)
	}
	return list, err
}

// goodEnough reports whether a list from a while ago will do in a state. At the end of a release one with an autoscaler at work may be from
// before another executor took it off, and nobody would give it back.
func goodEnough(list []scaler, state rollout.State, of rollout.Ref) bool {
	if !state.Releasing() || state == rollout.StateInitializing {
		return false
	}
	return state.InStep() || !slices.ContainsFunc(list, func(one scaler) bool {
		seen, is := workload.ObserveAutoscaler(one.live, of)
		return is && !seen.Disabled
	})
}

// listScalers lists one kind in the first version that is served.
func (c *Client) listScalers(ctx context.Context, namespace string, versions []schema.GroupVersionResource) (all []scaler, err error) {
	for _, resource := range versions {
		c.reads.live.Add(1)
		// The API server's memory is good enough: a patch is refused if it has become another object.
		list, err := within(ctx, func(ctx context.Context) (*unstructured.UnstructuredList, error) {
			return c.objects.Resource(resource).Namespace(namespace).List(ctx, metav1.ListOptions{ResourceVersion: "0"})
		})
		if apierrors.IsNotFound(err) { // the kind is not served
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("list %s: %w", resource.GroupResource(), err)
		}
		for i := range list.Items {
			all = append(all, scaler{&list.Items[i], resource})
		}
		return all, nil
	}
	return nil, nil
}

// scalersFound keeps those of the workload.
func (o *observation) scalersFound(all []scaler) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, one := range all {
		if _, ok := workload.ObserveAutoscaler(one.live, o.snapshot.spec.Workload); ok {
			o.snapshot.scalers = append(o.snapshot.scalers, one)
		}
	}
}

// seeScalers are the autoscalers as the core sees them, in an order that does not depend on which kind was listed first.
func (s *Snapshot) seeScalers() (seen []rollout.Autoscaler) {
	for _, o := range s.scalers {
		if one, ok := workload.ObserveAutoscaler(o.live, s.spec.Workload); ok {
			seen = append(seen, one)
		}
	}
	slices.SortFunc(seen, func(a, b rollout.Autoscaler) int {
		return cmp.Or(cmp.Compare(a.Object.Kind, b.Object.Kind), cmp.Compare(a.Object.Name, b.Object.Name))
	})
	return seen
}

// changeScaler takes an autoscaler off the workload, or gives it back.
func (c *Client) changeScaler(ctx context.Context, s *Snapshot, action rollout.Action, of rollout.Ref, change func(*unstructured.Unstructured) workload.Patch) error {
	i := slices.IndexFunc(s.scalers, func(o scaler) bool {
		return o.live.GetAPIVersion() == of.APIVersion && o.live.GetKind() == of.Kind && o.live.GetName() == of.Name
	})
	if i < 0 {
		return stale(action)
	}
	o := s.scalers[i]
	patched, err := c.patchScaler(ctx, o, s.rollout.Namespace, change(o.live))
	if err != nil {
		return c.onAction(action, s.on("patch", o.resource.Group, o.resource.Resource, of.Name), err)
	}
	s.scalers[i].live = patched
	return nil
}

func (c *Client) patchScaler(ctx context.Context, o scaler, namespace string, patch workload.Patch) (*unstructured.Unstructured, error) {
	body, err := json.Marshal(patch)
	if err != nil {
		return nil, err
	}
	defer c.scalers.Remove(scalerKey{namespace, o.resource.GroupResource()}) // whatever comes of it
	return within(ctx, func(ctx context.Context) (*unstructured.Unstructured, error) {
		return c.objects.Resource(o.resource).Namespace(namespace).
			Patch(ctx, o.live.GetName(), types.MergePatchType, body, metav1.PatchOptions{FieldManager: api.FieldManager})
	})
}
