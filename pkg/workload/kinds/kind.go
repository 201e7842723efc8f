package kinds

import (
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"sluice.dev/sluice/pkg/api"
)

// Kind is one row of the table. Paths are relative to spec. A text of a number of pods is an integer, or a percentage of the replicas.
type Kind struct {
	// GroupKind is how an ownerReference and spec.workloadRef of a Rollout name the kind, without a version.
	GroupKind schema.GroupKind
	// Versions are the versions of its API that Sluice knows, the one to ask for first. Their fields of this table are the same.
	Versions []string
	// Resource is its plural name in the API.
	Resource string
	// Family names the admission policies that hold it: sluice-hold-<Family> and sluice-guard-<Family>.
	Family string
	// Type is the value of the label [api.LabelWorkloadType] on an adopted workload of this kind; OpenKruise Rollouts defines the values.
	Type string
	// ByLabel: an object of a group that is not in the table is released as this kind where its owner gives it the label Type and it has a
	// pod template. One row has it, see [Shape].
	ByLabel bool

	// HashLabel is the label of its pods that names their revision.
	HashLabel string
	// ShortHash: the value of HashLabel is the part of the name of the ControllerRevision after the last "-". Otherwise it is the whole name.
	ShortHash bool

	// Fields are the fields of its spec that a release changes, the one that holds it first.
	Fields []Field
	// Pause is the path of its own switch that stops the replacement of pods, nil where it has none. No release sets it to true.
	Pause []string
	// WritesUnpaused: a release writes false to Pause if the field is not set, and leaves it there, as OpenKruise Rollouts does. Clients read the field.
	WritesUnpaused bool
	// Unavailable is the field of how many of its pods may be unavailable. No release changes it.
	Unavailable Field
	// Status names the fields of its status that count pods.
	Status Counts

	// Ordinals: its pods are numbered, and a partition is the index of the first pod that is replaced. Otherwise it is a number of pods.
	Ordinals bool
	// PercentPartition: its partition may be a percentage.
	PercentPartition bool
	// Reverts: its controller creates a lost pod in the revision of status.currentRevision, as far as the partition goes. Otherwise
	// a lost pod comes back in the revision of the template.
	Reverts bool
	// BareOnDelete: the API server refuses updateStrategy.rollingUpdate where updateStrategy.type is OnDelete.
	BareOnDelete bool
}

// Counts are names of fields of a status, each a number of pods and 0 where it is not set.
type Counts struct {
	// Wanted is the status field with the wanted number of pods. It is "" if spec.replicas has the number; the default of that field is 1 (the API
	// reference of the kind).
	Wanted string
	// Total is how many pods there are, Updated how many of the newest revision, Ready and Available how many in these conditions.
	Total, Updated, Ready, Available string
	// UpdatedReady is how many pods of the newest revision are ready, "" where no controller of the kind tells.
	UpdatedReady string
}

// WantedPath is where an object says how many pods there shall be.
func (k Kind) WantedPath() []string {
	if k.Status.Wanted != "" {
		return []string{"status", k.Status.Wanted}
	}
	return []string{"spec", "replicas"}
}

// HoldingField is the field that keeps its controller from replacing pods.
func (k Kind) HoldingField() Field { return k.Fields[0] }

// Field returns the field of that name, and false where a release changes none of that name.
func (k Kind) Field(name string) (Field, bool) {
	for _, f := range k.Fields {
		if f.Name == name {
			return f, true
		}
	}
	return Field{}, false
}

// Surges reports whether a blue-green release can give it more replicas than its owner wants.
func (k Kind) Surges() bool {
	return slices.ContainsFunc(k.Fields, func(f Field) bool { return f.SurgeOnly })
}

// LeavesOnDelete reports whether a hold leaves a workload with the update type OnDelete alone: its controller replaces no pod by itself, and
// the type is not the field that holds it.
func (k Kind) LeavesOnDelete() bool {
	f, is := k.Field(FieldType)
	return is && f.Held == nil
}

// Find returns the row of a kind, and false for Deployments and for kinds that are not in the table.
func Find(kind schema.GroupKind) (Kind, bool) {
	for _, k := range All() {
		if k.GroupKind == kind {
			return k, true
		}
	}
	return Kind{}, false
}

// FindOrShape returns the row of a kind, and [Shape] for every other kind, which its owner may have labelled.
func FindOrShape(kind schema.GroupKind) Kind {
	if k, is := Find(kind); is {
		return k
	}
	return Shape()
}

// Shape is the row for objects of unknown kinds that have the shape of a known one. Their owners say so by the label [api.LabelWorkloadType].
func Shape() Kind {
	all := All()
	return all[slices.IndexFunc(all, func(k Kind) bool { return k.ByLabel })]
}

// HasShape reports whether the owner of an object may label it as a kind of the row [Shape]: it has a pod template, and the table has no kind
// of its API group. In the groups of the table, the label decides nothing, because the policies there select by kind.
func HasShape(u *unstructured.Unstructured) bool {
	group := u.GroupVersionKind().Group
	if slices.ContainsFunc(All(), func(k Kind) bool { return k.GroupKind.Group == group }) {
		return false
	}
	_, templated, _ := unstructured.NestedMap(u.Object, "spec", "template", "spec")
	return templated
}

// Families returns the names of all policy families, with Deployments, in alphabetical order.
func Families() []string {
	list := []string{api.WorkloadTypeDeployment}
	for _, k := range All() {
		list = append(list, k.Family)
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// OfFamily returns the rows of a policy family; the family of Deployments has none.
func OfFamily(family string) []Kind {
	return slices.DeleteFunc(All(), func(k Kind) bool { return k.Family != family })
}
