package policies

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	admissionclient "k8s.io/client-go/kubernetes/typed/admissionregistration/v1"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/hold"
	"sluice.dev/sluice/pkg/kube/apiclient"
	"sluice.dev/sluice/pkg/rollout"
	"sluice.dev/sluice/pkg/workload/kinds"
)

const (
	// installedTTL is how long it is remembered that the policies are there, which only ever go with the installation. That they are
	// absent is never remembered: their installation wakes each release once, and what that run finds is what stays on show.
	installedTTL = 30 * time.Second
	// failureTTL is the wait before another request after a failed one.
	failureTTL = time.Second
)

// FamilyOf returns the family of policies that holds a kind of workload. The family of StatefulSets also holds kinds that are known by a label
// alone.
func FamilyOf(ref rollout.Ref) string {
	if ref.IsDeployment() {
		return api.WorkloadTypeDeployment
	}
	return kinds.FindOrShape(schema.GroupKind{Group: ref.Group(), Kind: ref.Kind}).Family
}

// Checker knows whether the admission policies that hold a kind of workload are installed and bound.
type Checker struct {
	client       admissionclient.AdmissionregistrationV1Interface
	family       string
	installation api.Installation

	mu          sync.Mutex
	validUntil  time.Time        // before that last is good enough
	lastProblem *rollout.Problem // the result of the API server's last answer
	byWebhook   bool             // the webhook holds in the place of policies
}

// NewChecker makes a checker for a family, one of [Families], and for the policies of an installation.
func NewChecker(client admissionclient.AdmissionregistrationV1Interface, family string, in api.Installation) *Checker {
	return &Checker{client: client, family: family, installation: in}
}

// FindProblem is the problem of the policies, nil without one. It stops no release: without the policies a change of a workload rolls out until an
// executor sees it. While the API server does not answer, the result is its last answer.
func (p *Checker) FindProblem(ctx context.Context) *rollout.Problem {
	p.mu.Lock()
	next, last := p.validUntil, p.lastProblem
	p.mu.Unlock()
	if time.Now().Before(next) {
		return last
	}
	problem, byWebhook, ok := p.checkInstalled(ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	if ok {
		p.byWebhook = byWebhook
	}
	switch {
	case !ok:
		p.validUntil = time.Now().Add(failureTTL)
		return p.lastProblem
	case problem == nil:
		p.validUntil = time.Now().Add(installedTTL)
	default:
		p.validUntil = time.Time{}
	}
	p.lastProblem = problem
	return problem
}

// CachedProblem is the last result of FindProblem.
func (p *Checker) CachedProblem() *rollout.Problem {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lastProblem
}

// ByWebhook reports whether the webhook holds in the place of policies, as the last result of FindProblem says.
func (p *Checker) ByWebhook() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.byWebhook
}

// checkInstalled reports ok false when it could not find out, and byWebhook true when the webhook holds in the place of policies.
func (p *Checker) checkInstalled(ctx context.Context) (problem *rollout.Problem, byWebhook, ok bool) {
	problem, ok = p.checkPolicies(ctx)
	if !ok || problem == nil || problem.Reason != rollout.ReasonAdmissionPolicyMissing {
		return problem, false, ok
	}
	webhook, err := apiclient.WithDeadline(ctx, func(ctx context.Context) (*admissionregistrationv1.MutatingWebhookConfiguration, error) {
		return p.client.MutatingWebhookConfigurations().Get(ctx, hold.WebhookName, metav1.GetOptions{})
	})
	switch {
	case apiclient.IsNotFound(err), apiclient.IsForbidden(err):
		return problem, false, true
	case err != nil:
		return nil, false, false
	}
	if why, remedy := hold.WebhookFault(webhook, p.installation); why != "" {
		return &rollout.Problem{Reason: rollout.ReasonAdmissionPolicyMissing, Warning: true, Message: why + " " + remedy}, false, true
	}
	return nil, true, true
}

func (p *Checker) checkPolicies(ctx context.Context) (problem *rollout.Problem, ok bool) {
	var absent []string
	for _, name := range []string{"sluice-hold-" + p.family, "sluice-guard-" + p.family} {
		_, err := apiclient.WithDeadline(ctx, func(ctx context.Context) (any, error) {
			return p.client.MutatingAdmissionPolicies().Get(ctx, name, metav1.GetOptions{})
		})
		on := apiclient.Access{Verb: "get", Group: "admissionregistration.k8s.io", Resource: "mutatingadmissionpolicies", Name: name}
		what := "MutatingAdmissionPolicy " + name
		if err == nil {
			_, err = apiclient.WithDeadline(ctx, func(ctx context.Context) (any, error) {
				return p.client.MutatingAdmissionPolicyBindings().Get(ctx, name, metav1.GetOptions{})
			})
			on.Resource = "mutatingadmissionpolicybindings"
			what = "MutatingAdmissionPolicyBinding " + name
		}
		switch {
		case err == nil:
		case api.Unserved(err):
			return &rollout.Problem{Reason: rollout.ReasonAdmissionPolicyMissing, Warning: true, Message: "This cluster does not serve MutatingAdmissionPolicy v1, " +
				"so nothing holds a new version in the moment it is applied. Install the webhook that does it on older ones (docs/installing.md), or use Kubernetes 1.36 or newer."}, true
		case apiclient.IsNotFound(err):
			absent = append(absent, what)
		case apiclient.IsForbidden(err):
			problem := apiclient.ForbiddenProblem(on, err)
			problem.Unknown, problem.Warning = false, true
			return &problem, true
		default:
			return nil, false
		}
	}
	if len(absent) == 0 {
		return nil, true
	}
	return &rollout.Problem{Reason: rollout.ReasonAdmissionPolicyMissing, Warning: true, Message: fmt.Sprintf(
		"%s: not installed, so nothing holds a new version in the moment it is applied. Install it: %s",
		strings.Join(absent, ", "), p.installation.InstallCommand("policies"))}, true
}
