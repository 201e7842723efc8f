package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTheTestsThatFailedAreFound(t *testing.T) {
	t.Parallel()
	for sentence, c := range map[string]struct {
		said string
		want []string
	}{
		"one test":                        {"--- PASS: TestA (0.0s)\n--- FAIL: TestB (0.0s)\nFAIL\n", []string{"TestB"}},
		"a subtest, and not its test":     {"--- FAIL: TestB (0.0s)\n    --- FAIL: TestB/one (0.0s)\n", []string{"TestB/one"}},
		"the end of the process, by name": {"panic: test timed out\n", []string{"no test by name"}},
	} {
		t.Run(sentence, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(c.want, failedIn(c.said)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
