package rollout

import (
	"fmt"

	"sluice.dev/sluice/pkg/api"
)

// unsupportedFields lists the fields that the schema accepts and this version does not carry out. A release with any of them stalls and shows the
// list. Sluice never ignores such a field.
func unsupportedFields(r *api.Rollout, s Spec, p plan) []string {
	var list []string
	add := func(when bool, format string, args ...any) {
		if when {
			list = append(list, fmt.Sprintf(format, args...))
		}
	}
	add(s.KeepPaused && s.Style == StyleBlueGreen, "the annotation %s in blue-green style, which would leave both versions whole in one Service", api.AnnotationKeepPaused)
	if c := r.Spec.Strategy.Canary; c != nil {
		add(c.Capacity == api.CapacityConstant && !s.ConstantCapacity, "strategy.canary.capacity: Constant without a canary Deployment (enableExtraWorkloadForCanary)")
	}
	add(s.ConstantCapacity && s.TrafficRouting != "", "strategy.canary.capacity: Constant with a TrafficRouting, which routes by a share of its own")
	return list
}
