package kube

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	admissionclient "k8s.io/client-go/kubernetes/typed/admissionregistration/v1"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/hold"
	"sluice.dev/sluice/pkg/rollout"
	"sluice.dev/sluice/pkg/workload"
)

const (
	// presenceTTL is how long it is remembered that the policies are there, which only ever go with the installation. That they are
	// absent is never remembered: their installation wakes each release once, and what that run finds is what stays on show.
	presenceTTL = 30 * time.Second
	// failureTTL is how long nobody asks again after an answer did not come.
	failureTTL = time.Second
)

// policyFamilies are the kinds by which admission policies are called.
func policyFamilies() []string {
	return []string{api.WorkloadTypeDeployment, api.WorkloadTypeStatefulSet, api.WorkloadTypeDaemonSet, api.WorkloadTypeCloneSet}
}

// policyFamily tells which policies hold a kind of workload. One of them holds whatever goes by the partition of a StatefulSet.
func policyFamily(ref rollout.Ref) string {
	kind, known := workload.KindOf(ref)
	switch {
	case isDeployment(ref):
		return api.WorkloadTypeDeployment
	case known && (kind.Mechanism == rollout.MechanismOnDelete || kind.Type == api.WorkloadTypeCloneSet):
		return kind.Type
	}
	return api.WorkloadTypeStatefulSet
}

// policies knows whether the admission policies that hold a kind of workload are installed and bound.
type policies struct {
	client admissionclient.AdmissionregistrationV1Interface
	family string

	mu   sync.Mutex
	next time.Time        // before that last is good enough
	last *rollout.Problem // what was found when the API server last answered
}

// missing is what is wrong with the policies, nil when nothing is. It stops no release: without them a change of a workload rolls
// until an executor sees it. While the API server does not tell, the answer is what it told last.
func (p *policies) missing(ctx context.Context) *rollout.Problem {
	p.mu.Lock()
	next, last := p.next, p.last
	p.mu.Unlock()
	if time.Now().Before(next) {
		return last
	}
	problem, ok := p.look(ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case !ok:
		p.next = time.Now().Add(failureTTL)
		return p.last
	case problem == nil:
		p.next = time.Now().Add(presenceTTL)
	default:
		p.next = time.Time{}
	}
	p.last = problem
	return problem
}

// known is what was found last.
func (p *policies) known() *rollout.Problem {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.last
}

// look reports ok false when it could not find out.
func (p *policies) look(ctx context.Context) (problem *rollout.Problem, ok bool) {
	problem, ok = p.lookForPolicies(ctx)
	if !ok || problem == nil || problem.Reason != rollout.HoldPolicyMissing {
		return problem, ok
	}
	webhook, err := within(ctx, func(ctx context.Context) (*admissionregistrationv1.MutatingWebhookConfiguration, error) {
		return p.client.MutatingWebhookConfigurations().Get(ctx, hold.WebhookName, metav1.GetOptions{})
	})
	switch {
	case isNotFound(err), IsForbidden(err):
		return problem, true
	case err != nil:
		return nil, false
	}
	if why, remedy := hold.Fault(webhook); why != "" {
		return &rollout.Problem{Reason: rollout.HoldPolicyMissing, Warning: true, Message: why + " " + remedy}, true
	}
	return nil, true
}

func (p *policies) lookForPolicies(ctx context.Context) (problem *rollout.Problem, ok bool) {
	var absent []string
	for _, name := range []string{"sluice-hold-" + p.family, "sluice-guard-" + p.family} {
		_, err := within(ctx, func(ctx context.Context) (any, error) {
			return p.client.MutatingAdmissionPolicies().Get(ctx, name, metav1.GetOptions{})
		})
		on := target{verb: "get", group: "admissionregistration.k8s.io", resource: "mutatingadmissionpolicies", name: name}
		what := "MutatingAdmissionPolicy " + name
		if err == nil {
			_, err = within(ctx, func(ctx context.Context) (any, error) {
				return p.client.MutatingAdmissionPolicyBindings().Get(ctx, name, metav1.GetOptions{})
			})
			on.resource = "mutatingadmissionpolicybindings"
			what = "MutatingAdmissionPolicyBinding " + name
		}
		switch {
		case err == nil:
		case api.Unserved(err):
			return &rollout.Problem{Reason: rollout.HoldPolicyMissing, Warning: true, Message: "This cluster does not serve MutatingAdmissionPolicy v1, " +
				"so nothing holds a new version in the moment it is applied. Install the webhook that does it on older ones (docs/installing.md), or use Kubernetes 1.36 or newer."}, true
		case isNotFound(err):
			absent = append(absent, what)
		case IsForbidden(err):
			problem := forbidden(on, err)
			problem.Unknown, problem.Warning = false, true
			return &problem, true
		default:
			return nil, false
		}
	}
	if len(absent) == 0 {
		return nil, true
	}
	return &rollout.Problem{Reason: rollout.HoldPolicyMissing, Warning: true, Message: fmt.Sprintf(
		"%s: not installed, so nothing holds a new version in the moment it is applied. Install it: sluice install --print | kubectl apply --server-side -f -",
		strings.Join(absent, ", "))}, true
}
