package workload

import (
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
)

// Kind is how a kind of workload that is no Deployment is released.
type Kind struct {
	Mechanism rollout.UpdateMechanism
	// Type is the value of the label workload-type.
	Type string
	// HashLabel is the label by which its pods are told apart.
	HashLabel string

	// fields are those of its spec that change hands, the one that holds it first.
	fields []field
	// surges: it can be widened for a release beside its stable pods.
	surges bool
	// pause is where its own switch lies by which no pod is replaced, nil where it has none.
	pause []string
	// unavailable is where its owner's budget lies, budget what it is where nothing is said.
	unavailable []string
	budget      string
	counts      counts
	// ordinals: its pods are numbered, and its partition is the first number of those to be replaced.
	ordinals bool
	// shares: its partition may be a percentage.
	shares bool
	// shortHash: its pods bear the end of the name of their revision alone.
	shortHash bool
	// reverts: its controller makes a pod that is lost in the revision of status.currentRevision, as far as the partition goes.
	reverts bool
	// strict: it takes no parameters of a rolling update beside the type OnDelete.
	strict bool
	// labelled: the label workload-type is its owner's, by which the kind is known.
	labelled bool
}

// fieldNamed is one of the fields, by its name.
func (k Kind) fieldNamed(name string) (field, bool) {
	for _, f := range k.fields {
		if f.name == name {
			return f, true
		}
	}
	return field{}, false
}

// counts are where a status counts pods; replicas are those that there shall be, where not the spec says so.
type counts struct{ replicas, updated, available, total string }

var (
	replicaCounts = counts{updated: "updatedReplicas", available: "availableReplicas", total: "replicas"}
	nodeCounts    = counts{
		replicas: "desiredNumberScheduled", updated: "updatedNumberScheduled", available: "numberAvailable", total: "currentNumberScheduled",
	}
)

// KindOf is false for Deployments, and for what is known by a label of the object alone; see [KindOfObject].
func KindOf(ref rollout.Ref) (Kind, bool) {
	group, _, _ := strings.Cut(ref.APIVersion, "/")
	return kindOf(schema.GroupKind{Group: group, Kind: ref.Kind})
}

// KindOfObject also knows what has the shape of a StatefulSet, and whose owner says so by the label workload-type.
func KindOfObject(u *unstructured.Unstructured) (Kind, bool) {
	named := u.GroupVersionKind().GroupKind()
	if kind, ok := kindOf(named); ok {
		return kind, true
	}
	_, templated, _ := unstructured.NestedMap(u.Object, "spec", "template", "spec")
	if named.Group == "apps" || !templated || u.GetLabels()[api.LabelWorkloadType] != api.WorkloadTypeStatefulSet {
		return Kind{}, false
	}
	kind := statefulSet()
	kind.labelled = true
	return kind, true
}

func kindOf(named schema.GroupKind) (Kind, bool) {
	switch named {
	case schema.GroupKind{Group: "apps", Kind: "StatefulSet"}:
		return statefulSet(), true
	case schema.GroupKind{Group: "apps.kruise.io", Kind: "StatefulSet"}:
		kind := statefulSet()
		kind.pause = rollingPath("paused")
		return kind, true
	case schema.GroupKind{Group: "apps.kruise.io", Kind: "CloneSet"}:
		return cloneSet(), true
	case schema.GroupKind{Group: "apps", Kind: "DaemonSet"}:
		return daemonSet(), true
	case schema.GroupKind{Group: "apps.kruise.io", Kind: "DaemonSet"}:
		return advancedDaemonSet(), true
	}
	return Kind{}, false
}

func statefulSet() Kind {
	return Kind{
		Mechanism: rollout.MechanismPartition, Type: api.WorkloadTypeStatefulSet, HashLabel: api.LabelControllerRevisionHash,
		fields:      []field{partitionField(int64(aboveOrdinals), rollingPath("partition")), typeField(nil)},
		unavailable: rollingPath("maxUnavailable"), budget: "1", counts: replicaCounts,
		ordinals: true, reverts: true, strict: true,
	}
}

func cloneSet() Kind {
	return Kind{
		Mechanism: rollout.MechanismPartition, Type: api.WorkloadTypeCloneSet, HashLabel: api.LabelPodTemplateHash,
		fields: []field{partitionField("100%", strategyPath("partition")), pausedField(), replicasField(), readyField(), scaleField()},
		surges: true, pause: strategyPath("paused"), unavailable: strategyPath("maxUnavailable"), budget: "20%", counts: replicaCounts,
		shares: true, shortHash: true, reverts: true,
	}
}

func daemonSet() Kind {
	return Kind{
		Mechanism: rollout.MechanismOnDelete, Type: api.WorkloadTypeDaemonSet, HashLabel: api.LabelControllerRevisionHash,
		fields:      []field{typeField(onDelete)},
		unavailable: rollingPath("maxUnavailable"), budget: "1", counts: nodeCounts, shortHash: true,
	}
}

func advancedDaemonSet() Kind {
	kind := daemonSet()
	kind.Mechanism, kind.pause = rollout.MechanismPartition, rollingPath("paused")
	kind.fields = []field{partitionField(int64(aboveOrdinals), rollingPath("partition")), typeField(nil)}
	return kind
}
