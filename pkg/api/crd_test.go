package api_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"sluice.dev/sluice/pkg/api"
)

const crdDir = "../../deploy/crds"

// lastAppliedLimit is what client-side kubectl apply may put into annotations, in bytes.
const lastAppliedLimit = 262144

// crds are the CRDs by their plural names.
func crds() []string {
	return []string{"rollouts", "trafficroutings", "rollouthistories", "analysistemplates", "clusteranalysistemplates",
		"fleetmembers", "fleetplans", "fleetrollouts", "fleettargets"}
}

func readCRD(t *testing.T, plural string) (apiextensions.CustomResourceDefinition, []byte) {
	t.Helper()
	group := api.Group
	if strings.HasSuffix(plural, "analysistemplates") || strings.HasPrefix(plural, "fleet") {
		group = api.GroupSluice
	}
	text, err := os.ReadFile(filepath.Join(crdDir, group+"_"+plural+".yaml"))
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
	generate := exec.CommandContext(t.Context(), "go", "run", "./gen", dir)
	generate.Env = append(os.Environ(), "CGO_ENABLED=0") // compiled like all else, also under the race detector
	if out, err := generate.CombinedOutput(); err != nil {
		t.Fatalf("run the generator: %v\n%s", err, out)
	}
	want, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil || len(want) != len(crds()) {
		t.Fatalf("got %d generated files, want %d (%v)", len(want), len(crds()), err)
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
	for _, plural := range crds()[1:] {
		crd, _ := readCRD(t, plural)
		if len(crd.Spec.Versions) != 1 || crd.Spec.Versions[0].Name != "v1alpha1" {
			t.Errorf("%s: got the versions %v, want v1alpha1 alone", plural, crd.Spec.Versions)
		}
	}
}

// Argo Rollouts has kinds of these names too, with the short names at and cat: ours must not be taken for them.
func TestTemplatesOfANamespaceAndOfTheClusterDifferByTheirScopeAlone(t *testing.T) {
	own, _ := readCRD(t, "analysistemplates")
	shared, _ := readCRD(t, "clusteranalysistemplates")
	if diff := cmp.Diff(own.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"], shared.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]); diff != "" {
		t.Error(diff)
	}
	type names struct {
		Name, Kind, Group, Scope string
		Short, Categories        []string
	}
	var got []names
	for _, crd := range []apiextensions.CustomResourceDefinition{own, shared} {
		got = append(got, names{crd.Name, crd.Spec.Names.Kind, crd.Spec.Group, string(crd.Spec.Scope), crd.Spec.Names.ShortNames, crd.Spec.Names.Categories})
	}
	want := []names{
		{"analysistemplates.sluice.dev", api.KindAnalysisTemplate, api.GroupSluice, "Namespaced", []string{"sat"}, []string{"sluice"}},
		{"clusteranalysistemplates.sluice.dev", api.KindClusterAnalysisTemplate, api.GroupSluice, "Cluster", []string{"csat"}, []string{"sluice"}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestThePlanOfAFleetRolloutIsThatOfAFleetPlan(t *testing.T) {
	plan, _ := readCRD(t, "fleetplans")
	rollout, _ := readCRD(t, "fleetrollouts")
	want := plan.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"].Properties
	delete(want, "namespaces")
	own := rollout.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties
	got := map[string]apiextensions.JSONSchemaProps{}
	for field := range want {
		got[field] = own["spec"].Properties[field]
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("spec (-plan +rollout): %s", diff)
	}
	if diff := cmp.Diff(want, own["status"].Properties["plan"].Properties); diff != "" {
		t.Errorf("status.plan (-plan +rollout): %s", diff)
	}
}

func TestKindsOfAHubAreFoundByTheirShortNames(t *testing.T) {
	type names struct {
		Kind, Scope string
		Short       []string
		Status      bool
	}
	got := map[string]names{}
	for _, plural := range []string{"fleetmembers", "fleetplans", "fleetrollouts", "fleettargets"} {
		crd, _ := readCRD(t, plural)
		subresources := crd.Spec.Versions[0].Subresources
		got[crd.Name] = names{crd.Spec.Names.Kind, string(crd.Spec.Scope), crd.Spec.Names.ShortNames, subresources != nil && subresources.Status != nil}
		if diff := cmp.Diff([]string{"sluice"}, crd.Spec.Names.Categories); diff != "" {
			t.Errorf("%s: %s", crd.Name, diff)
		}
	}
	want := map[string]names{
		"fleetmembers.sluice.dev":  {api.KindFleetMember, "Cluster", []string{"fm"}, true},
		"fleetplans.sluice.dev":    {api.KindFleetPlan, "Cluster", []string{"fp"}, false},
		"fleetrollouts.sluice.dev": {api.KindFleetRollout, "Namespaced", []string{"fro"}, true},
		"fleettargets.sluice.dev":  {api.KindFleetTarget, "Namespaced", []string{"ft"}, false},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestClientSideApplyCanCarryTheCRDs(t *testing.T) {
	for _, plural := range crds() {
		_, text := readCRD(t, plural)
		document, err := yaml.YAMLToJSON(text)
		if err != nil {
			t.Fatal(err)
		}
		if len(document) > lastAppliedLimit/2 {
			t.Errorf("%s: the CRD has %d bytes as JSON; stay below half of the limit of %d", plural, len(document), lastAppliedLimit)
		}
	}
}

func TestEveryFieldIsDescribed(t *testing.T) {
	for _, plural := range crds() {
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
