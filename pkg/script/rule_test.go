package script

import (
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A cookie is found at any place in its header, and no other text is.
func TestACookieIsToldAsAPatternOfItsHeader(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		cookie map[string]any
		yes    []string
		no     []string
	}{
		{
			map[string]any{"name": "group", "value": "beta.1"},
			[]string{"group=beta.1", "a=b; group=beta.1", "group=beta.1; a=b", "a=b;group=beta.1;c=d"},
			[]string{"", "group=beta21", "group=beta.12", "agroup=beta.1", "group=beta", "other=group=beta.1", "Group=beta.1"},
		},
		{
			map[string]any{"name": "group", "type": "RegularExpression", "value": "a|b"},
			[]string{"group=a", "x=y; group=b; z=1"}, []string{"group=ab", "group=c", "xgroup=a"},
		},
	} {
		var in Input
		in.SetMatches([]any{map[string]any{"cookie": c.cookie}})
		header := in.Matches[0].(map[string]any)["headers"].([]any)[0]
		of := regexp.MustCompile(memberOf(header, "value").(string))
		for _, text := range c.yes {
			if !of.MatchString(text) {
				t.Errorf("%v is not found in %q", c.cookie, text)
			}
		}
		for _, text := range c.no {
			if of.MatchString(text) {
				t.Errorf("%v is found in %q", c.cookie, text)
			}
		}
	}
}

// Scripts of OpenKruise get the matches in OpenKruise's form, and other scripts in
// the form of the Rollout.
func TestWhatAMatchHasBeyondOpenKruisesIsToldByHeaders(t *testing.T) {
	t.Parallel()
	plain := []any{map[string]any{"headers": []any{map[string]any{"name": "a", "value": "b"}}}}
	var in Input
	in.SetMatches(plain)
	if diff := cmp.Diff(Input{Matches: plain}, in); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	written := []any{map[string]any{
		"path": map[string]any{"value": "/"}, "cookie": map[string]any{"name": "c", "value": "d"},
		"headers": []any{map[string]any{"type": "Prefix", "name": "a", "value": "b."}, map[string]any{"name": "e", "value": "f"}},
	}}
	in.SetMatches(written)
	told := []any{map[string]any{"path": map[string]any{"value": "/"}, "headers": []any{
		map[string]any{"type": "RegularExpression", "name": "a", "value": `^b\..*$`}, map[string]any{"name": "e", "value": "f"},
		map[string]any{"type": "RegularExpression", "name": "cookie", "value": `^(?:.*;\s*)?c=(?:d)(?:;.*)?$`},
	}}}
	if diff := cmp.Diff(Input{Matches: told, Rules: written}, in); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	exact := &Capabilities{Headers: []string{"Exact"}, And: true, SharedService: true}
	in.CanaryWeight = NoWeight
	if got, want := exact.StepRefusal(in), "matches[0]: it cannot route by a cookie"; got != want {
		t.Errorf("want %q, got %q", want, got)
	}
	in.SetMatches([]any{map[string]any{"headers": []any{map[string]any{"type": "Prefix", "name": "a", "value": "b"}}}})
	if got, want := exact.StepRefusal(in), "matches[0]: it compares headers by Exact, not by Prefix"; got != want {
		t.Errorf("want %q, got %q", want, got)
	}
}
