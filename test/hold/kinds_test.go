package hold_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/workload/kinds"
	"sluice.dev/sluice/test/hold"
)

const policies = "../../deploy/policies/"

// TestEveryKind checks the policies of all other kinds against the table of kinds. OpenKruise's kinds are installed
// after the policies.
func TestEveryKind(t *testing.T) {
	b := aBench(t)
	for _, family := range kinds.Families() {
		b.kubectl(t, "", "apply", "-f", policies+"hold-"+family+".yaml", "-f", policies+"guard-"+family+".yaml")
	}
	b.installKinds(t)
	b.everyKind(t)
}

// TestEveryKindByWebhook does the same without the policies.
func TestEveryKindByWebhook(t *testing.T) {
	b := aBench(t).withWebhook(t)
	b.installKinds(t)
	b.everyKind(t)
}

// installKinds creates definitions of OpenKruise's kinds, and of an unknown one. They accept all fields.
func (b *bench) installKinds(t *testing.T) {
	t.Helper()
	const kruise = "apps.kruise.io"
	for _, k := range []struct {
		group, kind string
		versions    []string
	}{
		{kruise, "StatefulSet", []string{"v1beta1", "v1alpha1"}}, {kruise, "DaemonSet", []string{"v1alpha1"}}, {kruise, "CloneSet", []string{"v1alpha1"}},
		{"games.example.com", "Server", []string{"v1"}},
	} {
		plural, text := strings.ToLower(k.kind)+"s", ""
		for i, version := range k.versions {
			text += fmt.Sprintf(`
  - {name: %s, served: true, storage: %t, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}`, version, i == 0)
		}
		b.kubectl(t, fmt.Sprintf(`apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: %[1]s.%[5]s}
spec:
  group: %[5]s
  scope: Namespaced
  names: {kind: %[2]s, listKind: %[2]sList, plural: %[1]s, singular: %[3]s}
  versions:%[4]s
`, plural, k.kind, strings.ToLower(k.kind), text, k.group), "apply", "-f", "-")
		b.kubectl(t, "", "wait", "--for=condition=Established", "crd/"+plural+"."+k.group, "--timeout=600s")
	}
}

func (b *bench) everyKind(t *testing.T) {
	for k, kind := range hold.Kinds(t) {
		t.Run(kind.Name, func(t *testing.T) {
			t.Parallel()
			b.of(t, kind.Resource).kindInForce(t, kind)
			for i, c := range kind.Cases {
				t.Run(c.Name, func(t *testing.T) {
					b.of(t, kind.Resource).decides(t, fmt.Sprintf("kind-%d-%d", k, i), c)
				})
			}
		})
	}
}

// of returns the same bench with another kind of workload instead of Deployments.
func (b *bench) of(t testing.TB, resource schema.GroupVersionResource) *bench {
	t.Helper()
	with := *b
	with.resource = resource
	return with.as(t, b.user)
}

// kindInForce waits until a hold and a guard of the kind take effect. A manifest without fields of Sluice begins a
// release of the workload of the first case: the guard restores the label, the hold adds its annotation.
func (b *bench) kindInForce(t *testing.T, kind hold.Kind) {
	t.Helper()
	c := kind.Cases[0]
	probe := "probe-" + strings.ReplaceAll(strings.ToLower(kind.Name), " ", "-")
	old, update := c.Old.DeepCopy(), c.New.DeepCopy()
	rename(probe, old, update)
	update.SetLabels(nil)
	update.SetAnnotations(nil)
	if _, err := b.deployments.Create(t.Context(), old, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	b.until(t, func() bool {
		stored := b.get(t, probe)
		update.SetResourceVersion(stored.GetResourceVersion())
		got, err := b.deployments.Update(t.Context(), update, metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}})
		return err == nil && got.GetAnnotations()[api.AnnotationInProgressing] != "" && got.GetLabels()[api.LabelWorkloadType] != ""
	})
}

// decides sends a case twice and compares the stored objects.
func (b *bench) decides(t *testing.T, name string, c hold.Case) {
	t.Helper()
	rename(name, c.Old, c.New, c.Want)
	created, err := b.deployments.Create(t.Context(), c.Old, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	by := b.as(t, c.User)
	update := func() *unstructured.Unstructured {
		t.Helper()
		for {
			sent := c.New.DeepCopy()
			sent.SetResourceVersion(b.get(t, name).GetResourceVersion())
			got, err := by.deployments.Update(t.Context(), sent, metav1.UpdateOptions{})
			if err == nil {
				return got
			}
			if !strings.Contains(err.Error(), "the object has been modified") { // by the controller manager
				t.Fatal(err)
			}
		}
	}
	got := update()
	rename(name+"-wanted", c.Want)
	want, err := b.deployments.Create(t.Context(), c.Want, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(decided(want), decided(got)); diff != "" {
		t.Errorf("stored (+) is not what was wanted (-):\n%s", diff)
	}
	if strings.Contains(c.Name, "changes nothing") && got.GetGeneration() != created.GetGeneration() {
		t.Errorf("the generation went from %d to %d", created.GetGeneration(), got.GetGeneration())
	}
	if _, exported := c.New.GetAnnotations()[api.AnnotationInProgressing]; exported || c.User != alice {
		return // the second update has values that were the executor's at first, and are the user's values now
	}
	again := update()
	if cmp.Diff(decided(got), decided(again)) != "" {
		t.Errorf("the second time it is changed again:\n%s", cmp.Diff(decided(got), decided(again)))
	}
}

func TestThePoliciesOfAllKindsMatchAndDecideInTheSameWords(t *testing.T) {
	t.Parallel()
	release := readPolicy(t, holdPolicy).expression("is-a-release")
	files, err := filepath.Glob(policies + "hold-*.yaml")
	if err != nil || len(files) != len(kinds.Families()) {
		t.Fatalf("the policies are %v: %v", files, err)
	}
	for _, file := range files {
		hold, guard := readPolicy(t, file), readPolicy(t, strings.Replace(file, "/hold-", "/guard-", 1))
		if diff := cmp.Diff(hold.Spec.MatchConstraints, guard.Spec.MatchConstraints); diff != "" {
			t.Errorf("%s: hold (-) and guard (+) match other requests:\n%s", file, diff)
		}
		if hold.expression("is-a-release") != release || guard.expression("isRelease") != release {
			t.Errorf("%s: what is a release differs", file)
		}
		for _, p := range []policy{hold, guard} {
			got := []any{p.Spec.FailurePolicy, p.Spec.ReinvocationPolicy, p.Spec.ParamKind}
			if diff := cmp.Diff([]any{"Fail", "IfNeeded", nil}, got); diff != "" {
				t.Errorf("%s: %s", file, diff)
			}
		}
	}
}
