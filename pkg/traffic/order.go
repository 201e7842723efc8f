package traffic

import (
	"slices"
	"strings"

	"sluice.dev/sluice/pkg/rollout"
)

// Order returns the objects in the order in which a step is applied to them: those that define backends before those that refer
// to them, else as they were given. Restoring goes the other way, so that no rule ever refers to a backend that is gone.
func Order(refs []rollout.Ref) []rollout.Ref {
	ordered := slices.Clone(refs)
	slices.SortStableFunc(ordered, func(a, b rollout.Ref) int { return rank(a) - rank(b) })
	return ordered
}

// rank is 0 for kinds that define backends for others.
func rank(ref rollout.Ref) int {
	group, _, _ := strings.Cut(ref.APIVersion, "/")
	if group == "networking.istio.io" && ref.Kind == "DestinationRule" {
		return 0
	}
	return 1
}
