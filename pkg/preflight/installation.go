package preflight

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"sluice.dev/sluice/pkg/api"
)

// FindInstallation returns where Sluice is installed in a cluster, as the ClusterRoleBindings of its programs say. Without them, or without the right to
// read them, it is the default installation.
func FindInstallation(ctx context.Context, config *rest.Config) (api.Installation, error) {
	in := api.DefaultInstallation()
	client, err := newClient(config)
	if err != nil {
		return in, err
	}
	for program, account := range in.Accounts() {
		live, err := client.RbacV1().ClusterRoleBindings().Get(ctx, "sluice-"+program, metav1.GetOptions{})
		if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
			continue
		}
		if err != nil {
			return in, fmt.Errorf("find out where Sluice is installed: %w", err)
		}
		for _, s := range live.Subjects {
			if s.Kind == rbacv1.ServiceAccountKind {
				in.Namespace, *account = s.Namespace, s.Name
			}
		}
	}
	return in, nil
}

// policyUsers matches the user names of service accounts in the rules of a policy.
var policyUsers = regexp.MustCompile(`system:serviceaccount:[a-z0-9.-]+:[a-z0-9.-]+`)

// CheckKnownExecutor looks whether each policy that names service accounts names the executors'. Otherwise it undoes or refuses what they write.
func (c *Cluster) CheckKnownExecutor(ctx context.Context) []Finding {
	var findings []Finding
	admission := c.client.AdmissionregistrationV1()
	check := func(kind, name string, policy any, err error) {
		if err != nil { // CheckPolicies tells it
			return
		}
		text, err := yaml.Marshal(policy)
		if err != nil {
			findings = append(findings, c.unreadFinding("policies", kind+" "+name, err))
			return
		}
		users := policyUsers.FindAllString(string(text), -1)
		if len(users) == 0 || slices.Contains(users, c.installation.ExecutorUser()) {
			return
		}
		slices.Sort(users)
		findings = append(findings, Finding{Check: "policies", Level: LevelError, Remedy: "Install the policies again: " + c.installPolicies(),
			Message: fmt.Sprintf("%s %s knows the executors as %s, and they act as %s, so it undoes or refuses what they write.",
				kind, name, strings.Join(slices.Compact(users), ", "), c.installation.ExecutorUser())})
	}
	for _, name := range append(holdPolicies(), guardPolicies()...) {
		policy, err := admission.MutatingAdmissionPolicies().Get(ctx, name, metav1.GetOptions{})
		check("MutatingAdmissionPolicy", name, policy, err)
	}
	for _, name := range []string{validatePolicy, executorPolicy} {
		policy, err := admission.ValidatingAdmissionPolicies().Get(ctx, name, metav1.GetOptions{})
		check("ValidatingAdmissionPolicy", name, policy, err)
	}
	return findings
}
