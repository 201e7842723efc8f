package simulate

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// replaced returns the objects of a release with constant capacity, for a workload with the given number of pods.
func replaced(t *testing.T, replicas int64, steps ...any) []*unstructured.Unstructured {
	t.Helper()
	all := objects(t, "examples/seeds/istio-walkthrough")
	for _, o := range all {
		var errs []error
		switch o.GetKind() {
		case "Rollout":
			errs = append(errs, unstructured.SetNestedField(o.Object, false, "spec", "strategy", "canary", "enableExtraWorkloadForCanary"),
				unstructured.SetNestedSlice(o.Object, steps, "spec", "strategy", "canary", "steps"))
		case "Deployment":
			errs = append(errs, unstructured.SetNestedField(o.Object, replicas, "spec", "replicas"))
		}
		for _, err := range errs {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	return all
}

func aStep(replicas any, traffic string, accepted bool) map[string]any {
	return map[string]any{"replicas": replicas, "traffic": traffic, "allowFullStep": accepted}
}

func TestTheResultOfEachStepIsTold(t *testing.T) {
	t.Parallel()
	last := aStep("100%", "100%", false)
	for name, tt := range map[string]struct {
		objects []*unstructured.Unstructured
		want    []string // a line for each step, and the refusals
	}{
		"a canary takes no stable pod": {objects(t, "examples/seeds/istio-walkthrough"), []string{
			"Step 1 of 3: traffic matches, pods: 1 new, 3 stable", "Step 2 of 3: traffic 50%, pods: 2 new, 3 stable", "Step 3 of 3: traffic 80%, pods: 3 new, 3 stable"}},
		"pods in place": {replaced(t, 4, aStep("25%", "10%", false), last), []string{
			"Step 1 of 2: traffic 10%, pods: 1 new, 3 stable", "Step 2 of 2: traffic 100%, pods: 4 new, 0 stable"}},
		"a single pod is refused": {replaced(t, 1, aStep("10%", "10%", false), last), []string{
			"refused FullStep: Step 1 asks for 10% of the pods and 10% of the traffic, but Deployment workload-demo has 1 pod"}},
		"a single pod that is accepted is all, so that nothing is left for the last step": {replaced(t, 1, aStep("10%", "10%", true), last), []string{
			"Step 1 of 2: traffic 100%, pods: 1 new, 0 stable"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			report := played(t, of(t, tt.objects))
			var got []string
			for _, p := range report.Phases {
				if p.Result != nil {
					got = append(got, p.Name+": "+p.Result.String())
				}
			}
			for _, refusal := range report.Refusals {
				text, _, _ := strings.Cut(refusal.Message, ", and the step")
				got = append(got, "refused "+refusal.Reason+": "+text)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// The manifests of the new version no longer contain a ConfigMap that pods of the stable version name.
func TestWhatStablePodsMayLoseIsInThePlan(t *testing.T) {
	t.Parallel()
	const named = "web-7b2fk9mgtd"
	all := objects(t, "examples/seeds/istio-walkthrough")
	var next *unstructured.Unstructured
	for _, o := range all {
		if o.GetKind() != "Deployment" {
			continue
		}
		next = o.DeepCopy()
		containers, _, _ := unstructured.NestedSlice(o.Object, "spec", "template", "spec", "containers")
		containers[0].(map[string]any)["envFrom"] = []any{map[string]any{"configMapRef": map[string]any{"name": named}}}
		if err := unstructured.SetNestedSlice(o.Object, containers, "spec", "template", "spec", "containers"); err != nil {
			t.Fatal(err)
		}
	}
	report := played(t, of(t, append(all, next)))
	if len(report.Warnings) != 1 || !strings.Contains(report.Warnings[0], "ConfigMap "+named) || len(report.Refusals) > 0 {
		t.Errorf("warnings %q, refusals %v", report.Warnings, report.Refusals)
	}
}
