package validate

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"sluice.dev/sluice/pkg/api"
)

// page returns the text of docs/analysis.md.
func page(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(Root(t), "docs", "analysis.md"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// manifests returns the YAML blocks of the page.
func manifests(t *testing.T) []string {
	t.Helper()
	var list []string
	for _, block := range regexp.MustCompile("(?s)```yaml\n(.*?)```\n").FindAllStringSubmatch(page(t), -1) {
		list = append(list, block[1])
	}
	return list
}

// checkDocument applies every manifest of the page, and checks which objects the analyzer may then read.
func (s server) checkDocument(t *testing.T) {
	s.kubectl(t, "create", "namespace", "shop")
	var made []string
	for _, block := range manifests(t) {
		out, err := s.KubectlStdin(t.Context(), block, "apply", "--validate=strict", "-o", "name", "-f", "-")
		if err != nil {
			t.Errorf("%v\n%s", err, block)
		}
		made = append(made, strings.Fields(out)...)
	}
	want := []string{"analysistemplate.sluice.dev/success-rate", "clusteranalysistemplate.sluice.dev/errors-against-stable", "rollout.rollouts.kruise.io/checkout", "rollout.rollouts.kruise.io/cart",
		"role.rbac.authorization.k8s.io/sluice-analyzer-prometheus", "rolebinding.rbac.authorization.k8s.io/sluice-analyzer-prometheus"}
	if diff := cmp.Diff(want, made); diff != "" {
		t.Errorf("made by the page: %s", diff)
	}
	may := map[string]bool{}
	for _, secret := range []string{"shop/prometheus", "shop/other", "default/prometheus"} {
		may[secret] = s.analyzerMayGet(t, secret)
	}
	if diff := cmp.Diff(map[string]bool{"shop/prometheus": true, "shop/other": false, "default/prometheus": false}, may); diff != "" {
		t.Errorf("which Secrets the analyzer may get: %s", diff)
	}
}

func (s server) analyzerMayGet(t *testing.T, secret string) bool {
	t.Helper()
	namespace, name, _ := strings.Cut(secret, "/")
	review := fmt.Sprintf(`{"apiVersion":"authorization.k8s.io/v1","kind":"SubjectAccessReview","spec":{"user":"system:serviceaccount:%s:%s",
		"resourceAttributes":{"verb":"get","resource":"secrets","namespace":"%s","name":"%s"}}}`, api.DefaultNamespace, api.DefaultAnalyzer, namespace, name)
	out, err := s.KubectlStdin(t.Context(), review, "create", "-f", "-", "-o", "jsonpath={.status.allowed}")
	if err != nil {
		t.Fatal(err)
	}
	return out == "true"
}

func TestThePageNamesEveryFieldOfAnAnalysis(t *testing.T) {
	t.Parallel()
	text := page(t)
	template := schema(t, "sluice.dev_analysistemplates").Properties["spec"]
	strategy := schema(t, "rollouts.kruise.io_rollouts").Properties["spec"].Properties["strategy"]
	release := strategy.Properties["analysis"]
	fields := append(leaves("", &template), leaves("", &release)...)
	if len(fields) < 40 {
		t.Errorf("the walk found %d fields only", len(fields))
	}
	for _, field := range fields {
		if !strings.Contains(text, "| `"+field+"` |") {
			t.Errorf("no table has a row for %s", field)
		}
	}
}

// leaves returns the paths of the fields without subfields.
func leaves(path string, s *apiextensions.JSONSchemaProps) []string {
	switch {
	case s.Items != nil:
		return leaves(path+"[]", s.Items.Schema)
	case len(s.Properties) == 0:
		return []string{path}
	}
	var list []string
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		property := s.Properties[name]
		list = append(list, leaves(strings.TrimPrefix(path+"."+name, "."), &property)...)
	}
	return list
}
