package api

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Group is the API group of what OpenKruise Rollouts has as well.
const Group = "rollouts.kruise.io"

// Versions of Group. Rollout is stored as V1beta1 and served as both; TrafficRouting
// and RolloutHistory exist as V1alpha1 only.
const (
	V1alpha1 = "v1alpha1"
	V1beta1  = "v1beta1"
)

// GroupSluice is the API group of what OpenKruise Rollouts has no counterpart of. It exists as V1alpha1 only.
const GroupSluice = "sluice.dev"

// Kinds of GroupSluice.
const (
	KindAnalysisTemplate        = "AnalysisTemplate"
	KindClusterAnalysisTemplate = "ClusterAnalysisTemplate"
	KindFleetMember             = "FleetMember"
	KindFleetPlan               = "FleetPlan"
	KindFleetRollout            = "FleetRollout"
	KindFleetTarget             = "FleetTarget"
)

// Kinds of Group.
const (
	KindRollout        = "Rollout"
	KindTrafficRouting = "TrafficRouting"
	KindRolloutHistory = "RolloutHistory"
)

// GroupVersion returns the version in which Sluice itself reads and writes Rollouts.
func GroupVersion() schema.GroupVersion {
	return schema.GroupVersion{Group: Group, Version: V1beta1}
}

// RolloutResource returns the resource through which Sluice reads and writes Rollouts.
func RolloutResource() schema.GroupVersionResource {
	return GroupVersion().WithResource("rollouts")
}

// TrafficRoutingResource returns the resource of TrafficRouting.
func TrafficRoutingResource() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: Group, Version: V1alpha1, Resource: "trafficroutings"}
}

// RolloutHistoryResource returns the resource of RolloutHistory.
func RolloutHistoryResource() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: Group, Version: V1alpha1, Resource: "rollouthistories"}
}

// AnalysisTemplateResource returns the resource of AnalysisTemplate.
func AnalysisTemplateResource() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: GroupSluice, Version: V1alpha1, Resource: "analysistemplates"}
}

// ClusterAnalysisTemplateResource returns the resource of ClusterAnalysisTemplate.
func ClusterAnalysisTemplateResource() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: GroupSluice, Version: V1alpha1, Resource: "clusteranalysistemplates"}
}

// FleetGroupVersion returns the version of the kinds of a fleet's hub.
func FleetGroupVersion() schema.GroupVersion {
	return schema.GroupVersion{Group: GroupSluice, Version: V1alpha1}
}

// Resources of a fleet's hub.
func FleetMemberResource() schema.GroupVersionResource {
	return FleetGroupVersion().WithResource("fleetmembers")
}
func FleetPlanResource() schema.GroupVersionResource {
	return FleetGroupVersion().WithResource("fleetplans")
}
func FleetRolloutResource() schema.GroupVersionResource {
	return FleetGroupVersion().WithResource("fleetrollouts")
}
func FleetTargetResource() schema.GroupVersionResource {
	return FleetGroupVersion().WithResource("fleettargets")
}

// AddToScheme registers each type under the version that Sluice uses. Rollout is
// registered as v1beta1 only, because a scheme wants one version for each Go type.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion(), &Rollout{}, &RolloutList{})
	metav1.AddToGroupVersion(s, GroupVersion())
	old := schema.GroupVersion{Group: Group, Version: V1alpha1}
	s.AddKnownTypes(old, &TrafficRouting{}, &TrafficRoutingList{}, &RolloutHistory{}, &RolloutHistoryList{})
	metav1.AddToGroupVersion(s, old)
	ours := schema.GroupVersion{Group: GroupSluice, Version: V1alpha1}
	s.AddKnownTypes(ours, &AnalysisTemplate{}, &AnalysisTemplateList{}, &ClusterAnalysisTemplate{}, &ClusterAnalysisTemplateList{},
		&FleetMember{}, &FleetMemberList{}, &FleetPlan{}, &FleetPlanList{}, &FleetRollout{}, &FleetRolloutList{}, &FleetTarget{}, &FleetTargetList{})
	metav1.AddToGroupVersion(s, ours)
	return nil
}
