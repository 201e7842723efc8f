package customNetworkProvider

import (
	"os"
	"strings"
	"testing"

	"sluice.dev/sluice/pkg/script/cases"
)

func TestLuaScript(t *testing.T) {
	tree := os.DirFS("../../../../lua_configuration")
	all, err := cases.All(tree)
	if err != nil {
		t.Fatal(err)
	}
	if len(all) == 0 {
		t.Fatal("lua_configuration holds no test case")
	}
	for _, c := range all {
		t.Run(strings.TrimSuffix(c.Path, ".yaml"), func(t *testing.T) {
			for _, difference := range c.Check(t.Context(), tree) {
				t.Error(difference)
			}
		})
	}
}
