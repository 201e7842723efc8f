package hold_test

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

// policy has the fields of a MutatingAdmissionPolicy that these tests check.
type policy struct {
	Metadata struct{ Name string }
	Spec     struct {
		FailurePolicy, ReinvocationPolicy string
		ParamKind                         any
		MatchConstraints                  any
		MatchConditions, Variables        []struct{ Name, Expression string }
	}
}

func readPolicy(t *testing.T, file string) policy {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var p policy
	first, _, _ := strings.Cut(string(text), "\n---\n")
	if err := yaml.Unmarshal([]byte(first), &p); err != nil {
		t.Fatal(err)
	}
	return p
}

// expression returns a condition or variable with normalised white space.
func (p policy) expression(name string) string {
	for _, e := range append(p.Spec.MatchConditions, p.Spec.Variables...) {
		if e.Name == name {
			return strings.Join(strings.Fields(e.Expression), " ")
		}
	}
	return ""
}

func TestBothPoliciesMatchAndDecideAReleaseInTheSameWords(t *testing.T) {
	hold, guard := readPolicy(t, holdPolicy), readPolicy(t, guardPolicy)
	if diff := cmp.Diff(hold.Spec.MatchConstraints, guard.Spec.MatchConstraints); diff != "" {
		t.Errorf("hold (-) and guard (+) match other requests:\n%s", diff)
	}
	for inHold, inGuard := range map[string]string{"is-a-release": "isRelease", "not-by-the-executor": "not-by-the-executor"} {
		want := hold.expression(inHold)
		if want == "" {
			t.Fatalf("the hold policy has nothing called %s", inHold)
		}
		if diff := cmp.Diff(want, guard.expression(inGuard)); diff != "" {
			t.Errorf("%s of hold (-) and %s of guard (+) differ:\n%s", inHold, inGuard, diff)
		}
	}
}
