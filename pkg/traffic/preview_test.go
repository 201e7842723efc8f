package traffic

import (
	"strings"
	"testing"

	luaconfiguration "sluice.dev/sluice/lua_configuration"
	"sluice.dev/sluice/pkg/script"
	"sluice.dev/sluice/pkg/script/cases"
)

// CheckOutput tells a user who tries a script whether a release would refuse its output. It accepts the output of built-in scripts for all their cases.
func TestJudgeSaysWhatAReleaseWouldSay(t *testing.T) {
	t.Parallel()
	all, err := cases.LoadAll(luaconfiguration.FS)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range all {
		for i, want := range c.Expected {
			made := script.Output{Spec: want["spec"]}
			if i < len(c.Created) {
				made.Create = c.Created[i]
			}
			if err := CheckOutput(c.Steps[i], made); err != nil {
				t.Errorf("%s, step %d: %v", c.Path, i+1, err)
			}
		}
	}
	backends := func(list ...any) any { return map[string]any{"backends": list} }
	backend := func(name string, weight int64) any { return map[string]any{"name": name, "weight": weight} }
	in := script.Input{Spec: backends(backend("web", 100)), StableService: "web", CanaryService: "web-canary", CanaryWeight: 20}
	for name, tt := range map[string]struct {
		made any
		want string
	}{
		"a backend of nobody's": {backends(backend("web", 80), backend("other", 20)), "adds the backend other"},
		"a lost backend":        {backends(backend("web-canary", 20)), "drops the backend web"},
		"nothing":               {backends(backend("web", 100)), "no rule that the script changes leads to Service web"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if err := CheckOutput(in, script.Output{Spec: tt.made}); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}
