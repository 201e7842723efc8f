package kinds_test

import (
	"fmt"
	"regexp"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/workload/kinds"
)

func TestEveryRowIsComplete(t *testing.T) {
	t.Parallel()
	types := []string{api.WorkloadTypeCloneSet, api.WorkloadTypeDaemonSet, api.WorkloadTypeStatefulSet}
	for _, k := range kinds.All() {
		t.Run(k.GroupKind.String(), func(t *testing.T) {
			t.Parallel()
			for what, value := range map[string]string{
				"kind": k.GroupKind.Kind, "resource": k.Resource, "family": k.Family, "label of pods": k.HashLabel, "default of maxUnavailable": k.Unavailable.Default,
				"total": k.Status.Total, "updated": k.Status.Updated, "ready": k.Status.Ready, "available": k.Status.Available,
			} {
				if value == "" {
					t.Errorf("it has no %s", what)
				}
			}
			if len(k.Versions) == 0 || !slices.Contains(types, k.Type) {
				t.Errorf("it has the versions %v and the type %q", k.Versions, k.Type)
			}
			if k.HoldingField().Held == nil {
				t.Errorf("nothing holds it: %+v", k.Fields)
			}
			if found, is := kinds.Find(k.GroupKind); !is || found.GroupKind != k.GroupKind {
				t.Error("it is not found, or stands in the table twice")
			}
			for _, f := range append(k.Fields, k.Unavailable) {
				pattern := regexp.MustCompile(f.Form.Pattern())
				if len(f.Path) == 0 || f.Name == "" || !pattern.MatchString(f.Default) && f.Default != "" {
					t.Errorf("field %+v has no name, no path or no default of its form", f)
				}
				if f.Held != nil && !pattern.MatchString(fmt.Sprint(f.Held)) {
					t.Errorf("field %s is held at %v, which has not its form", f.Name, f.Held)
				}
			}
		})
	}
}

func TestRowsOfAFamilyHaveTheSameFields(t *testing.T) {
	t.Parallel()
	for _, family := range kinds.Families() {
		rows := kinds.OfFamily(family)
		if (len(rows) == 0) != (family == api.WorkloadTypeDeployment) {
			t.Errorf("family %s has %d rows", family, len(rows))
		}
		for _, k := range rows {
			if diff := cmp.Diff(rows[0].Fields, k.Fields); diff != "" {
				t.Errorf("%s (-) and %s (+) have the policies of %s, and other fields:\n%s", rows[0].GroupKind, k.GroupKind, family, diff)
			}
		}
	}
}

func TestOneRowIsKnownByItsLabel(t *testing.T) {
	t.Parallel()
	var labelled []schema.GroupKind
	for _, k := range kinds.All() {
		if k.ByLabel {
			labelled = append(labelled, k.GroupKind)
		}
	}
	if diff := cmp.Diff([]schema.GroupKind{{Group: "apps", Kind: "StatefulSet"}}, labelled); diff != "" {
		t.Errorf("the rows that are known by a label (-want +got):\n%s", diff)
	}
	if got := kinds.FindOrShape(schema.GroupKind{Group: "example.com", Kind: "Ring"}); got.GroupKind != labelled[0] {
		t.Errorf("a kind that is not in the table has the row of %s", got.GroupKind)
	}
}

func TestAManifestWithoutReplicasAsksForNone(t *testing.T) {
	t.Parallel()
	cloneSet, _ := kinds.Find(schema.GroupKind{Group: "apps.kruise.io", Kind: "CloneSet"})
	replicas, _ := cloneSet.Field(kinds.FieldReplicas)
	empty := &unstructured.Unstructured{Object: map[string]any{}}
	five := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"replicas": int64(5)}}}
	got := []string{replicas.Text(empty), replicas.RequestText(empty), replicas.Text(five), replicas.RequestText(five)}
	if diff := cmp.Diff([]string{"1", "", "5", "5"}, got); diff != "" {
		t.Errorf("the texts of spec.replicas (-want +got):\n%s", diff)
	}
}
