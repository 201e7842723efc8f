package rbac_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"

	"sluice.dev/sluice/cmd/sluice/internal/rbac"
	"sluice.dev/sluice/deploy"
	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/preflight"
)

const stream = `
apiVersion: v1
kind: ServiceAccount
metadata: {name: one}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: plain}
rules: [{apiGroups: [a], resources: [b], verbs: [get]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: all}
aggregationRule: {clusterRoleSelectors: [{matchLabels: {add: "yes"}}]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: added, labels: {add: "yes"}}
rules: [{apiGroups: [c], resources: [d], verbs: [list]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: here, namespace: place}
rules: [{apiGroups: [e], resources: [f], verbs: [watch]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: plain}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: plain}
subjects: [{kind: ServiceAccount, name: one, namespace: system}, {kind: User, name: somebody}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: all}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: all}
subjects: [{kind: ServiceAccount, name: two, namespace: system}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: here, namespace: place}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: here}
subjects: [{kind: ServiceAccount, name: one, namespace: system}]
`

func TestGrantsFollowBindingsAndAggregation(t *testing.T) {
	got, err := rbac.ReadGrants([]byte(stream))
	if err != nil {
		t.Fatal(err)
	}
	rule := func(group, resource, verb string) []rbacv1.PolicyRule {
		return []rbacv1.PolicyRule{{APIGroups: []string{group}, Resources: []string{resource}, Verbs: []string{verb}}}
	}
	want := []preflight.Grant{
		{ServiceAccount: "one", Rules: rule("a", "b", "get")},
		{ServiceAccount: "two", Rules: rule("c", "d", "list")},
		{ServiceAccount: "one", Namespace: "place", Rules: rule("e", "f", "watch")},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestTheShippedRolesGrantSomethingAndNoSecrets(t *testing.T) {
	roles, err := deploy.Manifests(api.DefaultInstallation(), "rbac")
	if err != nil {
		t.Fatal(err)
	}
	grants, err := rbac.ReadGrants(roles)
	if err != nil {
		t.Fatal(err)
	}
	accounts := map[string]bool{}
	for _, g := range grants {
		accounts[g.ServiceAccount] = true
		for _, rule := range g.Rules {
			for _, resource := range rule.Resources {
				if resource == "secrets" || resource == "*" {
					t.Errorf("%s may %v %s", g.ServiceAccount, rule.Verbs, resource)
				}
			}
		}
	}
	if !accounts["sluice-watcher"] || !accounts["sluice-executor"] {
		t.Errorf("only %v are granted anything", accounts)
	}
}
