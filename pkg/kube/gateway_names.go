package kube

import (
	"fmt"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
	"sluice.dev/sluice/pkg/traffic"
	"sluice.dev/sluice/pkg/workload"
)

const (
	// maxServiceName is the maximum length of a Service's name, which is a DNS label.
	maxServiceName = 63
	// maxDeploymentName leaves room in the 253 characters of a ReplicaSet's name for a hyphen and the hash of the template.
	maxDeploymentName = 253 - 11
)

// checkCopies finds out whether the copies that the release will need can be created.
func (o *observation) checkCopies() {
	s := o.snapshot
	invalid := func(err error) {
		o.addProblem(rollout.Problem{Reason: rollout.ReasonInvalidSpec, Message: asSentence(err)})
	}
	if s.deployment != nil && s.spec.Style == rollout.StyleCanary {
		name := s.spec.Workload.Name
		if _, err := workload.NewCanary(s.deployment, s.canaryOf(rollout.CreateCanary{})); err != nil {
			invalid(err)
		} else if len(name+api.SuffixCanary) > maxDeploymentName {
			invalid(fmt.Errorf("the name of Deployment %s is too long by %d characters for a canary, which is called <name>%s; use a Deployment with a shorter name",
				name, len(name+api.SuffixCanary)-maxDeploymentName, api.SuffixCanary))
		}
	}
	for _, b := range s.backends {
		if b.stable == nil || !b.routing.SeparateService() {
			continue
		}
		_, err := traffic.NewCanaryService(b.stable, s.canaryServiceOf(rollout.CreateCanaryService{}))
		if err != nil {
			o.addProblem(rollout.Problem{Reason: rollout.ReasonServiceMissing, Message: asSentence(err)})
		} else if err := checkServiceName(b.routing.CanaryService); err != nil {
			invalid(err)
		}
	}
}

// checkServiceName returns an error for a canary Service whose name is too long.
func checkServiceName(name string) error {
	if len(name) <= maxServiceName {
		return nil
	}
	return fmt.Errorf("the canary Service would be called %s, which is %d characters long, and %d are allowed; name a Service of at most %d characters in "+
		"trafficRoutings[].service, or set createCanaryService: false there to let both versions share the Service",
		name, len(name), maxServiceName, maxServiceName-len(api.SuffixCanary))
}
