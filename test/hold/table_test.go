package hold_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"sluice.dev/sluice/test/hold"
)

func thePoliciesDecideAsTheTableSays(t *testing.T, b *bench) {
	for i, c := range hold.Cases(t, "deployment") {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			rename(fmt.Sprintf("case-%d", i), c.Old, c.New)
			if _, err := b.deployments.Create(t.Context(), c.Old, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			got, err := b.as(t, c.User).deployments.Update(t.Context(), c.New, metav1.UpdateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			// No policy changes a create, so its answer is the wanted object with the defaults of the API server.
			rename(fmt.Sprintf("case-%d-wanted", i), c.Want)
			want, err := b.deployments.Create(t.Context(), c.Want, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(decided(want), decided(got)); diff != "" {
				t.Errorf("stored (+) is not what was wanted (-):\n%s", diff)
			}
		})
	}
}

func rename(name string, objects ...*unstructured.Unstructured) {
	for _, u := range objects {
		u.SetName(name)
	}
}

// decided returns the part of an object that a case describes: all fields that users write. The real controller manager
// takes part in the test, and writes its revision at any time.
func decided(u *unstructured.Unstructured) map[string]any {
	annotations := u.GetAnnotations()
	if annotations[revision] == "1" {
		delete(annotations, revision)
	}
	// The API server counts templates of a DaemonSet.
	delete(annotations, "deprecated.daemonset.template.generation")
	labels := u.GetLabels()
	if len(labels) == 0 {
		labels = nil
	}
	if len(annotations) == 0 {
		annotations = nil
	}
	return map[string]any{"labels": labels, "annotations": annotations, "spec": u.Object["spec"]}
}
