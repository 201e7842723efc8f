package preflight

import (
	"context"
	"fmt"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sluice.dev/sluice/pkg/api"
)

// Names of the admission policies, and of their bindings.
const (
	holdPolicy     = "sluice-hold-deployment"
	guardPolicy    = "sluice-guard-deployment"
	validatePolicy = "sluice-validate"
)

// Policies looks whether each admission policy is there and bound, or the webhook that stands in for them. Releases work without, but a change of a workload rolls
// until an executor sees it, and what a release is not fit for is found out late.
func (c *Cluster) Policies(ctx context.Context) []Finding {
	admission := c.client.AdmissionregistrationV1()
	mutating := func(ctx context.Context, name string) error {
		_, err := admission.MutatingAdmissionPolicies().Get(ctx, name, metav1.GetOptions{})
		return err
	}
	mutatingBinding := func(ctx context.Context, name string) (string, error) {
		b, err := admission.MutatingAdmissionPolicyBindings().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return "", err
		}
		return b.Spec.PolicyName, nil
	}
	validating := func(ctx context.Context, name string) error {
		_, err := admission.ValidatingAdmissionPolicies().Get(ctx, name, metav1.GetOptions{})
		return err
	}
	validatingBinding := func(ctx context.Context, name string) (string, error) {
		b, err := admission.ValidatingAdmissionPolicyBindings().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return "", err
		}
		return b.Spec.PolicyName, nil
	}
	findings := []Finding{
		policy(ctx, "MutatingAdmissionPolicy", holdPolicy, "a new version rolls out until an executor sees it", mutating, mutatingBinding),
		policy(ctx, "MutatingAdmissionPolicy", guardPolicy, "applying a manifest again lets go of a release under way", mutating, mutatingBinding),
	}
	if len(at(LevelOK, findings)) < len(findings) {
		if f, ok := c.standIn(ctx, unserved(mutating(ctx, holdPolicy))); ok {
			findings = []Finding{f}
		}
	}
	return append(findings,
		policy(ctx, "ValidatingAdmissionPolicy", validatePolicy, "mistakes in a Rollout are found only when it is released", validating, validatingBinding))
}

// unserved says that the API server does not know the kind at all.
func unserved(err error) bool {
	return apierrors.IsNotFound(err) && apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}

func policy(ctx context.Context, kind, name, without string, get func(context.Context, string) error,
	bound func(context.Context, string) (string, error)) Finding {
	f := Finding{Check: "policies", Level: LevelOK, Message: fmt.Sprintf("%s %s is installed and bound.", kind, name)}
	what, err := fmt.Sprintf("%s %s", kind, name), get(ctx, name)
	if err == nil {
		var target string
		target, err = bound(ctx, name)
		what = fmt.Sprintf("%sBinding %s", kind, name)
		if err == nil && target != name {
			f.Level = LevelWarning
			f.Message = fmt.Sprintf("%s binds policy %s instead of %s, so %s.", what, target, name, without)
			f.Remedy = "Install the policies again: " + installPolicies
		}
	}
	switch {
	case err == nil:
	case apierrors.IsNotFound(err):
		f.Level = LevelWarning
		f.Message = fmt.Sprintf("%s is not there, so %s.", what, without)
		f.Remedy = "Install the policies: " + installPolicies
		if unserved(err) {
			f.Remedy = fmt.Sprintf("This server does not serve the kind %s: use Kubernetes 1.%d or newer.", kind, minimumMinor)
		}
	default:
		f = unread(f.Check, what, err)
	}
	return f
}

// Known looks whether the admission policies of this cluster would take what the user of this Cluster writes as the executor's. The
// error says how to become somebody whom they know. Where no policy can be seen, the user may go on.
func (c *Cluster) Known(ctx context.Context) error {
	me, err := c.client.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("ask the API server who this user is: %w", err)
	}
	user := me.Status.UserInfo.Username
	if user == api.ExecutorUser {
		return nil
	}
	admission := c.client.AdmissionregistrationV1()
	_, err = admission.ValidatingAdmissionPolicyBindings().Get(ctx, validatePolicy, metav1.GetOptions{})
	for _, name := range []string{holdPolicy, guardPolicy} {
		if err == nil {
			break
		}
		_, err = admission.MutatingAdmissionPolicyBindings().Get(ctx, name, metav1.GetOptions{})
	}
	if err != nil { // not installed, or nobody can tell
		return nil
	}
	return fmt.Errorf("the admission policies of this cluster know the executor as %s and would refuse or undo what %s writes. "+
		"Act as the service accounts instead (sluice run: leave out --impersonate=false; a part of its own: add --as-service-account), or take the policies off: "+
		"sluice install --print --part policies | kubectl delete -f -", api.ExecutorUser, user)
}
