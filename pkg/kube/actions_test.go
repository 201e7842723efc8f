package kube

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Each type of action has a case where the client carries out actions: of a Rollout, or of a TrafficRouting.
func TestTheClientKnowsEveryAction(t *testing.T) {
	t.Parallel()
	actions, known := map[string]bool{}, map[string]bool{}
	for _, decl := range parseFile(t, "../rollout/action.go").Decls {
		if f, is := decl.(*ast.FuncDecl); is && f.Name.Name == "isAction" {
			actions[f.Recv.List[0].Type.(*ast.Ident).Name] = true
		}
	}
	for _, file := range []string{"apply.go", "routing.go"} {
		ast.Inspect(parseFile(t, file), func(n ast.Node) bool {
			if c, is := n.(*ast.CaseClause); is {
				for _, of := range c.List {
					if s, is := of.(*ast.SelectorExpr); is && actions[s.Sel.Name] {
						known[s.Sel.Name] = true
					}
				}
			}
			return true
		})
	}
	if diff := cmp.Diff(slices.Sorted(maps.Keys(actions)), slices.Sorted(maps.Keys(known))); len(actions) == 0 || diff != "" {
		t.Errorf("the %d actions of the model, and those that the client knows (-model +client):\n%s", len(actions), diff)
	}
}

func parseFile(t *testing.T, name string) *ast.File {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	return file
}
