package kube

import (
	"context"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
)

// readRival finds out whether another Rollout governs the workload, which is nil if it does not exist: the Rollout that
// has adopted it, or the first one that names it.
func (o *observation) readRival(ctx context.Context, of metav1.Object) {
	adopter := ""
	if of != nil {
		adopter = of.GetAnnotations()[api.AnnotationRollout]
	}
	switch adopter {
	case o.snapshot.rollout.Name:
	case "":
		o.startRead(ctx, o.accessTo("list", api.Group, "rollouts", ""), o.findRival)
	default:
		o.startRead(ctx, o.accessTo("get", api.Group, "rollouts", adopter), func(ctx context.Context) error { return o.readOtherRollout(ctx, adopter) })
	}
}

// readOtherRollout finds out whether another Rollout whose name is on the workload still governs it. While that one is
// being deleted, it may have a release to end until its finalizer is gone. If it does not govern the workload, a third
// Rollout may.
func (o *observation) readOtherRollout(ctx context.Context, name string) error {
	r, err := nilIfNotFound(o.client.getRollout(ctx, o.keyOf(name)))
	switch {
	case err != nil:
		return err
	case r != nil && rollout.WorkloadKey(r) == rollout.WorkloadKey(o.snapshot.rollout) && (r.DeletionTimestamp == nil || slices.Contains(r.Finalizers, api.FinalizerRollout)):
		o.snapshot.otherRollout = name
		return nil
	}
	return o.findRival(ctx)
}

// findRival finds out whether another Rollout governs a workload that no Rollout has adopted. The watch may still show a
// Rollout whose deletion has just woken this one, so the API server confirms the rival.
func (o *observation) findRival(ctx context.Context) error {
	s := o.snapshot
	all, known := o.client.informers.rollouts.ByKey(rollout.WorkloadKey(s.rollout))
	if !known {
		list, err := o.client.listRollouts(ctx, o.namespace)
		if err != nil {
			return err
		}
		all = list
	}
	for rival := rollout.RivalOf(s.rollout, all); rival != nil; rival = rollout.RivalOf(s.rollout, all) {
		live, err := nilIfNotFound(o.client.getRollout(ctx, types.NamespacedName{Namespace: rival.Namespace, Name: rival.Name}))
		if err != nil {
			return err
		}
		if live != nil && live.UID == rival.UID {
			s.rival = rival.Name
			return nil
		}
		all = slices.DeleteFunc(slices.Clone(all), func(r *api.Rollout) bool { return r.UID == rival.UID })
	}
	return nil
}
