package kube

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"

	"sluice.dev/sluice/pkg/kube/apiclient"
	"sluice.dev/sluice/pkg/rollout"
	"sluice.dev/sluice/pkg/workload"
)

// restoreTemplate restores the template of an older ReplicaSet in the workload. It reads that ReplicaSet from the API
// server, because the cache has only a part of it. It replaces the template and does not merge it, because the
// additions of the newer version must go. The rollout-id of the newer version must go too.
func (c *Client) restoreTemplate(ctx context.Context, s *Snapshot, a rollout.RestoreTemplate) error {
	if s.object.isPresent() {
		return c.restoreWorkloadObject(ctx, s, a)
	}
	if s.deployment == nil {
		return apiclient.StaleAction(a)
	}
	ns, name := s.rollout.Namespace, ""
	if _, set := s.replicaSetWith(a.Hash); set != nil {
		name = set.Name
	}
	list, err := apiclient.WithDeadline(ctx, func(ctx context.Context) (*appsv1.ReplicaSetList, error) {
		return c.apps.ReplicaSets(ns).List(ctx, metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("metadata.name", name).String()})
	})
	if err != nil {
		return apiclient.ActionError(a, s.accessTo("list", "apps", "replicasets", name), err)
	}
	if len(list.Items) != 1 {
		return apiclient.StaleAction(a)
	}
	body, err := workload.RestoreTemplate(s.deployment, &list.Items[0], a.Version)
	if err != nil {
		return fmt.Errorf("%s: %w", a, err)
	}
	return c.sendDeploymentPatch(ctx, s, a, partWorkload, &s.deployment, types.JSONPatchType, body)
}

// readDeployment reads the Deployment from the API server with fields of its containers that the types of this version do not know. A patch replaces the list of
// containers as a whole.
func (c *Client) readDeployment(ctx context.Context, s *Snapshot, action rollout.Action) (*unstructured.Unstructured, error) {
	live, err := apiclient.WithDeadline(ctx, func(ctx context.Context) (*unstructured.Unstructured, error) {
		return c.objects.Resource(appsv1.SchemeGroupVersion.WithResource("deployments")).Namespace(s.rollout.Namespace).Get(ctx, s.deployment.Name, metav1.GetOptions{})
	})
	if err != nil {
		return nil, apiclient.ActionError(action, s.accessTo("get", "apps", "deployments", s.deployment.Name), err)
	}
	return live, nil
}
