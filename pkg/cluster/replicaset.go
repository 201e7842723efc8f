package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

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

// deleteSet deletes one revision of the workload, which must still be told to have no pods: the last of them may be on their way out.
func (c *Client) deleteSet(ctx context.Context, s *Snapshot, a rollout.DeleteSet) error {
	i, set := s.setWith(a.Hash)
	if set == nil || set.Spec.Replicas == nil || *set.Spec.Replicas != 0 {
		return stale(a)
	}
	_, err := within(ctx, func(ctx context.Context) (any, error) {
		return nil, c.apps.ReplicaSets(s.rollout.Namespace).Delete(ctx, set.Name, exactly(set, metav1.DeletePropagationBackground))
	})
	if err != nil && !isNotFound(err) {
		return c.onAction(a, s.on("delete", "apps", "replicasets", set.Name), err)
	}
	if left := leave(c.mirrors.sets, set, false); left != nil {
		s.sets[i] = left
		return nil
	}
	s.sets = slices.Delete(slices.Clone(s.sets), i, i+1)
	return nil
}
