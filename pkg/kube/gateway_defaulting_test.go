package kube

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestWhichSpecsAreKnownToBeKept(t *testing.T) {
	t.Parallel()
	gvr := schema.GroupVersionResource{Group: "g", Version: "v1", Resource: "routes"}
	rule := func(fields ...any) map[string]any {
		m := map[string]any{}
		for i := 0; i < len(fields); i += 2 {
			m[fields[i].(string)] = fields[i+1]
		}
		return m
	}
	of := func(rules ...any) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"http": rules}}}
	}
	seen := of(rule("host", "a", "weight", int64(100)))
	cases := map[string]struct {
		spec *unstructured.Unstructured
		want bool
	}{
		"other values":               {of(rule("host", "b", "weight", int64(20))), true},
		"more of the same":           {of(rule("host", "a", "weight", int64(80)), rule("host", "b", "weight", int64(20))), true},
		"a field more":               {of(rule("host", "b", "weight", int64(20), "port", int64(1))), false},
		"a field less":               {of(rule("host", "b")), false},
		"the same field, elsewhere":  {of(rule("host", "b", "weight", rule("weight", int64(1)))), false},
		"null, which may be removed": {of(rule("host", nil, "weight", int64(1))), false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSpecShapes()
			s.learnSpec(gvr, seen)
			if got := s.keepsSpec(gvr, c.spec); got != c.want {
				t.Errorf("keeps: %t, want %t", got, c.want)
			}
			s.markUnreliable(gvr)
			s.learnSpec(gvr, c.spec)
			if s.keepsSpec(gvr, c.spec) {
				t.Error("a resource that has changed what it was given is relied on again")
			}
		})
	}
}
