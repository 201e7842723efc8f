// Package hold has the table of cases for the result of a write to an adopted workload. Its tests check the admission
// policies against the table on a real API server. The package decides nothing itself: every other implementation of
// the decision uses the same table. Its one invariant: a case means the same for each implementation.
package hold

import (
	"embed"
	"fmt"
	"maps"
	"path"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

//go:embed testdata/*.yaml
var testdata embed.FS

// Case is one update of one object.
type Case struct {
	// Name is a sentence.
	Name string
	// User is the name of the user who sends the update.
	User string
	// Old is the stored object, New the object with the user's update, and Want the object to be stored instead. Fields
	// that the API server sets by default may be absent from all three.
	Old, New, Want *unstructured.Unstructured
}

// file is the form of testdata/<kind>.yaml. Every object is a JSON merge patch, so that a case shows only its relevant
// fields.
type file struct {
	Manifest map[string]any
	Cases    []struct {
		Name, User string
		// Old and New are patches of the manifest, Want is a patch of New.
		Old, New, Want map[string]any
		// Unchanged replaces Want: the stored object stays as it is.
		Unchanged bool
	}
}

// Cases reads the table of a kind of workload, "deployment" for one.
func Cases(t testing.TB, kind string) []Case {
	t.Helper()
	name := path.Join("testdata", kind+".yaml")
	text, err := testdata.ReadFile(name)
	if err != nil {
		t.Fatalf("read the cases of a %s: %v", kind, err)
	}
	var f file
	if err := yaml.UnmarshalStrict(text, &f); err != nil {
		t.Fatalf("parse %s: %v", name, err)
	}
	var cases []Case
	seen := map[string]bool{}
	for _, c := range f.Cases {
		switch {
		case c.Name == "" || seen[c.Name]:
			t.Fatalf("%s: each case needs a name of its own, %q is none", name, c.Name)
		case c.User == "":
			t.Fatalf("%s: %q does not say which user writes", name, c.Name)
		case c.Unchanged && c.Want != nil:
			t.Fatalf("%s: %q has both want and unchanged", name, c.Name)
		}
		seen[c.Name] = true
		before, after := merge(f.Manifest, c.Old), merge(f.Manifest, c.New)
		want := merge(after, c.Want)
		if c.Unchanged {
			want = before
		}
		cases = append(cases, Case{Name: c.Name, User: c.User, Old: object(t, before), New: object(t, after), Want: object(t, want)})
	}
	return cases
}

// merge is RFC 7396 for objects: null removes, objects merge, everything else replaces.
func merge(target, patch map[string]any) map[string]any {
	merged := maps.Clone(target)
	if merged == nil {
		merged = map[string]any{}
	}
	for key, value := range patch {
		fields, isObject := value.(map[string]any)
		switch {
		case value == nil:
			delete(merged, key)
		case isObject:
			under, _ := merged[key].(map[string]any)
			merged[key] = merge(under, fields)
		default:
			merged[key] = value
		}
	}
	return merged
}

// object copies content, with the number types that unstructured objects need.
func object(t testing.TB, content map[string]any) *unstructured.Unstructured {
	t.Helper()
	text, err := yaml.Marshal(content)
	if err == nil {
		text, err = yaml.YAMLToJSON(text)
	}
	u := &unstructured.Unstructured{}
	if err == nil {
		err = u.UnmarshalJSON(text)
	}
	if err != nil {
		t.Fatal(fmt.Errorf("read the object of a case: %w", err))
	}
	return u
}
