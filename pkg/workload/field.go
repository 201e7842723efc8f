package workload

import (
	"fmt"
	"strconv"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
)

const (
	rollingUpdate = "RollingUpdate"
	onDelete      = "OnDelete"

	fieldReplicas = "replicas"

	// aboveOrdinals is a partition that no workload has so many pods as to reach. It is OpenKruise's.
	aboveOrdinals = 32767
)

// field is one of a spec that is ours for the length of a release, or that its owner may want otherwise by the end of it. The admission
// policies sluice-hold-<kind> and sluice-guard-<kind> know the same fields and write the same annotations.
type field struct {
	// name is that of the annotation of its original, path where it lies under spec.
	name string
	path []string
	// held is what a hold sets it to, nil where a hold leaves it.
	held any
	// surgeOnly: it is ours only for as long as the workload is widened.
	surgeOnly bool
	// standard is the text of it where it is not set, and means no value.
	standard string
	// value is what a text means, nil for the standard and for what cannot be read.
	value func(text string) any
}

func strategyPath(name string) []string { return []string{"updateStrategy", name} }

func rollingPath(name string) []string { return []string{"updateStrategy", "rollingUpdate", name} }

func partitionField(held any, path []string) field {
	return field{name: "partition", path: path, held: held, value: partitionValue}
}

func typeField(held any) field {
	return field{name: "type", path: strategyPath("type"), held: held, standard: rollingUpdate, value: func(text string) any {
		if text == onDelete {
			return onDelete
		}
		return nil
	}}
}

func pausedField() field {
	return field{name: "paused", path: strategyPath("paused"), held: false, standard: "false", value: func(text string) any {
		if text == "true" {
			return true
		}
		return nil
	}}
}

// replicasField is the one that a widened workload is known by. What it comes back as is for [Object.desiredReplicas] to say.
func replicasField() field {
	return field{name: fieldReplicas, path: []string{"replicas"}, surgeOnly: true, standard: "1", value: numberValue}
}

func readyField() field {
	return field{name: "minReadySeconds", path: []string{"minReadySeconds"}, surgeOnly: true, standard: "0", value: numberValue}
}

// scaleField would stop a widened workload: it counts pods that are not available, which all of them are.
func scaleField() field {
	return field{name: "scaleMaxUnavailable", path: []string{"scaleStrategy", "maxUnavailable"}, surgeOnly: true, value: partitionValue}
}

func numberValue(text string) any {
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil || n <= 0 {
		return nil
	}
	return n
}

func partitionValue(text string) any {
	amount, err := rollout.ParseAmount(text)
	switch {
	case err != nil || amount == rollout.Amount{}:
		return nil
	case amount.Percent:
		return amount.String()
	}
	return int64(amount.Value)
}

// annotationKey is the annotation of its original.
func (f field) annotationKey() string { return api.AnnotationOriginalPrefix + f.name }

// textOf of the field as it stands.
func (f field) textOf(u *unstructured.Unstructured) string {
	value, found, _ := unstructured.NestedFieldNoCopy(u.Object, specPath(f.path)...)
	if !found || value == nil {
		return f.standard
	}
	return fmt.Sprint(value)
}

func specPath(path []string) []string { return append([]string{"spec"}, path...) }
