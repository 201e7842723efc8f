package script

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestNamesAreFoundAnywhereInASpec(t *testing.T) {
	t.Parallel()
	plugins := Reads{GroupVersionKind: GroupVersionKind{Kind: "Plugins"}, Field: "plugins", NamespaceField: "pluginsNamespace"}
	typed, delegates, here := plugins, plugins, plugins
	typed.Field, typed.NamespaceField, typed.KindField = "name", "namespace", "kind"
	delegates.Field, delegates.NamespaceField, delegates.Under = "name", "namespace", "delegate"
	here.NamespaceField = ""
	object := func(pairs ...any) map[string]any {
		o := map[string]any{}
		for i := 0; i < len(pairs); i += 2 {
			o[pairs[i].(string)] = pairs[i+1]
		}
		return o
	}
	for name, c := range map[string]struct {
		of   Reads
		spec any
		want []Name
	}{
		"sorted, once, at any depth": {plugins, object("plugins", "top", "rules", []any{
			object("plugins", "b", "pluginsNamespace", "edge"),
			object("plugins", "a", "deep", []any{object("plugins", "b", "pluginsNamespace", "edge")}),
		}), []Name{{"edge", "b"}, {"shop", "a"}, {"shop", "top"}}},
		"what is no text names nothing":           {plugins, object("plugins", []any{"a list"}, "pluginsNamespace", "edge", "deep", object("plugins", "", "pluginsNamespace", 7)), nil},
		"a namespace that is no text is absent":   {plugins, object("plugins", "a", "pluginsNamespace", 7), []Name{{"shop", "a"}}},
		"without a field for the namespace":       {here, object("plugins", "a", "", "elsewhere", "pluginsNamespace", "edge"), []Name{{"shop", "a"}}},
		"only beside the kind":                    {typed, []any{object("name", "a", "kind", "Plugins", "namespace", "edge"), object("name", "b"), object("name", "c", "kind", "Other")}, []Name{{"edge", "a"}}},
		"only under the key":                      {delegates, object("name", "no", "delegate", object("name", "a", "namespace", "edge", "deep", object("name", "no"))), []Name{{"edge", "a"}}},
		"under the key, in a list":                {delegates, object("delegate", []any{object("name", "a"), object("name", "b")}), []Name{{"shop", "a"}, {"shop", "b"}}},
		"a spec that is absent":                   {plugins, nil, nil},
		"a kind that is not asked for is no kind": {plugins, object("plugins", "a", "", "Other"), []Name{{"shop", "a"}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(c.want, c.of.Named(c.spec, "shop")); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
