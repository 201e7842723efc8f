package kube

import (
	"context"
	"encoding/json"
	"fmt"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/kube/apiclient"
	"sluice.dev/sluice/pkg/rollout"
	"sluice.dev/sluice/pkg/workload"
)

// changeWorkloadObject carries out an action on a workload that is not a Deployment.
func (c *Client) changeWorkloadObject(ctx context.Context, s *Snapshot, action rollout.Action) error {
	if !s.object.isPresent() {
		return apiclient.StaleAction(action)
	}
	if err := c.readIdleDependents(ctx, s); err != nil {
		return fmt.Errorf("%s: %w", action, err)
	}
	var patch workload.Patch
	switch a := action.(type) {
	case rollout.AdoptWorkload:
		patch = s.object.AdoptWorkload(s.rollout.Name, a.StableID)
	case rollout.DisownWorkload:
		patch = s.object.DisownWorkload()
	case rollout.HoldWorkload:
		patch = s.object.HoldWorkload(s.rollout.Name)
	case rollout.ResumeWorkload:
		patch = s.object.ResumeWorkload(a.StableID)
		if a.Paused {
			patch = s.object.ResumeHeld()
		}
	case rollout.PartitionWorkload:
		patch = s.object.SetPartition(a.Partition)
	case rollout.TakeOverWorkload:
		patch = s.object.TakeOverWorkload(s.rollout.Name, a.Budget)
	case rollout.ResumeRollingUpdate:
		patch = s.object.SetSurge(a.Budget)
	case rollout.PauseWorkload:
		patch = s.object.EndSurge()
	case rollout.FreezeWorkload:
		patch = s.object.RemoveSurge()
	case rollout.SetImages:
		var err error
		if patch, err = s.object.HoldWorkload(s.rollout.Name).SetImages(s.object.Live, a); err != nil {
			return err
		}
	default:
		return fmt.Errorf("%s: it is for Deployments", action)
	}
	body, err := json.Marshal(patch)
	if err != nil {
		return fmt.Errorf("%s: %w", action, err)
	}
	return c.sendObjectPatch(ctx, s, action, types.MergePatchType, body)
}

// readIdleDependents reads the revisions and pods of a workload for which only its last state is known. The first
// change of the workload ends that state.
func (c *Client) readIdleDependents(ctx context.Context, s *Snapshot) error {
	if s.object.idleState == nil {
		return nil
	}
	o := &observation{client: c, snapshot: s, namespace: s.rollout.Namespace, source: fromServer, wanted: partsOf(partReplicaSets)}
	return o.readParts(ctx)
}

func (c *Client) sendObjectPatch(ctx context.Context, s *Snapshot, action rollout.Action, kind types.PatchType, body []byte) error {
	w := s.object
	patched, err := apiclient.WithDeadline(ctx, func(ctx context.Context) (*unstructured.Unstructured, error) {
		return c.objects.Resource(w.resource).Namespace(s.rollout.Namespace).Patch(ctx, w.Live.GetName(), kind, body, metav1.PatchOptions{FieldManager: api.FieldManager})
	})
	if err != nil {
		on := s.accessTo("patch", w.resource.Group, w.resource.Resource, w.Live.GetName())
		on.Workload = true
		return apiclient.ActionError(action, on, err)
	}
	c.informers.forWorkload(w.resource).StoreAnswer(patched)
	w.Live, s.liveParts[partWorkload] = patched, true
	return nil
}

// restoreWorkloadObject restores the template of an older revision in the workload.
func (c *Client) restoreWorkloadObject(ctx context.Context, s *Snapshot, a rollout.RestoreTemplate) error {
	body, err := s.object.RestoreTemplate(a.Hash, a.Version)
	if err != nil {
		return fmt.Errorf("%w: %w", apiclient.StaleAction(a), err)
	}
	return c.sendObjectPatch(ctx, s, a, types.JSONPatchType, body)
}

// replacePods deletes pods, each only if it has not changed since it was read.
func (c *Client) replacePods(ctx context.Context, s *Snapshot, a rollout.ReplacePods) error {
	if !s.object.isPresent() {
		return apiclient.StaleAction(a)
	}
	victims := s.object.DeletionCandidates(a.Hash, a.Pods)
	if len(victims) == 0 {
		return apiclient.StaleAction(a)
	}
	ctx, cancel := withFenceDeadline(ctx, s.observedAt)
	defer cancel()
	deletions, bounded := errgroup.WithContext(ctx)
	deletions.SetLimit(podPatches)
	for _, pod := range victims {
		deletions.Go(func() error {
			_, err := apiclient.WithDeadline(bounded, func(ctx context.Context) (any, error) {
				return nil, c.core.Pods(pod.Namespace).Delete(ctx, pod.Name, exactDeleteOptions(pod, metav1.DeletePropagationBackground))
			})
			if err != nil {
				return apiclient.ActionError(a, s.accessTo("delete", "", "pods", pod.Name), err)
			}
			return nil
		})
	}
	if err := deletions.Wait(); err != nil {
		return err
	}
	now := metav1.Now()
	for _, pod := range victims {
		pod.DeletionTimestamp = &now
	}
	return nil
}
