package cluster

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	admissionclient "k8s.io/client-go/kubernetes/typed/admissionregistration/v1"

	"sluice.dev/sluice/pkg/rollout"
)

// How long it is remembered that the policies are there, which only ever go with the installation, and that they are not: who
// installs them wants to see that they are found.
const (
	policiesTTL = 30 * time.Second
	absenceTTL  = 200 * time.Millisecond
)

func policyNames() []string { return []string{"sluice-hold-deployment", "sluice-guard-deployment"} }

// policies knows whether the admission policies that hold Deployments are installed and bound.
type policies struct {
	client admissionclient.AdmissionregistrationV1Interface

	mu      sync.Mutex
	checked time.Time
	problem *rollout.Problem
}

// missing is what is wrong with the policies, nil when nothing is. It stops no release: without them a change of a workload rolls
// until an executor sees it.
func (p *policies) missing(ctx context.Context) *rollout.Problem {
	p.mu.Lock()
	defer p.mu.Unlock()
	remembered := policiesTTL
	if p.problem != nil {
		remembered = absenceTTL
	}
	if time.Since(p.checked) < remembered {
		return p.problem
	}
	problem, ok := p.look(ctx)
	if ok {
		p.problem, p.checked = problem, time.Now()
	}
	return p.problem
}

// look reports ok false when it could not find out.
func (p *policies) look(ctx context.Context) (problem *rollout.Problem, ok bool) {
	var absent []string
	for _, name := range policyNames() {
		_, err := within(ctx, func(ctx context.Context) (any, error) {
			return p.client.MutatingAdmissionPolicies().Get(ctx, name, metav1.GetOptions{})
		})
		what := "MutatingAdmissionPolicy " + name
		if err == nil {
			_, err = within(ctx, func(ctx context.Context) (any, error) {
				return p.client.MutatingAdmissionPolicyBindings().Get(ctx, name, metav1.GetOptions{})
			})
			what = "MutatingAdmissionPolicyBinding " + name
		}
		switch {
		case err == nil:
		case isUnserved(err):
			return &rollout.Problem{Reason: rollout.HoldPolicyMissing, Advisory: true, Message: "This cluster does not serve MutatingAdmissionPolicy v1, " +
				"so nothing holds a new version in the moment it is applied. Use Kubernetes 1.36 or newer."}, true
		case isNotFound(err):
			absent = append(absent, what)
		case IsForbidden(err):
			problem := forbidden(target{"get", "admissionregistration.k8s.io", "mutatingadmissionpolicies", "", name, false}, err)
			problem.Blind, problem.Advisory = false, true
			return &problem, true
		default:
			return nil, false
		}
	}
	if len(absent) == 0 {
		return nil, true
	}
	return &rollout.Problem{Reason: rollout.HoldPolicyMissing, Advisory: true, Message: fmt.Sprintf(
		"%s: not installed, so nothing holds a new version in the moment it is applied. Install it: sluice install --print | kubectl apply --server-side -f -",
		strings.Join(absent, ", "))}, true
}
