package color

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sluice.dev/sluice/pkg/diff"
)

func TestDifferencesAreUnifiedDiffsOfYAML(t *testing.T) {
	t.Parallel()
	one := map[string]any{"spec": map[string]any{"a": 1, "b": []any{"x"}}}
	two := map[string]any{"spec": map[string]any{"a": 1, "b": []any{"y"}}}
	for name, tt := range map[string]struct {
		before, after map[string]any
		want          string
	}{
		"equal":    {one, map[string]any{"spec": map[string]any{"b": []any{"x"}, "a": int64(1)}}, ""},
		"nothing":  {nil, nil, ""},
		"a change": {one, two, "--- was\n+++ is\n@@ -1,4 +1,4 @@\n spec:\n   a: 1\n   b:\n-  - x\n+  - \"y\""},
		"new":      {nil, one, "--- was\n+++ is\n@@ -0,0 +1,4 @@\n+spec:\n+  a: 1\n+  b:\n+  - x"},
		"gone":     {two, nil, "--- was\n+++ is\n@@ -1,4 +0,0 @@\n-spec:\n-  a: 1\n-  b:\n-  - \"y\""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			lines, err := diff.CompareObjects("was", tt.before, "is", tt.after)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, strings.Join(lines, "\n")); diff != "" {
				t.Error(diff)
			}
		})
	}
	lines := []string{"--- was", "+++ is", "@@ -1 +1 @@", " same", "-old", "+new"}
	want := []string{"\x1b[1m--- was\x1b[0m", "\x1b[1m+++ is\x1b[0m", "\x1b[36m@@ -1 +1 @@\x1b[0m", " same", "\x1b[31m-old\x1b[0m", "\x1b[32m+new\x1b[0m"}
	if diff := cmp.Diff(want, PaintDiff(lines, Ink{On: true})); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(lines, PaintDiff(lines, Ink{})); diff != "" {
		t.Error(diff)
	}
}
