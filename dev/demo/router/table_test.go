package router

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

func object(t *testing.T, spec string) *unstructured.Unstructured {
	t.Helper()
	var parsed map[string]any
	if err := yaml.Unmarshal([]byte(spec), &parsed); err != nil {
		t.Fatal(err)
	}
	return &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": "shop"}, "spec": parsed}}
}

func table(t *testing.T, spec string) Table {
	t.Helper()
	parsed, err := Parse(object(t, spec))
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

const (
	atRest = `http: [{route: [{destination: {host: shop}}]}]`
	split  = `http: [{route: [{destination: {host: shop}, weight: 80}, {destination: {host: shop-canary}, weight: 20}]}]`
	full   = `http: [{route: [{destination: {host: shop.default.svc.cluster.local}, weight: 0}, {destination: {host: shop-canary.default.svc.cluster.local}, weight: 100}]}]`
	tester = `http: [{match: [{headers: {X-Tester: {exact: "yes"}}}], route: [{destination: {host: shop-canary}}]}, {route: [{destination: {host: shop}}]}]`
	paths  = `http: [{match: [{uri: {prefix: /api}, queryParams: {v: {regex: "[0-9]+"}}}, {uri: {exact: /beta}}], route: [{destination: {host: shop-canary}}]}, {route: [{destination: {host: shop}}]}]`
	closed = `http: [{match: [{headers: {x-tester: {}}}], route: [{destination: {host: shop}}]}]`
	moved  = `http: [{redirect: {uri: /}}]`
)

func TestARequestGoesWhereTheVirtualServiceSendsIt(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		spec, url string
		headers   map[string]string
		dice      float64
		want      string
	}{
		"the only destination takes all":                         {spec: atRest, dice: 0.999, want: "shop"},
		"the first 80 percent go to the first destination":       {spec: split, dice: 0.799, want: "shop"},
		"the rest goes to the second":                            {spec: split, dice: 0.8, want: "shop-canary"},
		"weight 0 takes nothing":                                 {spec: full, dice: 0, want: "shop-canary"},
		"a header that matches leads away":                       {spec: tester, headers: map[string]string{"x-tester": "yes"}, want: "shop-canary"},
		"a header of another value does not":                     {spec: tester, headers: map[string]string{"x-tester": "yes!"}, want: "shop"},
		"no header does not":                                     {spec: tester, want: "shop"},
		"a prefix of the path and a query parameter both match":  {spec: paths, url: "/api/x?v=12", want: "shop-canary"},
		"a regular expression has to match the whole value":      {spec: paths, url: "/api/x?v=12a", want: "shop"},
		"a parameter that is missing does not match":             {spec: paths, url: "/api/x", want: "shop"},
		"the second match is enough":                             {spec: paths, url: "/beta", want: "shop-canary"},
		"an exact path is no prefix":                             {spec: paths, url: "/beta/", want: "shop"},
		"an empty condition asks that the header is there":       {spec: closed, headers: map[string]string{"X-Tester": ""}, want: "shop"},
		"a request that no rule holds for goes nowhere":          {spec: closed, want: ""},
		"a rule without a route goes nowhere":                    {spec: moved, want: ""},
		"a VirtualService without rules for HTTP routes nothing": {spec: `hosts: ["*"]`, want: ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := c.url
			if url == "" {
				url = "/"
			}
			request := httptest.NewRequest("GET", url, nil)
			for name, value := range c.headers {
				request.Header.Set(name, value)
			}
			if diff := cmp.Diff(c.want, table(t, c.spec).Choose(request, c.dice)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestWhatATableSays(t *testing.T) {
	t.Parallel()
	type says struct {
		Text    string
		Share   float64
		Reaches bool
	}
	for name, c := range map[string]struct {
		spec string
		want says
	}{
		"at rest":    {atRest, says{"shop 100%", 0, false}},
		"split":      {split, says{"shop 80%, shop-canary 20%", 0.2, true}},
		"all of it":  {full, says{"shop 0%, shop-canary 100%", 1, true}},
		"by a match": {tester, says{"X-Tester exact yes -> shop-canary 100%; shop 100%", 0, true}},
		"two ways":   {paths, says{"uri prefix /api and v regex [0-9]+ or uri exact /beta -> shop-canary 100%; shop 100%", 0, true}},
		"present":    {closed, says{"x-tester present -> shop 100%", 0, false}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			parsed := table(t, c.spec)
			got := says{parsed.String(), parsed.Share("shop-canary"), parsed.Reaches("shop-canary")}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestWhatTheRouterDoesNotKnowIsAnError(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ spec, want string }{
		"another condition":            {`http: [{match: [{sourceLabels: {a: b}}], route: []}]`, "sourceLabels"},
		"another way to compare":       {`http: [{match: [{uri: {suffix: x}}]}]`, "suffix"},
		"a subset":                     {`http: [{route: [{destination: {host: a, subset: canary}}]}]`, "subset"},
		"a broken regular expression":  {`http: [{match: [{uri: {regex: "("}}]}]`, "regular expression"},
		"a match without a condition":  {`http: [{match: [{}]}]`, "without a condition"},
		"a weight below 0":             {`http: [{route: [{destination: {host: a}, weight: -1}]}]`, "-1"},
		"a rule that is none at all":   {`http: 5`, "read VirtualService shop"},
		"a weight that is no a number": {`http: [{route: [{destination: {host: a}, weight: x}]}]`, "weight"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := Parse(object(t, c.spec)); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, not one about %q", err, c.want)
			}
		})
	}
}
