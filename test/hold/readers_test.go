package hold_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/yaml"

	installed "sluice.dev/sluice/pkg/kube/policies"
	"sluice.dev/sluice/pkg/rollout"
	"sluice.dev/sluice/pkg/workload"
	"sluice.dev/sluice/pkg/workload/kinds"
	"sluice.dev/sluice/test/hold"
)

// The compiler ties the readers of the table of kinds to its fields. These tests tie the rest of the tree to its rows.

func TestEveryKindOfTheTableHasCasesPoliciesAndAMechanism(t *testing.T) {
	t.Parallel()
	cases := hold.Kinds(t)
	for _, row := range kinds.All() {
		if !slices.ContainsFunc(cases, func(k hold.Kind) bool {
			return k.Resource.Group == row.GroupKind.Group && k.Resource.Resource == row.Resource && slices.Contains(row.Versions, k.Resource.Version)
		}) {
			t.Errorf("%s: testdata/kinds.yaml has no cases of %s", row.GroupKind, row.Resource)
		}
		for _, version := range row.Versions {
			ref := rollout.Ref{APIVersion: row.GroupKind.Group + "/" + version, Kind: row.GroupKind.Kind}
			if kind, is := workload.KindOf(ref); !is || kind.Mechanism == rollout.MechanismRollingUpdate {
				t.Errorf("%s: it is released by the mechanism %q", ref, kind.Mechanism)
			}
			if got := installed.FamilyOf(ref); got != row.Family {
				t.Errorf("%s: an executor looks for the policies of %s and not of %s", ref, got, row.Family)
			}
		}
	}
}

func TestEveryFamilyOfTheTableHasItsPoliciesAndNoOtherIsThere(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(policies + "../kustomization.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, prefix := range []string{"hold-", "guard-"} {
		var want []string
		for _, family := range kinds.Families() {
			file := policies + prefix + family + ".yaml"
			if got := readPolicy(t, file).Metadata.Name; got != "sluice-"+prefix+family {
				t.Errorf("%s has the policy %s", file, got)
			}
			want = append(want, file)
			if entry := "\n- policies/" + prefix + family + ".yaml\n"; !strings.Contains(string(text), entry) {
				t.Errorf("kustomization.yaml has no line%s", entry)
			}
		}
		got, err := filepath.Glob(policies + prefix + "*.yaml")
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("the policies (-want +got):\n%s", diff)
		}
	}
}

func TestTheInstallationGrantsEveryKindOfTheTable(t *testing.T) {
	t.Parallel()
	for file, verbs := range map[string][]string{"watcher": {"get", "list", "watch"}, "executor": {"get", "list", "patch"}} {
		rules := rulesIn(t, "../../deploy/rbac/"+file+".yaml")
		for _, row := range kinds.All() {
			for _, verb := range verbs {
				if !slices.ContainsFunc(rules, func(r rbacv1.PolicyRule) bool {
					return slices.Contains(r.APIGroups, row.GroupKind.Group) && slices.Contains(r.Resources, row.Resource) && slices.Contains(r.Verbs, verb)
				}) {
					t.Errorf("the %s may not %s %s of %s", file, verb, row.Resource, row.GroupKind.Group)
				}
			}
		}
	}
}

// rulesIn are the rules of the ClusterRoles in a file.
func rulesIn(t *testing.T, name string) (rules []rbacv1.PolicyRule) {
	t.Helper()
	file, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	for decoder := yaml.NewYAMLOrJSONDecoder(file, 4096); ; {
		var role rbacv1.ClusterRole
		if decoder.Decode(&role) != nil {
			break
		}
		if role.Kind == "ClusterRole" {
			rules = append(rules, role.Rules...)
		}
	}
	if len(rules) == 0 {
		t.Fatalf("%s has no ClusterRole", name)
	}
	return rules
}
