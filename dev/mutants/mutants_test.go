package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func TestEachMutantChangesTheTreeAsItIs(t *testing.T) {
	t.Chdir("../..")
	for _, m := range mutants() {
		if _, err := m.overlay(t.TempDir()); err != nil {
			t.Errorf("%s: %v", m.name, err)
		}
	}
}

func TestEachMutantNamesTestsThatExist(t *testing.T) {
	t.Chdir("../..")
	for _, m := range mutants() {
		pkg, tests := m.caught[len(m.caught)-1], m.caught[len(m.caught)-2]
		var code strings.Builder
		files, err := filepath.Glob(filepath.Join(pkg, "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			code.Write(text)
		}
		for _, test := range strings.Split(tests, "|") {
			if !regexp.MustCompile(`(?m)^func ` + test).MatchString(code.String()) {
				t.Errorf("%s: %s has no test %s", m.name, pkg, test)
			}
		}
	}
}

func TestWhatFailedIsFoundInTheOutput(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ out, want string }{
		"a test":                   {"--- FAIL: TestA (0.1s)\n    a_test.go:7: wrong\nFAIL\n", "TestA"},
		"a case of a test":         {"--- FAIL: TestA (0.1s)\n    --- FAIL: TestA/b (0.0s)\n        --- FAIL: TestA/b/c (0.0s)\n            a_test.go:7: wrong\n    --- FAIL: TestA/d (0.0s)\nFAIL\n", "TestA/b/c"},
		"the first of two tests":   {"--- FAIL: TestA (0.1s)\n    a_test.go:7: wrong\n--- FAIL: TestAB (0.1s)\n    a_test.go:9: wrong\nFAIL\n", "TestA"},
		"no test but a dead build": {"FAIL sluice.dev/sluice/pkg/queue [build failed]\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := failure(c.out); got != c.want {
				t.Errorf("it is %q, want %q", got, c.want)
			}
		})
	}
}
