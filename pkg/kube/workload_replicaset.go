package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/kube/apiclient"
	"sluice.dev/sluice/pkg/rollout"
	"sluice.dev/sluice/pkg/workload"
)

// replicaSetWith returns the ReplicaSet of the workload whose pods bear that hash, and its index; nil if it does not
// exist.
func (s *Snapshot) replicaSetWith(hash string) (int, *appsv1.ReplicaSet) {
	for i, set := range s.replicaSets {
		if set.Labels[api.LabelPodTemplateHash] == hash && s.deployment != nil && metav1.IsControlledBy(set, s.deployment) {
			return i, set
		}
	}
	return 0, nil
}

// newReplicaSet returns the ReplicaSet with the workload's template, nil if it does not exist.
func (s *Snapshot) newReplicaSet() *appsv1.ReplicaSet { return s.newReplicaSetAmong(s.replicaSets) }

func (s *Snapshot) newReplicaSetAmong(sets []*appsv1.ReplicaSet) *appsv1.ReplicaSet {
	if s.deployment == nil {
		return nil
	}
	revision := workload.TemplateRevision(s.deployment.Spec.Template)
	for _, set := range sets {
		if metav1.IsControlledBy(set, s.deployment) && workload.TemplateRevision(set.Spec.Template) == revision {
			return set
		}
	}
	return nil
}

// replicaSetOwners returns the keys of the Deployments that own the ReplicaSets of a release.
func (s *Snapshot) replicaSetOwners() []string {
	name := s.rollout.Namespace + "/" + s.spec.Workload.Name
	return []string{name, name + api.SuffixCanary}
}

// confirmReplicaSets reads the ReplicaSets that the watch has shown, one by one. It reports whether they are all
// ReplicaSets and unchanged. The API server answers a list only once its own cache has caught up with its store, which
// takes up to 100 ms. Idle ReplicaSets are not read again.
func (o *observation) confirmReplicaSets(ctx context.Context) (confirmed bool, err error) {
	s, c := o.snapshot, o.client
	var shown []*appsv1.ReplicaSet
	for _, owner := range s.replicaSetOwners() {
		some, known := c.informers.replicaSets.ByKey(owner)
		if !known {
			return false, nil
		}
		shown = append(shown, some...)
	}
	if !s.hasAllReplicaSets(shown) {
		return false, nil
	}
	live := slices.Clone(shown)
	reads, bounded := errgroup.WithContext(ctx)
	for i, set := range shown {
		if s.isIdleReplicaSet(set) {
			continue
		}
		reads.Go(func() (err error) {
			c.readCounts.live.Add(1)
			live[i], err = nilIfNotFound(c.apps.ReplicaSets(o.namespace).Get(bounded, set.Name, metav1.GetOptions{}))
			return err
		})
	}
	if err := reads.Wait(); apiclient.IsForbidden(err) { // the role is from a version that did not read them by name
		return false, nil
	} else if err != nil {
		return false, err
	}
	if live = slices.DeleteFunc(live, func(set *appsv1.ReplicaSet) bool { return set == nil }); fingerprintsOf(live) != fingerprintsOf(shown) {
		return false, nil
	}
	s.replicaSets, s.replicaSetsVersion = live, ""
	o.markLive(partReplicaSets)()
	return true, nil
}

// hasAllReplicaSets reports whether the ReplicaSets that a watch has shown are all ReplicaSets of the workload, if they
// have not changed. The controller creates a ReplicaSet only for the live template, and a watch shows changes in their
// order. When the controller has seen the template, it has created the ReplicaSet of that template, or has given it the
// newest revision. So if the watch has shown that ReplicaSet, no older one is missing.
//
// It returns false if the template changed within the release. The controller may then have created a ReplicaSet of the
// older template since, and not know of it yet.
func (s *Snapshot) hasAllReplicaSets(shown []*appsv1.ReplicaSet) bool {
	d := s.deployment
	switch {
	case d == nil || !s.liveParts[partWorkload] || d.Status.ObservedGeneration < d.Generation:
		return false
	case !s.releaseState().InStep() || workload.TemplateRevision(d.Spec.Template) != sluiceStatusOf(s.rollout).CanaryRevision:
		return false
	}
	return s.newReplicaSetAmong(shown) != nil && slices.ContainsFunc(shown, hasPods)
}

// isIdleReplicaSet reports whether a ReplicaSet without pods gets no pods during a step: it is neither of the new
// version nor of the stable one. While the workload has pods, its controller does not scale up such a ReplicaSet
// either.
func (s *Snapshot) isIdleReplicaSet(set *appsv1.ReplicaSet) bool {
	hash := set.Labels[api.LabelPodTemplateHash]
	return !hasPods(set) && hash != sluiceStatusOf(s.rollout).StableRevision && workload.TemplateRevision(set.Spec.Template) != sluiceStatusOf(s.rollout).CanaryRevision
}

func hasPods(set *appsv1.ReplicaSet) bool {
	return ptr.Deref(set.Spec.Replicas, 1) > 0 || set.Status.Replicas > 0
}

// patchReplicaSet patches one revision of the workload.
func (c *Client) patchReplicaSet(ctx context.Context, s *Snapshot, a rollout.Action, hash string, change func(*appsv1.ReplicaSet) workload.Patch) error {
	i, set := s.replicaSetWith(hash)
	if set == nil {
		return apiclient.StaleAction(a)
	}
	body, err := json.Marshal(change(set))
	if err != nil {
		return fmt.Errorf("%s: %w", a, err)
	}
	scaled, err := apiclient.WithDeadline(ctx, func(ctx context.Context) (*appsv1.ReplicaSet, error) {
		return c.apps.ReplicaSets(s.rollout.Namespace).Patch(ctx, set.Name, types.MergePatchType, body, metav1.PatchOptions{FieldManager: api.FieldManager})
	})
	if err != nil {
		return apiclient.ActionError(a, s.accessTo("patch", "apps", "replicasets", set.Name), err)
	}
	c.informers.replicaSets.StoreAnswer(scaled)
	s.replicaSets[i] = scaled
	return nil
}

// deleteReplicaSet deletes one revision of the workload. Its spec must still ask for no pods; the last pods may still
// be terminating.
func (c *Client) deleteReplicaSet(ctx context.Context, s *Snapshot, a rollout.DeleteRevision) error {
	i, set := s.replicaSetWith(a.Hash)
	if set == nil || set.Spec.Replicas == nil || *set.Spec.Replicas != 0 {
		return apiclient.StaleAction(a)
	}
	_, err := apiclient.WithDeadline(ctx, func(ctx context.Context) (any, error) {
		return nil, c.apps.ReplicaSets(s.rollout.Namespace).Delete(ctx, set.Name, exactDeleteOptions(set, metav1.DeletePropagationBackground))
	})
	if err != nil && !apiclient.IsNotFound(err) {
		return apiclient.ActionError(a, s.accessTo("delete", "apps", "replicasets", set.Name), err)
	}
	if left := afterDeletion(c.informers.replicaSets, set, false); left != nil {
		s.replicaSets[i] = left
		return nil
	}
	s.replicaSets = slices.Delete(slices.Clone(s.replicaSets), i, i+1)
	return nil
}
