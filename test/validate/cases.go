// Package validate has the one table of Rollouts that must be accepted or refused. It has another one of the objects on the
// hub of a fleet. Everything that judges these objects uses them: the API server with its schemas and policies, and the parsers.
//
// It only reads the tables in pkg/api/testdata and judges nothing itself. Each Case is complete: only this
// package knows how the files abbreviate it.
package validate

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	"sigs.k8s.io/yaml"
)

// Expect is the expected result of a case.
type Expect string

// Values of Expect. Warn means accepted with a warning.
const (
	Accept Expect = "accept"
	Reject Expect = "reject"
	Warn   Expect = "warn"
)

// Case is one object, or one update of an object.
type Case struct {
	// File and Name together identify the case; Name is a sentence.
	File, Name string
	Expect     Expect
	// Message is part of the error or warning; empty when the case is accepted.
	Message string
	// Schema is set when the schema alone refuses the object, so that it never reaches a policy.
	Schema bool
	// Subresource is empty or "status".
	Subresource string
	// User is the name of the sender; empty means a cluster administrator.
	User string
	// Old is the JSON of the object before an update, nil for a creation.
	Old []byte
	// Object is the JSON of the object to judge.
	Object []byte
}

type file struct {
	Base  json.RawMessage `json:"base"`
	Cases []entry         `json:"cases"`
}

type entry struct {
	Name        string          `json:"name"`
	Expect      Expect          `json:"expect"`
	Message     string          `json:"message"`
	By          string          `json:"by"`
	Subresource string          `json:"subresource"`
	User        string          `json:"user"`
	Repeat      int             `json:"repeat"`
	Object      json.RawMessage `json:"object"`
	Old         json.RawMessage `json:"old"`
	Patch       json.RawMessage `json:"patch"`
}

// Cases returns every case of Rollouts, in the order of the files and of their entries.
func Cases(t testing.TB) []Case {
	t.Helper()
	return casesIn(t, "validate")
}

// FleetCases returns every case of the objects on the hub of a fleet. An object that is created has the name in its file.
func FleetCases(t testing.TB) []Case {
	t.Helper()
	return casesIn(t, "fleets")
}

func casesIn(t testing.TB, table string) []Case {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(Root(t), "pkg/api/testdata", table, "*.yaml"))
	if err != nil || len(names) == 0 {
		t.Fatalf("find the table %s: %d files, %v", table, len(names), err)
	}
	var cases []Case
	for _, name := range names {
		read, err := load(name)
		if err != nil {
			t.Fatal(err)
		}
		cases = append(cases, read...)
	}
	return cases
}

// Root returns the top directory of the module.
func Root(t testing.TB) string {
	t.Helper()
	_, here, _, ok := runtime.Caller(0)
	if !ok {
		t.Fatal("the source of the test is not known")
	}
	return filepath.Join(filepath.Dir(here), "..", "..")
}

func load(name string) ([]Case, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	var f file
	if err := yaml.UnmarshalStrict(text, &f); err != nil {
		return nil, fmt.Errorf("decode %s: %w", name, err)
	}
	cases := make([]Case, 0, len(f.Cases))
	for _, e := range f.Cases {
		c, err := e.complete(f.Base)
		if err != nil {
			return nil, fmt.Errorf("%s: case %q: %w", name, e.Name, err)
		}
		c.File = filepath.Base(name)
		cases = append(cases, c)
	}
	return cases, nil
}

// complete applies the entry's merge patches: old to the base, patch to the result.
func (e entry) complete(base []byte) (Case, error) {
	c := Case{Name: e.Name, Expect: e.Expect, Message: e.Message, Schema: e.By == "schema",
		Subresource: e.Subresource, User: e.User, Object: e.Object}
	if (e.Expect == Accept) != (e.Message == "") {
		return c, fmt.Errorf("a message belongs to what is refused or warned about")
	}
	if c.Object == nil {
		c.Object = base
	}
	var err error
	if e.Old != nil {
		if c.Old, err = jsonpatch.MergePatch(c.Object, e.Old); err != nil {
			return c, err
		}
		c.Object = c.Old
	}
	if e.Patch != nil {
		if c.Object, err = jsonpatch.MergePatch(c.Object, e.Patch); err != nil {
			return c, err
		}
	}
	if e.Repeat > 0 {
		c.Object, err = repeatFirstStep(c.Object, e.Repeat)
	}
	return c, err
}

func repeatFirstStep(object []byte, n int) ([]byte, error) {
	var tree map[string]any
	if err := json.Unmarshal(object, &tree); err != nil {
		return nil, err
	}
	canary := tree["spec"].(map[string]any)["strategy"].(map[string]any)["canary"].(map[string]any)
	first := canary["steps"].([]any)[0]
	steps := make([]any, n)
	for i := range steps {
		steps[i] = first
	}
	canary["steps"] = steps
	return json.Marshal(tree)
}
