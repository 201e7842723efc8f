package router

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
)

// match matches a request if all its parts match, as Istio's HTTPMatchRequest.
type match struct {
	Name        string           `json:"name"` // a comment
	URI         *text            `json:"uri"`
	Headers     map[string]*text `json:"headers"`
	QueryParams map[string]*text `json:"queryParams"`
}

// text is Istio's StringMatch: one of three ways; without any, it only requires a value.
type text struct {
	Exact  *string `json:"exact"`
	Prefix *string `json:"prefix"`
	Regex  *string `json:"regex"`

	whole *regexp.Regexp
}

func (m *match) compile() error {
	parts := []*text{m.URI}
	parts = slices.AppendSeq(parts, maps.Values(m.Headers))
	parts = slices.AppendSeq(parts, maps.Values(m.QueryParams))
	for _, t := range parts {
		if t == nil || t.Regex == nil {
			continue
		}
		var err error
		// A regular expression of Istio is RE2, and must match the whole text.
		if t.whole, err = regexp.Compile(`\A(?:` + *t.Regex + `)\z`); err != nil {
			return fmt.Errorf("read the regular expression %q: %w", *t.Regex, err)
		}
	}
	if m.URI == nil && len(m.Headers) == 0 && len(m.QueryParams) == 0 {
		return errors.New("a match without a condition holds for no request")
	}
	return nil
}

func (m *match) holds(request *http.Request) bool {
	if m.URI != nil && !m.URI.holds(request.URL.Path, true) {
		return false
	}
	for name, t := range m.Headers {
		if values, there := request.Header[http.CanonicalHeaderKey(name)]; !t.holds(strings.Join(values, ","), there) {
			return false
		}
	}
	query := request.URL.Query()
	for name, t := range m.QueryParams {
		if !t.holds(query.Get(name), query.Has(name)) {
			return false
		}
	}
	return true
}

func (t *text) holds(value string, there bool) bool {
	switch {
	case !there:
		return false
	case t == nil:
		return true
	case t.Exact != nil:
		return value == *t.Exact
	case t.Prefix != nil:
		return strings.HasPrefix(value, *t.Prefix)
	case t.whole != nil:
		return t.whole.MatchString(value)
	}
	return true
}

func (m *match) String() string {
	var parts []string
	if m.URI != nil {
		parts = append(parts, "uri "+m.URI.String())
	}
	for _, by := range []map[string]*text{m.Headers, m.QueryParams} {
		for _, name := range slices.Sorted(maps.Keys(by)) {
			parts = append(parts, name+" "+by[name].String())
		}
	}
	return strings.Join(parts, " and ")
}

func (t *text) String() string {
	switch {
	case t == nil:
		return "present"
	case t.Exact != nil:
		return "exact " + *t.Exact
	case t.Prefix != nil:
		return "prefix " + *t.Prefix
	case t.Regex != nil:
		return "regex " + *t.Regex
	}
	return "present"
}
