package kube

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	corev1 "k8s.io/api/core/v1"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
)

func TestWhatADecisionAboutPodsReplacedInPlaceStandsOn(t *testing.T) {
	t.Parallel()
	base := []part{partRollout, partWorkload}
	for name, c := range map[string]struct {
		action rollout.Action
		want   []part
	}{
		"parking":                             {rollout.TakeOverWorkload{}, base},
		"going on as pods are ready":          {rollout.ResumeRollingUpdate{}, append(base, partReplicaSets, partStableService)},
		"resting":                             {rollout.PauseWorkload{}, base},
		"going back":                          {rollout.FreezeWorkload{}, base},
		"pods in the place of others":         {rollout.ScaleRevision{}, append(base, partReplicaSets, partStableService, partRoutes)},
		"a partition as pods are ready":       {rollout.PartitionWorkload{}, append(base, partReplicaSets, partStableService)},
		"pods that are made anew":             {rollout.ReplacePods{}, append(base, partReplicaSets, partStableService, partRoutes)},
		"a version that must not come back":   {rollout.DeleteRevision{}, append(base, partReplicaSets)},
		"a route to pods of a shared Service": {rollout.ApplyRoute{}, append(base, partReplicaSets)},
	} {
		machine := api.SluiceStatus{Epoch: 1, State: string(rollout.StateUpgrade)}
		s := &Snapshot{rollout: &api.Rollout{Status: api.RolloutStatus{Sluice: &machine}}, spec: rollout.Spec{
			Style: rollout.StylePartition, Routing: []rollout.Routing{{Service: "web", CanaryService: "web"}},
			Workload: rollout.Ref{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"},
		}}
		d := rollout.Decision{Status: api.RolloutStatus{Sluice: &machine}, Actions: []rollout.Action{c.action}}
		if diff := cmp.Diff(partsOf(c.want...), s.decisionDependsOn(d)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestEndpointsOfPodsReplacedInPlaceAreThoseOfTheNewReplicaSet(t *testing.T) {
	t.Parallel()
	yes := true
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "web", UID: "d"}}
	set := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Name: "web-abc", OwnerReferences: []metav1.OwnerReference{{UID: "d", Controller: &yes}}}}
	s := &Snapshot{spec: rollout.Spec{Style: rollout.StylePartition}, deployment: deployment}
	var endpoints []*discoveryv1.EndpointSlice
	for _, pod := range []string{"web-abc-1", "web-old-1"} {
		endpoints = append(endpoints, &discoveryv1.EndpointSlice{Endpoints: []discoveryv1.Endpoint{
			{Addresses: []string{"10.0.0.1"}, TargetRef: &corev1.ObjectReference{Name: pod}},
		}})
	}
	if got := s.readyEndpoints(endpoints); got != 0 {
		t.Errorf("without a ReplicaSet %d endpoints are ready", got)
	}
	s.replicaSets = []*appsv1.ReplicaSet{set}
	if got := s.readyEndpoints(endpoints); got != 1 {
		t.Errorf("%d endpoints are ready, want 1", got)
	}
}
