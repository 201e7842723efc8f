package api_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

const crdDir = "../../deploy/crds"

// lastAppliedLimit is what client-side kubectl apply may put into annotations, in bytes.
const lastAppliedLimit = 262144

func readCRD(t *testing.T, plural string) (apiextensions.CustomResourceDefinition, []byte) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(crdDir, "rollouts.kruise.io_"+plural+".yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var crd apiextensions.CustomResourceDefinition
	if err := yaml.UnmarshalStrict(text, &crd); err != nil {
		t.Fatal(err)
	}
	return crd, text
}

func TestGeneratingAgainLeavesNoDifference(t *testing.T) {
	dir := t.TempDir()
	if out, err := exec.CommandContext(t.Context(), "go", "run", "./gen", dir).CombinedOutput(); err != nil {
		t.Fatalf("run the generator: %v\n%s", err, out)
	}
	want, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil || len(want) != 3 {
		t.Fatalf("got %d generated files, want 3 (%v)", len(want), err)
	}
	for _, name := range want {
		fresh, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		kept, err := os.ReadFile(filepath.Join(crdDir, filepath.Base(name)))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(fresh, kept) {
			t.Errorf("%s is out of date: run `go generate ./pkg/api`", filepath.Base(name))
		}
	}
}

func TestRolloutIsServedInTwoVersionsWithOneSchema(t *testing.T) {
	crd, _ := readCRD(t, "rollouts")
	versions := crd.Spec.Versions
	if len(versions) != 2 {
		t.Fatalf("got %d versions, want 2", len(versions))
	}
	type row struct {
		Name, Step, State string
		Served, Storage   bool
	}
	var got []row
	for _, v := range versions {
		columns := map[string]string{}
		for _, c := range v.AdditionalPrinterColumns {
			columns[c.Name] = c.JSONPath
		}
		got = append(got, row{v.Name, columns["CANARY_STEP"], columns["CANARY_STATE"], v.Served, v.Storage})
	}
	want := []row{
		{"v1alpha1", ".status.canaryStatus.currentStepIndex", ".status.canaryStatus.currentStepState", true, false},
		{"v1beta1", ".status.currentStepIndex", ".status.currentStepState", true, true},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(versions[0].Schema, versions[1].Schema); diff != "" {
		t.Error(diff)
	}
	if got, want := crd.Spec.Conversion.Strategy, apiextensions.NoneConverter; got != want {
		t.Errorf("got conversion %q, want %q", got, want)
	}
}

func TestTheOtherKindsAreServedAsV1alpha1Only(t *testing.T) {
	for _, plural := range []string{"trafficroutings", "rollouthistories"} {
		crd, _ := readCRD(t, plural)
		if len(crd.Spec.Versions) != 1 || crd.Spec.Versions[0].Name != "v1alpha1" {
			t.Errorf("%s: got the versions %v, want v1alpha1 alone", plural, crd.Spec.Versions)
		}
	}
}

func TestClientSideApplyCanCarryTheCRDs(t *testing.T) {
	_, text := readCRD(t, "rollouts")
	document, err := yaml.YAMLToJSON(text)
	if err != nil {
		t.Fatal(err)
	}
	if len(document) > lastAppliedLimit/2 {
		t.Errorf("the CRD has %d bytes as JSON; stay below half of the limit of %d", len(document), lastAppliedLimit)
	}
}

func TestEveryFieldIsDescribed(t *testing.T) {
	for _, plural := range []string{"rollouts", "trafficroutings", "rollouthistories"} {
		crd, _ := readCRD(t, plural)
		for _, path := range undescribed("", crd.Spec.Versions[0].Schema.OpenAPIV3Schema) {
			t.Errorf("%s: %s has no description", plural, path)
		}
	}
}

func undescribed(path string, schema *apiextensions.JSONSchemaProps) []string {
	var found []string
	for name, property := range schema.Properties {
		here := path + "." + name
		if property.Description == "" && here != ".metadata" {
			found = append(found, here)
		}
		found = append(found, undescribed(here, &property)...)
	}
	if schema.Items != nil && schema.Items.Schema != nil {
		found = append(found, undescribed(path+"[]", schema.Items.Schema)...)
	}
	slices.Sort(found)
	return found
}
