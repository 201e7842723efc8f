package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/kube/apiclient"
	"sluice.dev/sluice/pkg/kube/cache"
	"sluice.dev/sluice/pkg/rollout"
	"sluice.dev/sluice/pkg/traffic"
	"sluice.dev/sluice/pkg/workload"
)

// ApplyAction carries out one action on the objects as the snapshot saw them, and puts the changed objects into the
// snapshot. An error leaves the snapshot as it was:
//
//   - [apiclient.IsConflict]: observe again.
//   - [apiclient.ProblemOf]: a person must correct something.
//   - [apiclient.IsGone]: the Rollout was deleted, and nothing is left to do.
//   - Any other error passes by itself.
func (c *Client) ApplyAction(ctx context.Context, s *Snapshot, action rollout.Action) error {
	if needsFence(action) {
		if err := checkFence(ctx, s.observedAt, action); err != nil {
			return err
		}
	}
	if err := c.dispatchAction(ctx, s, action); err != nil {
		return err
	}
	s.updateView()
	return nil
}

func (c *Client) dispatchAction(ctx context.Context, s *Snapshot, action rollout.Action) error {
	switch a := action.(type) {
	case rollout.AddFinalizer:
		return c.setFinalizer(ctx, s, true)
	case rollout.RemoveFinalizer:
		return c.setFinalizer(ctx, s, false)
	case rollout.RecordPermit:
		return c.recordPermit(ctx, s, a.Permit)
	case rollout.AdoptWorkload, rollout.DisownWorkload, rollout.HoldWorkload, rollout.ResumeWorkload,
		rollout.TakeOverWorkload, rollout.ResumeRollingUpdate, rollout.PauseWorkload, rollout.FreezeWorkload, rollout.ScaleWorkload, rollout.RestoreReplicas,
		rollout.SetImages:
		return c.changeWorkload(ctx, s, a)
	case rollout.PartitionWorkload:
		return c.changeWorkloadObject(ctx, s, a)
	case rollout.ReplacePods:
		return c.replacePods(ctx, s, a)
	case rollout.ScaleRevision:
		return c.patchReplicaSet(ctx, s, a, a.Hash, func(set *appsv1.ReplicaSet) workload.Patch { return workload.ScaleReplicaSet(set, a.Replicas) })
	case rollout.DeleteRevision:
		return c.deleteReplicaSet(ctx, s, a)
	case rollout.HoldRevisionUnavailable:
		return c.patchReplicaSet(ctx, s, a, a.Hash, workload.HoldReplicaSetUnavailable)
	case rollout.DisableAutoscaler:
		return c.changeAutoscaler(ctx, s, a, a.Object, workload.DisableAutoscaler)
	case rollout.RestoreAutoscaler:
		return c.changeAutoscaler(ctx, s, a, a.Object, workload.RestoreAutoscaler)
	case rollout.RestoreTemplate:
		return c.restoreTemplate(ctx, s, a)
	case rollout.CreateCanary:
		return c.createCanary(ctx, s, a)
	case rollout.ScaleCanary:
		return c.scaleCanary(ctx, s, a, a.Name, a.Replicas)
	case rollout.ShrinkCanary:
		return c.scaleCanary(ctx, s, a, a.Name, a.Replicas)
	case rollout.LabelPods:
		return c.labelPods(ctx, s, a)
	case rollout.LabelKeptPods:
		return c.labelKeptPods(ctx, s, a)
	case rollout.DeleteCanary:
		return c.deleteCanary(ctx, s, a)
	case rollout.PinService:
		return c.pinService(ctx, s, a)
	case rollout.UnpinService:
		return c.unpinService(ctx, s, a)
	case rollout.CreateCanaryService:
		return c.createCanaryService(ctx, s, a)
	case rollout.PointCanaryService:
		return c.pointCanaryService(ctx, s, a)
	case rollout.DeleteCanaryService:
		return c.deleteCanaryService(ctx, s, a)
	case rollout.PrepareRoute:
		return c.prepareRoute(ctx, gatewayOf(s.gateways, a.Object), a, s.observedAt)
	case rollout.ClearRoute:
		return c.clearRoute(ctx, gatewayOf(s.gateways, a.Object), a)
	case rollout.ApplyRoute:
		return c.applyRoute(ctx, gatewayOf(s.gateways, a.Object), a, s.observedAt)
	case rollout.RestoreRoute:
		return c.restoreRoute(ctx, gatewayOf(s.gateways, a.Object), a)
	case rollout.ClaimTrafficRouting:
		return c.claimTrafficRouting(ctx, s, a, true)
	case rollout.FreeTrafficRouting:
		return c.claimTrafficRouting(ctx, s, a, false)
	}
	return fmt.Errorf("%s: this version of Sluice does not know the action", action)
}

func (s *Snapshot) accessTo(verb, group, resource, name string) apiclient.Access {
	return apiclient.Access{Verb: verb, Group: group, Resource: resource, Namespace: s.rollout.Namespace, Name: name}
}

func (c *Client) changeWorkload(ctx context.Context, s *Snapshot, action rollout.Action) error {
	if s.object.isPresent() {
		return c.changeWorkloadObject(ctx, s, action)
	}
	if s.deployment == nil {
		return apiclient.StaleAction(action)
	}
	var patch workload.Patch
	switch a := action.(type) {
	case rollout.AdoptWorkload:
		patch = workload.AdoptDeployment(s.deployment, s.rollout.Name, a.StableID)
	case rollout.DisownWorkload:
		patch = workload.DisownDeployment(s.deployment)
		patch.RemoveKruiseMarks(s.deployment)
	case rollout.HoldWorkload:
		patch = workload.HoldDeployment(s.deployment, s.rollout.Name)
	case rollout.ResumeWorkload:
		patch = workload.ResumeDeployment(s.deployment, a.StableID)
		if a.Paused {
			patch = workload.ResumePaused(s.deployment, a.Surge)
		}
		patch.RemoveKruiseMarks(s.deployment)
	case rollout.TakeOverWorkload:
		patch = workload.TakeOverDeployment(s.deployment, s.rollout.Name, a.Budget)
		s.addKruiseMarks(patch)
	case rollout.ResumeRollingUpdate:
		patch = workload.ResumeRollingUpdate(s.deployment, s.rollout.Name, a.Budget)
		s.addKruiseMarks(patch)
	case rollout.PauseWorkload:
		patch = workload.PauseDeployment(s.deployment, a.Budget)
	case rollout.FreezeWorkload:
		patch = workload.FreezeDeployment(s.deployment)
	case rollout.ScaleWorkload:
		d, _ := s.ownerDeployment()
		patch = workload.ScaleDownDeployment(d, a.Replicas)
	case rollout.RestoreReplicas:
		patch = workload.RestoreReplicas(s.deployment)
	case rollout.SetImages:
		live, err := c.readDeployment(ctx, s, a)
		if err != nil {
			return err
		}
		if patch, err = workload.HoldDeployment(s.deployment, s.rollout.Name).SetImages(live, a); err != nil {
			return err
		}
	}
	return c.patchDeployment(ctx, s, action, partWorkload, &s.deployment, patch)
}

func (s *Snapshot) addKruiseMarks(patch workload.Patch) {
	patch.AddKruiseMarks(s.deployment, sluiceStatusOf(s.rollout).StableRevision, s.spec.Style == rollout.StyleBlueGreen)
}

// patchDeployment patches a Deployment of the snapshot in place.
func (c *Client) patchDeployment(ctx context.Context, s *Snapshot, action rollout.Action, p part, d **appsv1.Deployment, patch workload.Patch) error {
	body, err := json.Marshal(patch)
	if err != nil {
		return fmt.Errorf("%s: %w", action, err)
	}
	return c.sendDeploymentPatch(ctx, s, action, p, d, types.MergePatchType, body)
}

func (c *Client) sendDeploymentPatch(
	ctx context.Context, s *Snapshot, action rollout.Action, p part, d **appsv1.Deployment, kind types.PatchType, body []byte,
) error {
	name := (*d).Name
	patched, err := apiclient.WithDeadline(ctx, func(ctx context.Context) (*appsv1.Deployment, error) {
		return c.apps.Deployments(s.rollout.Namespace).Patch(ctx, name, kind, body, metav1.PatchOptions{FieldManager: api.FieldManager})
	})
	if err != nil {
		return apiclient.ActionError(action, s.accessTo("patch", "apps", "deployments", name), err)
	}
	c.informers.deployments.StoreAnswer(patched)
	*d, s.liveParts[p] = patched, true
	return nil
}

func (s *Snapshot) canaryOf(a rollout.CreateCanary) workload.CanaryOf {
	return workload.CanaryOf{
		Name: a.Name, Replicas: a.Replicas, Epoch: a.Epoch, Revision: a.Revision,
		RolloutName: s.rollout.Name, RolloutUID: string(s.rollout.UID), PatchLabels: s.spec.PatchLabels, PatchAnnotations: s.spec.PatchAnnotations, ReplicaSets: s.replicaSets,
	}
}

func (c *Client) createCanary(ctx context.Context, s *Snapshot, a rollout.CreateCanary) error {
	if s.deployment == nil {
		return apiclient.StaleAction(a)
	}
	canary, err := workload.NewCanary(s.deployment, s.canaryOf(a))
	if err != nil {
		return &apiclient.ProblemError{Cause: err, Problem: rollout.Problem{Reason: rollout.ReasonInvalidSpec, Message: asSentence(err)}}
	}
	created, err := createOnce(ctx, s, c.apps.Deployments(s.rollout.Namespace), canary)
	if err != nil {
		return apiclient.ActionError(a, s.accessTo("create", "apps", "deployments", a.Name), err)
	}
	c.informers.deployments.StoreAnswer(created)
	s.canary, s.liveParts[partCanary] = created, true
	return nil
}

// createOnce creates an object while the fence of the snapshot is open. If an object of that name exists, an earlier
// run created it, and createOnce reads it.
func createOnce[T metav1.Object](ctx context.Context, s *Snapshot, client interface {
	Create(context.Context, T, metav1.CreateOptions) (T, error)
	Get(context.Context, string, metav1.GetOptions) (T, error)
}, object T) (T, error) {
	ctx, cancel := withFenceDeadline(ctx, s.observedAt)
	defer cancel()
	return apiclient.WithDeadline(ctx, func(ctx context.Context) (T, error) {
		created, err := client.Create(ctx, object, metav1.CreateOptions{FieldManager: api.FieldManager})
		if apierrors.IsAlreadyExists(err) {
			return client.Get(ctx, object.GetName(), metav1.GetOptions{})
		}
		return created, err
	})
}

func (c *Client) scaleCanary(ctx context.Context, s *Snapshot, action rollout.Action, name string, replicas int32) error {
	if s.canary == nil || s.canary.Name != name {
		return apiclient.StaleAction(action)
	}
	return c.patchDeployment(ctx, s, action, partCanary, &s.canary, workload.ScaleDeployment(s.canary, replicas))
}

func (c *Client) deleteCanary(ctx context.Context, s *Snapshot, a rollout.DeleteCanary) error {
	if s.canary == nil || s.canary.Name != a.Name {
		return apiclient.StaleAction(a)
	}
	policy := metav1.DeletePropagationBackground
	if a.Foreground {
		policy = metav1.DeletePropagationForeground
	}
	_, err := apiclient.WithDeadline(ctx, func(ctx context.Context) (any, error) {
		return nil, c.apps.Deployments(s.rollout.Namespace).Delete(ctx, a.Name, exactDeleteOptions(s.canary, policy))
	})
	if err != nil && !apiclient.IsNotFound(err) {
		return apiclient.ActionError(a, s.accessTo("delete", "apps", "deployments", a.Name), err)
	}
	s.canary = afterDeletion(c.informers.deployments, s.canary, policy == metav1.DeletePropagationForeground && err == nil)
	s.liveParts[partCanary] = true
	return nil
}

// exactDeleteOptions returns options that delete an object only if it has not changed since it was read.
func exactDeleteOptions(object metav1.Object, policy metav1.DeletionPropagation) metav1.DeleteOptions {
	uid, version := object.GetUID(), object.GetResourceVersion()
	return metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &uid, ResourceVersion: &version}, PropagationPolicy: &policy,
	}
}

// afterDeletion returns the object after its deletion. It returns nil unless a finalizer holds the object, or the
// object stays until all that it owns is gone.
func afterDeletion[T cache.Object](m *cache.Overlay[T], o T, lingers bool) T {
	lingers = lingers || len(o.GetFinalizers()) > 0
	m.MarkDeleted(o.GetUID(), lingers)
	if !lingers {
		var none T
		return none
	}
	return cache.WithDeletionTimestamp(o, time.Now())
}

func (c *Client) pinService(ctx context.Context, s *Snapshot, a rollout.PinService) error {
	b := s.backendOf(a.Name)
	if b == nil || b.stable == nil {
		return apiclient.StaleAction(a)
	}
	return c.patchService(ctx, s, a, b, partStableService, &b.stable, traffic.PinService(b.stable, s.revisionLabel(), a.Hash))
}

func (c *Client) unpinService(ctx context.Context, s *Snapshot, a rollout.UnpinService) error {
	b := s.backendOf(a.Name)
	if b == nil || b.stable == nil {
		return apiclient.StaleAction(a)
	}
	return c.patchService(ctx, s, a, b, partStableService, &b.stable, traffic.UnpinService(b.stable))
}

// patchService patches a Service of the snapshot in place.
func (c *Client) patchService(
	ctx context.Context, s *Snapshot, action rollout.Action, b *backend, p part, svc **corev1.Service, patch map[string]any,
) error {
	body, err := json.Marshal(patch)
	if err != nil {
		return fmt.Errorf("%s: %w", action, err)
	}
	name := (*svc).Name
	patched, err := apiclient.WithDeadline(ctx, func(ctx context.Context) (*corev1.Service, error) {
		return c.core.Services(s.rollout.Namespace).Patch(ctx, name, types.MergePatchType, body, metav1.PatchOptions{FieldManager: api.FieldManager})
	})
	if err != nil {
		return apiclient.ActionError(action, s.accessTo("patch", "", "services", name), err)
	}
	c.informers.services.StoreAnswer(patched)
	*svc, b.liveParts[p] = patched, true
	return nil
}

func (s *Snapshot) canaryServiceOf(a rollout.CreateCanaryService) traffic.CanaryServiceParams {
	return traffic.CanaryServiceParams{
		Name: a.Name, Key: s.revisionLabel(), Hash: a.Hash,
		RolloutName: s.rollout.Name, RolloutUID: string(s.rollout.UID), Epoch: a.Epoch, PatchLabels: s.spec.PatchLabels,
	}
}

func (c *Client) createCanaryService(ctx context.Context, s *Snapshot, a rollout.CreateCanaryService) error {
	b := s.backendOf(a.Stable)
	if b == nil || b.stable == nil {
		return apiclient.StaleAction(a)
	}
	service, err := traffic.NewCanaryService(b.stable, s.canaryServiceOf(a))
	if err != nil {
		return &apiclient.ProblemError{Cause: err, Problem: rollout.Problem{Reason: rollout.ReasonServiceMissing, Message: asSentence(err)}}
	}
	created, err := createOnce(ctx, s, c.core.Services(s.rollout.Namespace), service)
	if err != nil {
		return apiclient.ActionError(a, s.accessTo("create", "", "services", a.Name), err)
	}
	c.informers.services.StoreAnswer(created)
	b.canary, b.liveParts[partCanaryService] = created, true
	return nil
}

func (c *Client) pointCanaryService(ctx context.Context, s *Snapshot, a rollout.PointCanaryService) error {
	b := s.backendOf(a.Name)
	if b == nil || b.canary == nil {
		return apiclient.StaleAction(a)
	}
	return c.patchService(ctx, s, a, b, partCanaryService, &b.canary, traffic.PointCanaryService(b.canary, s.revisionLabel(), a.Hash, sluiceStatusOf(s.rollout).Epoch))
}

func (c *Client) deleteCanaryService(ctx context.Context, s *Snapshot, a rollout.DeleteCanaryService) error {
	b := s.backendOf(a.Name)
	if b == nil || b.canary == nil {
		return apiclient.StaleAction(a)
	}
	_, err := apiclient.WithDeadline(ctx, func(ctx context.Context) (any, error) {
		return nil, c.core.Services(s.rollout.Namespace).Delete(ctx, a.Name, exactDeleteOptions(b.canary, metav1.DeletePropagationBackground))
	})
	if err != nil && !apiclient.IsNotFound(err) {
		return apiclient.ActionError(a, s.accessTo("delete", "", "services", a.Name), err)
	}
	b.canary = afterDeletion(c.informers.services, b.canary, false)
	b.liveParts[partCanaryService] = true
	return nil
}
