package script

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

func TestTheScriptOfAnIngressClassIsTheConfigMapsFirst(t *testing.T) {
	t.Parallel()
	tree := fstest.MapFS{
		"trafficrouting_ingress/nginx.lua":               {Data: []byte(`return { from = "built-in" }`)},
		"trafficrouting_ingress/nginx.capabilities.yaml": {Data: []byte(`weights: true`)},
	}
	own := ConfigMap{Name: "a/b", Data: map[string]string{"lua.traffic.routing.ingress.nginx": `return { from = "own" }`, "lua.traffic.routing.ingress.bfe": `return {}`}}
	library := NewLibrary(tree, "")
	for _, c := range []struct {
		class string
		cm    ConfigMap
		want  string
	}{
		{"nginx", ConfigMap{}, "built-in"}, {"nginx", own, "own"},
		{"bfe", ConfigMap{}, "no script for the Ingress class bfe"}, {"../nginx", own, `"../nginx" is no class`}, {"a/b", own, `"a/b" is no class`},
	} {
		source, err := library.FindIngress(c.class, c.cm)
		if err != nil {
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %v", c.class, err)
			}
			continue
		}
		copies, err := source.RenderIngress(t.Context(), Input{CanaryWeight: 20, CanaryService: "b"}, Limits{})
		if err != nil {
			t.Error(err)
		}
		if diff := cmp.Diff([]Copy{{Annotations: map[string]string{"from": c.want}}}, copies); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.class, diff)
		}
	}
	if kinds := library.ListKinds(own); len(kinds) != 0 {
		t.Errorf("classes count as kinds: %v", kinds)
	}
}

// Sluice reads the additions to OpenKruise's returned table, or refuses them and
// names the place of the error.
func TestWhatAScriptMayReturnBeyondTheObject(t *testing.T) {
	t.Parallel()
	const whole = `{apiVersion = "v1", kind = "ConfigMap", metadata = {name = "a"}}`
	for source, want := range map[string]string{
		`return {spec = {}, create = {` + whole + `}, delete = {{apiVersion = "v1", kind = "ConfigMap", name = "b"}}}`: "",
		`return {spec = {}, create = {}, delete = {}}`:                                                                 "",
		`return {spec = {}, create = {{kind = "ConfigMap"}}}`:                                                          "create[1] in the returned table needs apiVersion, kind and metadata.name",
		`return {spec = {}, create = "a"}`:                                                                             "create in the returned table must be a list, not string",
		`return {spec = {}, create = {"a"}}`:                                                                           "create[1] in the returned table must be a table, not string",
		`return {spec = {}, delete = {{kind = "ConfigMap"}}}`:                                                          "delete[1] in the returned table needs apiVersion, kind and name",
		`return {unsupported = "it has no weights"}`:                                                                   "it has no weights",
		`return {unsupported = 5}`:                                                                                     "unsupported in the returned table must be a text",
		`return {spec = {}, create = {{apiVersion = "v1", kind = "Pod", metadata = {name = "a"}}}}`:                    "the script makes a Pod of v1, which is not among what its capabilities say that it creates",
	} {
		s := Source{Program: compiledFrom(t, source), Capabilities: &Capabilities{Weights: true, SharedService: true, Creates: []GroupVersionKind{{"v1", "ConfigMap"}}}}
		_, err := s.Render(t.Context(), Input{Spec: map[string]any{}, CanaryWeight: 20}, Limits{})
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s\nwant %q, got %v", source, want, err)
		}
	}
}
