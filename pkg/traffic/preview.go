package traffic

import (
	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
	"sluice.dev/sluice/pkg/script"
)

// CheckOutput says why a release would not write what a script made of an object, as for somebody who tries the script out; nil when it would.
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
