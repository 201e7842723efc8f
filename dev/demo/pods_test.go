package main

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

func TestTheServerOfADeploymentRunsWhatAllItsPodsRun(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		generation int64
		status     appsv1.DeploymentStatus
		image      string
		ready      bool
	}{
		"all pods are new":                         {2, appsv1.DeploymentStatus{ObservedGeneration: 2, Replicas: 3, UpdatedReplicas: 3, ReadyReplicas: 3}, "shop:v2", true},
		"one pod is new":                           {2, appsv1.DeploymentStatus{ObservedGeneration: 2, Replicas: 3, UpdatedReplicas: 1, ReadyReplicas: 3}, "", true},
		"a new version is held":                    {2, appsv1.DeploymentStatus{ObservedGeneration: 2, Replicas: 3, ReadyReplicas: 3}, "", true},
		"the change was not seen yet":              {3, appsv1.DeploymentStatus{ObservedGeneration: 2, Replicas: 3, UpdatedReplicas: 3, ReadyReplicas: 3}, "", true},
		"a pod is not ready":                       {2, appsv1.DeploymentStatus{ObservedGeneration: 2, Replicas: 3, UpdatedReplicas: 3, ReadyReplicas: 2}, "", true},
		"there are no pods":                        {2, appsv1.DeploymentStatus{ObservedGeneration: 2}, "", false},
		"none of the pods is ready":                {2, appsv1.DeploymentStatus{ObservedGeneration: 2, Replicas: 3, UpdatedReplicas: 3}, "", false},
		"an old pod is left beside all the others": {2, appsv1.DeploymentStatus{ObservedGeneration: 2, Replicas: 4, UpdatedReplicas: 3, ReadyReplicas: 4}, "", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := appsv1.Deployment{Status: c.status}
			d.Generation = c.generation
			d.Spec.Template.Spec.Containers = []corev1.Container{{Image: "shop:v2"}}
			if image, ready := running(d); image != c.image || ready != c.ready {
				t.Errorf("it runs %q, ready %t; want %q, %t", image, ready, c.image, c.ready)
			}
		})
	}
}
