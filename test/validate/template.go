package validate

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	"sigs.k8s.io/yaml"
)

type templateFile struct {
	Metrics struct {
		Value json.RawMessage `json:"value"`
	} `json:"metrics"`
	Cases []templateEntry `json:"cases"`
}

type templateEntry struct {
	Name    string            `json:"name"`
	Expect  Expect            `json:"expect"`
	Message string            `json:"message"`
	Args    json.RawMessage   `json:"args"`
	Metric  json.RawMessage   `json:"metric"`
	Metrics []json.RawMessage `json:"metrics"`
}

// TemplateCases returns every case of the table in pkg/api/testdata/templates. The objects are AnalysisTemplates. A
// ClusterAnalysisTemplate with the same spec must be judged alike.
func TemplateCases(t testing.TB) []Case {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(Root(t), "pkg/api/testdata/templates/*.yaml"))
	if err != nil || len(names) == 0 {
		t.Fatalf("find the table of templates: %d files, %v", len(names), err)
	}
	var cases []Case
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		var f templateFile
		if err := yaml.UnmarshalStrict(text, &f); err != nil {
			t.Fatalf("decode %s: %v", name, err)
		}
		for _, e := range f.Cases {
			c, err := e.complete(f.Metrics.Value)
			if err != nil {
				t.Fatalf("%s: case %q: %v", name, e.Name, err)
			}
			c.File = filepath.Base(name)
			cases = append(cases, c)
		}
	}
	return cases
}

func (e templateEntry) complete(metric []byte) (Case, error) {
	if (e.Expect == Accept) != (e.Message == "") {
		return Case{}, fmt.Errorf("a message belongs to what is refused")
	}
	if e.Metric != nil {
		var err error
		if metric, err = jsonpatch.MergePatch(metric, e.Metric); err != nil {
			return Case{}, err
		}
	}
	if e.Metrics == nil {
		e.Metrics = []json.RawMessage{metric}
	}
	spec := map[string]any{"metrics": e.Metrics}
	if e.Args != nil {
		spec["args"] = e.Args
	}
	object, err := json.Marshal(map[string]any{
		"apiVersion": "sluice.dev/v1alpha1", "kind": "AnalysisTemplate", "metadata": map[string]string{"name": "case"}, "spec": spec,
	})
	return Case{Name: e.Name, Expect: e.Expect, Message: e.Message, Schema: true, Object: object}, err
}
