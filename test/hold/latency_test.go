package hold_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// BenchmarkUpdate reports the median time of an update, first without the policies and then with them. It updates a
// Deployment without adoption, an adopted one and a held one, and measures the update that begins a release. Run it
// with -benchtime=300x; a time would not bound the set-up.
func BenchmarkUpdate(bench *testing.B) {
	b := aBench(bench)
	b.measure(bench, "without policies")
	b.withPolicies(bench)
	b.measure(bench, "with policies")
}

func (b *bench) measure(bench *testing.B, when string) {
	// The controller manager ignores paused Deployments without replicas.
	idle := func(u *unstructured.Unstructured) {
		_ = unstructured.SetNestedField(u.Object, int64(0), "spec", "replicas")
		_ = unstructured.SetNestedField(u.Object, true, "spec", "paused")
	}
	inProgress := func(u *unstructured.Unstructured) {
		_ = unstructured.SetNestedField(u.Object, `{"rolloutName":"held"}`, "metadata", "annotations", "rollouts.kruise.io/in-progressing")
	}
	parked := func(u *unstructured.Unstructured) { u.SetAnnotations(parkedMarks("held")); parkedSpec(u) }
	annotate := func(n int) string { return fmt.Sprintf(`{"metadata":{"annotations":{"n":"%d"}}}`, n) }
	release := func(n int) string {
		return fmt.Sprintf(`{"spec":{"replicas":1,"template":{"metadata":{"annotations":{"n":"%d"}}}}}`, n)
	}
	for _, c := range []struct {
		name   string
		change []func(*unstructured.Unstructured)
		body   func(n int) string
	}{
		{"unadopted", []func(*unstructured.Unstructured){idle}, annotate},
		{"adopted", []func(*unstructured.Unstructured){idle, adopted}, annotate},
		{"held", []func(*unstructured.Unstructured){idle, adopted, inProgress}, annotate},
		{"parked", []func(*unstructured.Unstructured){idle, adopted, parked}, annotate},
		{"new template", []func(*unstructured.Unstructured){idle, adopted}, release},
	} {
		bench.Run(when+"/"+c.name, func(bench *testing.B) {
			b.create(bench, "held", c.change...)
			defer b.delete(bench, "held")
			// The API server decides a dry run like any write, and no controller reacts to it.
			options := metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}}
			var took []time.Duration
			for n := 0; bench.Loop(); n++ {
				began := time.Now()
				if _, err := b.deployments.Patch(bench.Context(), "held", types.MergePatchType, []byte(c.body(n)), options); err != nil {
					bench.Fatal(err)
				}
				took = append(took, time.Since(began))
			}
			slices.Sort(took)
			bench.ReportMetric(float64(took[len(took)/2].Microseconds()), "µs/median")
			bench.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "µs/p99")
		})
	}
}
