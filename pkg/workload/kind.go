package workload

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
	"sluice.dev/sluice/pkg/workload/kinds"
)

// Kind is how a kind of workload that is no Deployment is released: its row of the table of kinds, and how the core replaces its pods.
type Kind struct {
	kinds.Kind
	Mechanism rollout.UpdateMechanism

	// labelled: the kind is known by the label workload-type, which its owner set.
	labelled bool
}

// KindOf is false for Deployments, and for a kind that is known only by a label of the object; see [KindOfObject].
func KindOf(ref rollout.Ref) (Kind, bool) {
	row, is := kinds.Find(schema.GroupKind{Group: ref.Group(), Kind: ref.Kind})
	if !is {
		return Kind{}, false
	}
	return kindOf(row), true
}

// KindOfObject also knows what has the shape of a StatefulSet, and whose owner says so by the label workload-type.
func KindOfObject(u *unstructured.Unstructured) (Kind, bool) {
	if row, is := kinds.Find(u.GroupVersionKind().GroupKind()); is {
		return kindOf(row), true
	}
	shape := kinds.Shape()
	if !kinds.HasShape(u) || u.GetLabels()[api.LabelWorkloadType] != shape.Type {
		return Kind{}, false
	}
	kind := kindOf(shape)
	kind.labelled = true
	return kind, true
}

func kindOf(row kinds.Kind) Kind { return Kind{Kind: row, Mechanism: mechanismOf(row)} }

// mechanismOf tells how its pods are replaced a few at a time: by the field that holds all of them.
func mechanismOf(row kinds.Kind) rollout.UpdateMechanism {
	switch row.HoldingField().Name {
	case kinds.FieldPartition:
		return rollout.MechanismPartition
	case kinds.FieldType:
		return rollout.MechanismOnDelete
	}
	return rollout.MechanismRollingUpdate
}
