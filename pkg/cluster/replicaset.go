package cluster

import (
	"context"
	"encoding/json"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
	"sluice.dev/sluice/pkg/workload"
)

// setWith is the ReplicaSet of the workload whose pods bear that hash, and its place among the sets; nil when there is none.
func (s *Snapshot) setWith(hash string) (int, *appsv1.ReplicaSet) {
	for i, set := range s.sets {
		if set.Labels[api.LabelPodTemplateHash] == hash && s.deployment != nil && metav1.IsControlledBy(set, s.deployment) {
			return i, set
		}
	}
	return 0, nil
}

// newSet is the ReplicaSet of the workload that has its template, nil when there is none.
func (s *Snapshot) newSet() *appsv1.ReplicaSet {
	if s.deployment == nil {
		return nil
	}
	revision := workload.Revision(s.deployment.Spec.Template)
	for _, set := range s.sets {
		if metav1.IsControlledBy(set, s.deployment) && workload.Revision(set.Spec.Template) == revision {
			return set
		}
	}
	return nil
}

// patchSet changes one revision of the workload.
func (c *Client) patchSet(ctx context.Context, s *Snapshot, a rollout.Action, hash string, change func(*appsv1.ReplicaSet) workload.Patch) error {
	i, set := s.setWith(hash)
	if set == nil {
		return stale(a)
	}
	body, err := json.Marshal(change(set))
	if err != nil {
		return fmt.Errorf("%s: %w", a, err)
	}
	scaled, err := within(ctx, func(ctx context.Context) (*appsv1.ReplicaSet, error) {
		return c.apps.ReplicaSets(s.rollout.Namespace).Patch(ctx, set.Name, types.MergePatchType, body, metav1.PatchOptions{FieldManager: api.FieldManager})
	})
	if err != nil {
		return c.onAction(a, s.on("patch", "apps", "replicasets", set.Name), err)
	}
	c.mirrors.sets.saw(scaled)
	s.sets[i] = scaled
	return nil
}
