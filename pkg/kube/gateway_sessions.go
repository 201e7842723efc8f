package kube

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"sluice.dev/sluice/pkg/rollout"
	"sluice.dev/sluice/pkg/script"
	"sluice.dev/sluice/pkg/traffic"
)

// stickySessionProblem returns a problem if a gateway keeps each user with one pod and a step with a share sends these
// users to both versions; otherwise nil.
func (s *Snapshot) stickySessionProblem() *rollout.Problem {
	shares := func(step rollout.Step) bool { return step.Weight != nil && *step.Weight > 0 && *step.Weight < 100 }
	if !slices.ContainsFunc(s.spec.Steps, shares) {
		return nil
	}
	var policies []*unstructured.Unstructured
	for _, g := range s.gateways {
		policies = append(policies, g.policies...)
	}
	var told []string
	for _, g := range s.gateways {
		if g.stickyEffect != script.StickyBroken || g.live == nil {
			continue
		}
		for _, routing := range s.spec.Routing {
			if by := traffic.StickyBy(g.live, policies, routing.Service); by != "" && slices.Contains(routing.Objects, g.ref) {
				told = append(told, fmt.Sprintf("%s keeps users of Service %s with one pod, and %s picks a version for each request", by, routing.Service, g.ref))
			}
		}
	}
	if len(told) == 0 {
		return nil
	}
	return &rollout.Problem{Reason: rollout.ReasonStickySessions, Message: "Users lose their sessions in steps with a share of the traffic: " + strings.Join(told, "; ") +
		". Use steps with matches, or keep sessions outside of the pods"}
}
