package fleet

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/labels"
)

// WaveForecast is a wave with the clusters that it would take.
type WaveForecast struct {
	Name string
	// Clusters are in the order of their permits.
	Clusters []string
	// Concurrency is how many of them may be under way at once.
	Concurrency int
	// Failed, Unreachable and Unknown are the budgets: the wave stops when there are more such clusters.
	Failed, Unreachable, Unknown int
}

// Forecast returns the waves of a release that began now, with the draw of [Plan]. uid is the UID of the FleetRollout. members has the labels of the
// FleetMembers by name. Clusters that no wave selects join the last wave. Other clusters may be there when a later wave begins.
func Forecast(spec Spec, uid string, members map[string]labels.Set) []WaveForecast {
	p := &planner{seen: Seen{UID: uid}}
	left := maps.Clone(members)
	maps.DeleteFunc(left, func(_ string, of labels.Set) bool { return !spec.Clusters.Matches(of) })
	var list []WaveForecast
	for i, w := range spec.Waves {
		var drawn []string
		for name, of := range left {
			if w.selects(of) {
				drawn = append(drawn, name)
			}
		}
		p.sortByDraw(drawn)
		if w.Percent > 0 && len(drawn) > 0 {
			drawn = drawn[:Amount{Value: w.Percent, Percent: true}.RoundUp(len(drawn))]
		}
		for _, name := range drawn {
			delete(left, name)
		}
		if i == len(spec.Waves)-1 {
			drawn = append(drawn, slices.Sorted(maps.Keys(left))...)
		}
		n := len(drawn)
		list = append(list, WaveForecast{
			Name: w.Name, Clusters: drawn, Concurrency: w.MaxConcurrency.RoundUp(n),
			Failed: w.Failed.RoundDown(n), Unreachable: w.Unreachable.RoundDown(n), Unknown: w.Unknown.RoundDown(n),
		})
	}
	return list
}
