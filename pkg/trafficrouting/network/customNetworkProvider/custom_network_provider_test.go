package customNetworkProvider

import (
	"os"
	"strings"
	"testing"

	"sluice.dev/sluice/pkg/script/cases"
)

func TestLuaScript(t *testing.T) {
	tree := os.DirFS("../../../../lua_configuration")
	all, err := cases.LoadAll(tree)
	if err != nil {
		t.Fatal(err)
	}
	classes, err := cases.LoadIngressCases(tree)
	if err != nil {
		t.Fatal(err)
	}
	if len(all) == 0 || len(classes) == 0 {
		t.Fatalf("lua_configuration holds %d test cases, and %d of Ingress classes", len(all), len(classes))
	}
	for _, c := range append(all, classes...) {
		t.Run(strings.TrimSuffix(c.Path, ".yaml"), func(t *testing.T) {
			for _, difference := range c.Check(t.Context(), tree) {
				t.Error(difference)
			}
		})
	}
}
