package main

import "testing"

func TestEachMutantChangesTheTreeAsItIs(t *testing.T) {
	t.Chdir("../..")
	for _, m := range mutants() {
		if _, err := m.overlay(t.TempDir()); err != nil {
			t.Errorf("%s: %v", m.name, err)
		}
		if len(m.caught) == 0 {
			t.Errorf("%s: no test is named that must notice it", m.name)
		}
	}
}

func TestWhatFailedIsFoundInTheOutput(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ out, want string }{
		"a test":                   {"--- FAIL: TestA (0.1s)\n    a_test.go:7: wrong\nFAIL\n", "TestA"},
		"a law, in a plan":         {"--- FAIL: TestA (0.1s)\n    a_test.go:7: PUT x#1:409\n        laws were broken:\n          EpochMonotonic: epoch 1 came after 2\n        to see it again: go test -crash.plan='PUT x#1:409'\n", "TestA, EpochMonotonic, PUT x#1:409"},
		"a plan that did not come": {"--- FAIL: TestA (0.1s)\n    a_test.go:7: PUT x#1:409\n        what should go wrong never happened\n        to see it again: go test -crash.plan='PUT x#1:409'\nFAIL\n", ""},
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
