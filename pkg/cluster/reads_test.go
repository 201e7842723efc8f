package cluster

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"sluice.dev/sluice/pkg/script"
)

func TestNamesAreFoundAnywhereInASpec(t *testing.T) {
	t.Parallel()
	of := script.Reads{Field: "plugins", NamespaceField: "pluginsNamespace"}
	spec := map[string]any{
		"plugins": "top",
		"rules": []any{
			map[string]any{"plugins": "b", "pluginsNamespace": "edge"},
			map[string]any{"plugins": "a", "deep": []any{map[string]any{"plugins": "b", "pluginsNamespace": "edge"}}},
			map[string]any{"plugins": []any{"a list"}, "pluginsNamespace": "edge"},
			map[string]any{"plugins": "", "pluginsNamespace": 7},
		},
	}
	want := []types.NamespacedName{{Namespace: "edge", Name: "b"}, {Namespace: "shop", Name: "a"}, {Namespace: "shop", Name: "top"}}
	if diff := cmp.Diff(want, namedIn(spec, of, "shop")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	of.NamespaceField = ""
	if got := namedIn(map[string]any{"plugins": "a", "": "elsewhere"}, of, "shop"); len(got) != 1 || got[0].Namespace != "shop" {
		t.Errorf("without a field for the namespace: %v", got)
	}
}
