package rollout

import (
	"fmt"
	"strings"

	"sluice.dev/sluice/pkg/api"
)

// unsupported lists what the schema takes and this version does not carry out. A release that asks for any of it is held with
// the list; it is never let through as if the field were not there.
func unsupported(r *api.Rollout, s Spec, p plan) []string {
	var list []string
	add := func(when bool, format string, args ...any) {
		if when {
			list = append(list, fmt.Sprintf(format, args...))
		}
	}
	add(s.Style == StyleBlueGreen && !s.Workload.isDeployment() && !s.Workload.isCloneSet(),
		"strategy.blueGreen of a %s (it is for Deployments and CloneSets)", s.Workload.Kind)
	// A paused Deployment that runs two versions is no end: its controller brings it to replicas and maxSurge in proportion, and then on.
	add(s.KeepPaused && s.Workload.isDeployment() && s.Style != StyleCanary, "the annotation %s on a Deployment that runs both versions", api.AnnotationKeepPaused)
	add(s.KeepPaused && s.Style == StyleBlueGreen && !s.Workload.isDeployment(), "the annotation %s in blue-green style", api.AnnotationKeepPaused)
	for _, t := range p.routings {
		add(t.Ingress != nil, "trafficRoutings[].ingress (use customNetworkRefs)")
		add(t.Gateway != nil, "trafficRoutings[].gateway (use customNetworkRefs)")
	}
	for i, step := range p.steps {
		add(step.Mirror != nil, "mirror of step %d", i+1)
		add(step.Traffic != nil && strings.Contains(*step.Traffic, "."), "traffic finer than 1%% of step %d", i+1)
	}
	if c := r.Spec.Strategy.Canary; c != nil {
		add(c.Capacity == api.CapacityConstant && !s.Constant, "strategy.canary.capacity: Constant without a canary Deployment (enableExtraWorkloadForCanary)")
	}
	add(s.Constant && s.TrafficRouting != "", "strategy.canary.capacity: Constant with a TrafficRouting, which routes by a share of its own")
	return list
}
