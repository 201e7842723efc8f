package preflight

import (
	"context"
	"fmt"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/workload/kinds"
)

// Names of policies about Rollouts, and of their bindings.
const (
	validatePolicy = "sluice-validate"
	executorPolicy = "sluice-validate-executor"
	deletionPolicy = "sluice-validate-deletion"
	workloadPolicy = "sluice-validate-workload"
)

// holdPolicies and guardPolicies are the names of the policies that do so, and of their bindings, one for each family of kinds of workloads.
func holdPolicies() []string { return perFamily("sluice-hold-") }

func guardPolicies() []string { return perFamily("sluice-guard-") }

func perFamily(prefix string) []string {
	list := kinds.Families()
	for i, family := range list {
		list[i] = prefix + family
	}
	return list
}

// CheckPolicies looks whether each admission policy is there and bound, or the webhook that stands in for them. Releases work without, but a
// change of a workload rolls until an executor sees it, and what a release is not fit for is found out late.
func (c *Cluster) CheckPolicies(ctx context.Context) []Finding {
	mutating, validating := c.mutatingPolicies(), c.validatingPolicies()
	findings := append(
		mutating.checkPolicies(ctx, holdPolicies(), "a new version rolls out until an executor sees it"),
		mutating.checkPolicies(ctx, guardPolicies(), "a manifest that is applied again ends the hold of a release under way")...)
	if len(findingsAt(LevelOK, findings)) < len(findings) {
		if f, ok := c.webhookFinding(ctx, api.Unserved(mutating.getPolicy(ctx, holdPolicies()[0]))); ok {
			findings = []Finding{f}
		}
	}
	findings = append(findings, validating.checkPolicies(ctx, []string{validatePolicy}, "mistakes in a Rollout are found only when it is released")...)
	for _, policy := range []struct{ name, without string }{
		{executorPolicy, "an executor of a version without fleets releases the Rollouts of a fleet without permits"},
		{deletionPolicy, "a Rollout of a fleet can be deleted during its release without the verb override"},
		{workloadPolicy, "a second Rollout for a workload can be created, which then waits"},
	} {
		found := validating.checkPolicies(ctx, []string{policy.name}, policy.without)
		if len(findingsAt(LevelOK, found)) < len(found) {
			findings = append(findings, found...)
		}
	}
	return findings
}

// policyKind is how policies of a kind are looked up.
type policyKind struct {
	c         *Cluster
	kind      string
	getPolicy func(ctx context.Context, name string) error
	// boundPolicy is the name of the policy that the binding of a name binds.
	boundPolicy func(ctx context.Context, name string) (string, error)
}

func (c *Cluster) mutatingPolicies() policyKind {
	admission := c.client.AdmissionregistrationV1()
	return policyKind{c, "MutatingAdmissionPolicy", func(ctx context.Context, name string) error {
		_, err := admission.MutatingAdmissionPolicies().Get(ctx, name, metav1.GetOptions{})
		return err
	}, func(ctx context.Context, name string) (string, error) {
		b, err := admission.MutatingAdmissionPolicyBindings().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return "", err
		}
		return b.Spec.PolicyName, nil
	}}
}

func (c *Cluster) validatingPolicies() policyKind {
	admission := c.client.AdmissionregistrationV1()
	return policyKind{c, "ValidatingAdmissionPolicy", func(ctx context.Context, name string) error {
		_, err := admission.ValidatingAdmissionPolicies().Get(ctx, name, metav1.GetOptions{})
		return err
	}, func(ctx context.Context, name string) (string, error) {
		b, err := admission.ValidatingAdmissionPolicyBindings().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return "", err
		}
		return b.Spec.PolicyName, nil
	}}
}

// checkPolicies checks whether each policy of a group exists and has a binding of its name. Policies with the same result share one finding; without
// is the consequence of a missing policy.
func (k policyKind) checkPolicies(ctx context.Context, names []string, without string) []Finding {
	var fine, absent, unbound []string
	var unserves bool
	var others []Finding
	for _, name := range names {
		what, err := k.kind, k.getPolicy(ctx, name)
		list, target := &absent, name
		if err == nil {
			what, list = k.kind+"Binding", &unbound
			target, err = k.boundPolicy(ctx, name)
		}
		switch {
		case err == nil && target == name:
			fine = append(fine, name)
		case err == nil:
			others = append(others, Finding{Check: "policies", Level: LevelWarning, Remedy: "Install the policies again: " + k.c.installPolicies(),
				Message: fmt.Sprintf("%s %s binds policy %s instead of %[2]s, so %[4]s.", what, name, target, without)})
		case apierrors.IsNotFound(err):
			*list, unserves = append(*list, name), unserves || api.Unserved(err)
		default: // the answer for the others would be the same
			return append(others, k.c.unreadFinding("policies", what+" "+name, err))
		}
	}
	findings := append(k.absentFindings(k.kind, absent, without, unserves), k.absentFindings(k.kind+"Binding", unbound, without, unserves)...)
	if findings = append(findings, others...); len(fine) < len(names) {
		return findings
	}
	return []Finding{{Check: "policies", Level: LevelOK, Message: fmt.Sprintf("%s %s installed and bound.", k.kind, areThey(fine))}}
}

func (k policyKind) absentFindings(what string, names []string, without string, unserves bool) []Finding {
	if len(names) == 0 {
		return nil
	}
	f := Finding{Check: "policies", Level: LevelWarning, Message: fmt.Sprintf("%s %s not there, so %s.", what, areThey(names), without)}
	f.Remedy = "Install the policies: " + k.c.installPolicies()
	if unserves {
		f.Remedy = fmt.Sprintf("This server does not serve the kind %s: use Kubernetes 1.%d or newer.", k.kind, minimumMinor)
	}
	return []Finding{f}
}

// areThey lists names up to a verb.
func areThey(names []string) string {
	if len(names) == 1 {
		return names[0] + " is"
	}
	return strings.Join(names, ", ") + " are"
}

// CheckKnownUser checks whether the admission policies of this cluster take the writes of this Cluster's user for the executor's. The error says how
// to act as a known user. If no policy can be read, the user may go on.
func (c *Cluster) CheckKnownUser(ctx context.Context) error {
	me, err := c.client.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("ask the API server who this user is: %w", err)
	}
	user := me.Status.UserInfo.Username
	executor := c.installation.ExecutorUser()
	if user == executor {
		return nil
	}
	admission := c.client.AdmissionregistrationV1()
	_, err = admission.ValidatingAdmissionPolicyBindings().Get(ctx, validatePolicy, metav1.GetOptions{})
	for _, name := range append(holdPolicies(), guardPolicies()...) {
		if err == nil {
			break
		}
		_, err = admission.MutatingAdmissionPolicyBindings().Get(ctx, name, metav1.GetOptions{})
	}
	if err != nil { // not installed, or unreadable
		return nil
	}
	return fmt.Errorf("the admission policies of this cluster know the executor as %s and would refuse or undo what %s writes. "+
		"Act as the service accounts instead (sluice run: leave out --impersonate=false; a part of its own: add --as-service-account), or take the policies off: "+
		"%s | kubectl delete -f -", executor, user, c.installation.PrintCommand("policies"))
}
