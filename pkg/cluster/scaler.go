package cluster

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"

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

// takesScalers reports whether the autoscalers of the workload are taken off in a release: then the workload does not have the pods that its
// owner wants. Nobody else pays for it.
func (s *Snapshot) takesScalers() bool {
	return s.spec.Style == rollout.StyleBlueGreen || s.spec.Constant || s.deployment != nil && workload.Shrunk(s.deployment)
}

// readScalers reads the autoscalers of the workload.
func (o *observation) readScalers(ctx context.Context) {
	if !o.snapshot.takesScalers() {
		return
	}
	o.snapshot.scalers = nil
	for _, versions := range scalerKinds() {
		o.reads.Go(func() error {
			if o.source == fromMemory {
				return errUnknown
			}
			return o.listScalers(ctx, versions)
		})
	}
}

// listScalers lists one kind in the first version that is served. What may not be listed may not be patched either; that is shown
// during a release, which goes on: there may be none.
func (o *observation) listScalers(ctx context.Context, versions []schema.GroupVersionResource) error {
	for _, resource := range versions {
		o.client.reads.live.Add(1)
		// The API server's memory is good enough: a patch is refused if it has become another object.
		list, err := within(ctx, func(ctx context.Context) (*unstructured.UnstructuredList, error) {
			return o.client.objects.Resource(resource).Namespace(o.namespace).List(ctx, metav1.ListOptions{ResourceVersion: "0"})
		})
		switch {
		case isUnserved(err) || isNotFound(err):
			continue
		case IsForbidden(err):
			p := forbidden(o.target("list", resource.Group, resource.Resource, ""), err)
			p.Advisory, p.Blind = true, false
			o.problem(p)
			return nil
		case err != nil:
			return fmt.Errorf("list %s: %w", resource.GroupResource(), err)
		}
		o.mu.Lock()
		defer o.mu.Unlock()
		for i := range list.Items {
			if _, ok := workload.SeeScaler(&list.Items[i], o.snapshot.spec.Workload.Name); ok {
				o.snapshot.scalers = append(o.snapshot.scalers, scaler{&list.Items[i], resource})
			}
		}
		return nil
	}
	return nil
}

// seeScalers are the autoscalers as the core sees them, in an order that does not depend on which kind was listed first.
func (s *Snapshot) seeScalers() (seen []rollout.Scaler) {
	for _, o := range s.scalers {
		if one, ok := workload.SeeScaler(o.live, s.spec.Workload.Name); ok {
			seen = append(seen, one)
		}
	}
	slices.SortFunc(seen, func(a, b rollout.Scaler) int {
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
	body, err := json.Marshal(change(o.live))
	if err != nil {
		return fmt.Errorf("%s: %w", action, err)
	}
	patched, err := within(ctx, func(ctx context.Context) (*unstructured.Unstructured, error) {
		return c.objects.Resource(o.resource).Namespace(s.rollout.Namespace).
			Patch(ctx, of.Name, types.MergePatchType, body, metav1.PatchOptions{FieldManager: api.FieldManager})
	})
	if err != nil {
		return c.onAction(action, s.on("patch", o.resource.Group, o.resource.Resource, of.Name), err)
	}
	s.scalers[i].live = patched
	return nil
}
