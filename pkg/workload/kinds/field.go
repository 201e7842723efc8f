package kinds

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"sluice.dev/sluice/pkg/api"
)

// Names of fields that have code of their own somewhere.
const (
	FieldPartition = "partition"
	FieldType      = "type"
	FieldPaused    = "paused"
	FieldReplicas  = "replicas"

	FieldMinReadySeconds     = "minReadySeconds"
	FieldScaleMaxUnavailable = "scaleMaxUnavailable"
)

// Values of the field of an update type.
const (
	RollingUpdate = "RollingUpdate"
	OnDelete      = "OnDelete"
)

// Form is what the text of a field reads like.
type Form int

const (
	// Amount is a number of pods, or a percentage of the replicas. It may be empty: the field is not set.
	Amount Form = iota
	// Number is an integer from 0, of pods or of seconds.
	Number
	// Boolean is true or false.
	Boolean
	// UpdateType is RollingUpdate or OnDelete.
	UpdateType
)

// Forms are all of them.
func Forms() []Form { return []Form{Amount, Number, Boolean, UpdateType} }

// Pattern is the regular expression that a text of the form matches, in the syntax of RE2, which Go and CEL share. A value that does not match it
// is never remembered as the owner's.
func (f Form) Pattern() string {
	switch f {
	case Amount:
		return "^([0-9]{1,9}%?)?$"
	case Number:
		return "^[0-9]{1,9}$"
	case Boolean:
		return "^(true|false)$"
	}
	return "^(" + RollingUpdate + "|" + OnDelete + ")$"
}

// Field is a field of a spec. Sluice owns it during a release, or its owner may change it during one.
type Field struct {
	// Name is the end of the annotation that remembers the value of its owner, see [Field.AnnotationKey].
	Name string
	// Path is where it lies under spec.
	Path []string
	// Form is what its text reads like.
	Form Form
	// Held is the value that a hold gives it: an int64, a string or a bool. It is nil where a hold leaves the field alone.
	Held any
	// Default is the text of the value that the controller uses if the field is not set. It is "" if the controller then has no value. The sources are
	// the API references of Kubernetes (apps/v1) and of OpenKruise (apps.kruise.io).
	Default string
	// SurgeOnly: it is Sluice's only while the workload is surged for a blue-green release.
	SurgeOnly bool
	// Autoscaled: an autoscaler may own it. A manifest without the field asks for no value then, and not for the default.
	Autoscaled bool
}

// AnnotationKey is the annotation that remembers the value of its owner.
func (f Field) AnnotationKey() string { return api.AnnotationOriginalPrefix + f.Name }

// ObjectPath is where it lies in an object.
func (f Field) ObjectPath() []string { return append([]string{"spec"}, f.Path...) }

// Text returns the value that the controller of the object uses.
func (f Field) Text(u *unstructured.Unstructured) string { return f.textOr(u, f.Default) }

// RequestText is the value that an object of an admission request asks for.
func (f Field) RequestText(u *unstructured.Unstructured) string { return f.textOr(u, f.Unset()) }

// Unset is the text that stands for a field that an admission request does not set.
func (f Field) Unset() string {
	if f.Autoscaled {
		return ""
	}
	return f.Default
}

func (f Field) textOr(u *unstructured.Unstructured, unset string) string {
	value, found, _ := unstructured.NestedFieldNoCopy(u.Object, f.ObjectPath()...)
	if !found || value == nil {
		return unset
	}
	return fmt.Sprint(value)
}
