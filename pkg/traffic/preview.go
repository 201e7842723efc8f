package traffic

import (
	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
	"sluice.dev/sluice/pkg/script"
)

// CheckOutput returns the reason why a release would refuse the output of a script for an object; nil if it would write the output. It serves users who
// try a script out.
func CheckOutput(in script.Input, out script.Output) error {
	e := entry{Service: in.StableService, CanaryService: in.CanaryService}
	if in.CanaryWeight != script.NoWeight {
		weight := rollout.Percent(in.CanaryPercent())
		e.Weight = &weight
	}
	if in.Mirror != 0 {
		e.Mirror = new(rollout.Percent(in.Mirror))
	}
	e.Matches = make([]api.HTTPRouteMatch, len(in.Matches)) // only their number counts
	return checkRendering(Content{Spec: in.Spec}.deepCopy().Spec, Content{Spec: out.Spec}.deepCopy().Spec, out.Create, out.WeightSum, e)
}
