package deploy

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"sluice.dev/sluice/test/world"
)

// TestThePageForUsersOfOpenKruiseNamesFieldsThatExist finds each field of docs/from-openkruise.md in the schema of Rollouts.
func TestThePageForUsersOfOpenKruiseNamesFieldsThatExist(t *testing.T) {
	t.Parallel()
	read := func(path string) []byte {
		text, err := os.ReadFile(filepath.Join(world.Root(), path))
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	crd := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(read("deploy/crds/rollouts.kruise.io_rollouts.yaml"), &crd.Object); err != nil {
		t.Fatal(err)
	}
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	version, _ := versions[0].(map[string]any)
	schema, _, _ := unstructured.NestedMap(version, "schema", "openAPIV3Schema")
	found := 0
	for _, line := range strings.Split(string(read("docs/from-openkruise.md")), "\n") {
		cells := strings.Split(line, "|")
		if len(cells) < 4 || !strings.HasPrefix(strings.TrimSpace(cells[2]), "same") {
			continue
		}
		for _, quoted := range regexp.MustCompile("`((?:spec|status)\\.[^`]+)`").FindAllStringSubmatch(cells[1], -1) {
			paths := []string{quoted[1]}
			switch {
			case strings.Contains(quoted[1], "<strategy>"):
				paths = []string{strings.Replace(quoted[1], "<strategy>", "canary", 1), strings.Replace(quoted[1], "<strategy>", "blueGreen", 1)}
			case strings.Contains(quoted[1], "<status>"):
				paths = []string{strings.Replace(quoted[1], "<status>", "canaryStatus", 1), strings.Replace(quoted[1], "<status>", "blueGreenStatus", 1)}
			}
			for _, path := range paths {
				found++
				if err := inSchema(schema, path); err != nil {
					t.Errorf("%s: %v", path, err)
				}
			}
		}
	}
	if found < 60 {
		t.Errorf("the page names %d fields", found)
	}
}

// inSchema finds a path such as spec.steps[].replicas.
func inSchema(schema map[string]any, path string) error {
	for _, part := range strings.Split(path, ".") {
		name, list := strings.CutSuffix(part, "[]")
		next, is, _ := unstructured.NestedMap(schema, "properties", name)
		if !is {
			return fmt.Errorf("there is no %s", part)
		}
		if schema = next; list {
			schema, _, _ = unstructured.NestedMap(next, "items")
		}
	}
	return nil
}
