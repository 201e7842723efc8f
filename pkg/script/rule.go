package script

import (
	"maps"
	"regexp"
	"slices"
	"strings"
)

// Comparisons that OpenKruise does not have, and the comparison that stands in for
// them.
const (
	prefix            = "Prefix"
	regularExpression = "RegularExpression"
)

// SetMatches sets the matches of a step, as JSON. Scripts of OpenKruise expect
// headers with a value or a regular expression, and treat all other parts of a match
// as headers. So they get a header with a prefix, and a cookie, as regular
// expressions. These match whole values only, in gateways that search anywhere as
// well. RFC 6265, 4.2.1 defines the header Cookie. [Input.Rules] has the matches as
// the Rollout has them.
func (in *Input) SetMatches(matches []any) {
	in.Matches, in.Rules = nil, nil
	told := false
	for _, match := range matches {
		known, changed := matchAsHeaders(match)
		in.Matches = append(in.Matches, known)
		told = told || changed
	}
	if told {
		in.Rules = matches
	}
}

// matchAsHeaders returns a match without a cookie and without prefixes of headers.
func matchAsHeaders(match any) (known any, changed bool) {
	m, ok := match.(map[string]any)
	if !ok {
		return match, false
	}
	cookie := memberOf(m, "cookie")
	list, _ := m["headers"].([]any)
	var headers []any
	for _, header := range list {
		if memberOf(header, "type") == prefix {
			header, changed = headerPattern(memberOf(header, "name"), regexp.QuoteMeta(stringOf(memberOf(header, "value")))+".*"), true
		}
		headers = append(headers, header)
	}
	if cookie != nil {
		value := stringOf(memberOf(cookie, "value"))
		if memberOf(cookie, "type") != regularExpression {
			value = regexp.QuoteMeta(value)
		}
		headers = append(headers, headerPattern("cookie", `(?:.*;\s*)?`+regexp.QuoteMeta(stringOf(memberOf(cookie, "name")))+`=(?:`+value+`)(?:;.*)?`))
		changed = true
	}
	if !changed {
		return match, false
	}
	next := map[string]any{}
	for key, value := range m {
		if key != "cookie" {
			next[key] = value
		}
	}
	next["headers"] = headers
	return next, true
}

func headerPattern(name any, whole string) map[string]any {
	return map[string]any{"type": regularExpression, "name": name, "value": "^" + whole + "$"}
}

// Tag is a header that marks requests for canaries, and the label of the canary's
// pods with the same value, if any.
type Tag struct{ Header, Value, Label string }

func (t Tag) luaObject() map[string]any {
	object := map[string]any{"header": t.Header, "value": t.Value}
	if t.Label != "" {
		object["labelKey"], object["labelValue"] = t.Label, t.Value
	}
	return object
}

// SetTag sends requests with the tag to the canary as well, and tags the requests
// that go there, in each step that sends any there. So a script carries out a tag
// without support of its own. The caller sets all other input before.
func (in *Input) SetTag(t Tag) {
	in.Tag = &t
	if in.CanaryWeight <= 0 && len(in.Matches) == 0 {
		return
	}
	if in.CanaryWeight < 100 {
		bears := map[string]any{"headers": []any{map[string]any{"type": "Exact", "name": t.Header, "value": t.Value}}}
		in.Matches = append(slices.Clip(in.Matches), bears)
		if in.Rules != nil {
			in.Rules = append(slices.Clip(in.Rules), bears)
		}
	}
	change := map[string]any{}
	if before, ok := in.RequestHeaderModifier.(map[string]any); ok {
		change = maps.Clone(before)
	}
	set, _ := change["set"].([]any)
	set = slices.DeleteFunc(slices.Clone(set), func(header any) bool { return strings.EqualFold(stringOf(memberOf(header, "name")), t.Header) })
	change["set"] = append(set, map[string]any{"name": t.Header, "value": t.Value})
	in.RequestHeaderModifier = change
}
