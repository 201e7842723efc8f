package kinds

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	"sluice.dev/sluice/pkg/api"
)

const (
	groupApps   = "apps"
	groupKruise = "apps.kruise.io"

	// aboveOrdinals is a partition above the number of pods of any workload. OpenKruise Rollouts holds workloads by the same number.
	aboveOrdinals = int64(32767)
)

// All are the rows of the table. The caller may change what it gets.
func All() []Kind {
	return []Kind{statefulSet(), advancedStatefulSet(), cloneSet(), daemonSet(), advancedDaemonSet()}
}

func statefulSet() Kind {
	return Kind{
		GroupKind: schema.GroupKind{Group: groupApps, Kind: "StatefulSet"}, Versions: []string{"v1"}, Resource: "statefulsets",
		Family: api.WorkloadTypeStatefulSet, Type: api.WorkloadTypeStatefulSet, ByLabel: true,
		HashLabel: api.LabelControllerRevisionHash,
		Fields:    []Field{partition(aboveOrdinals, inRollingUpdate("partition")), updateType(nil)},
		// The StatefulSet controller of Kubernetes has this default.
		Unavailable: unavailable("1", inRollingUpdate("maxUnavailable")),
		Status:      replicaCounts(),
		Ordinals:    true, Reverts: true, BareOnDelete: true,
	}
}

func advancedStatefulSet() Kind {
	kind := statefulSet()
	kind.GroupKind.Group, kind.Versions, kind.ByLabel = groupKruise, []string{"v1beta1", "v1alpha1"}, false
	kind.Pause = inRollingUpdate("paused")
	return kind
}

func cloneSet() Kind {
	return Kind{
		GroupKind: schema.GroupKind{Group: groupKruise, Kind: "CloneSet"}, Versions: []string{"v1alpha1", "v1beta1"}, Resource: "clonesets",
		Family: api.WorkloadTypeCloneSet, Type: api.WorkloadTypeCloneSet,
		HashLabel: api.LabelPodTemplateHash, ShortHash: true,
		Fields: []Field{
			partition("100%", inStrategy("partition")),
			{Name: FieldPaused, Path: inStrategy("paused"), Form: Boolean, Held: false, Default: "false"},
			{Name: FieldReplicas, Path: []string{"replicas"}, Form: Number, Default: "1", SurgeOnly: true, Autoscaled: true},
			{Name: FieldMinReadySeconds, Path: []string{"minReadySeconds"}, Form: Number, Default: "0", SurgeOnly: true},
			// It would stop a surged CloneSet: it counts pods that are not available, and in a surge no new pod is.
			{Name: FieldScaleMaxUnavailable, Path: []string{"scaleStrategy", "maxUnavailable"}, Form: Amount, SurgeOnly: true},
		},
		Pause: inStrategy("paused"),
		// The CloneSet controller of OpenKruise has this default.
		Unavailable: unavailable("20%", inStrategy("maxUnavailable")),
		Status:      replicaCounts(), PercentPartition: true, Reverts: true,
	}
}

func daemonSet() Kind {
	return Kind{
		GroupKind: schema.GroupKind{Group: groupApps, Kind: "DaemonSet"}, Versions: []string{"v1"}, Resource: "daemonsets",
		Family: api.WorkloadTypeDaemonSet, Type: api.WorkloadTypeDaemonSet,
		HashLabel: api.LabelControllerRevisionHash, ShortHash: true,
		Fields: []Field{updateType(OnDelete)},
		// The DaemonSet controllers of Kubernetes and of OpenKruise have this default.
		Unavailable: unavailable("1", inRollingUpdate("maxUnavailable")),
		Status: Counts{
			Wanted: "desiredNumberScheduled", Total: "currentNumberScheduled", Updated: "updatedNumberScheduled", Ready: "numberReady", Available: "numberAvailable",
		},
	}
}

// advancedDaemonSet has the policies of StatefulSets: OpenKruise's controller knows a partition.
func advancedDaemonSet() Kind {
	kind := daemonSet()
	kind.GroupKind.Group, kind.Versions = groupKruise, []string{"v1alpha1", "v1beta1"}
	kind.Family, kind.Fields = api.WorkloadTypeStatefulSet, statefulSet().Fields
	kind.Pause, kind.WritesUnpaused = inRollingUpdate("paused"), true
	return kind
}

// partition has no default: 0 and a field that is not set are the same to a controller, but not to managedFields.
func partition(held any, path []string) Field {
	return Field{Name: FieldPartition, Path: path, Form: Amount, Held: held}
}

func updateType(held any) Field {
	return Field{Name: FieldType, Path: inStrategy("type"), Form: UpdateType, Held: held, Default: RollingUpdate}
}

func unavailable(standard string, path []string) Field {
	return Field{Name: "maxUnavailable", Path: path, Form: Amount, Default: standard}
}

func replicaCounts() Counts {
	return Counts{Total: "replicas", Updated: "updatedReplicas", Ready: "readyReplicas", Available: "availableReplicas", UpdatedReady: "updatedReadyReplicas"}
}

func inStrategy(name string) []string { return []string{"updateStrategy", name} }

func inRollingUpdate(name string) []string { return []string{"updateStrategy", "rollingUpdate", name} }
