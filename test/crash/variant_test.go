package crash

import (
	"fmt"

	"sluice.dev/sluice/test/world"
)

// variant is a release that is played again and again: how its pods come, and how it ends.
type variant struct {
	style world.AppKind
	end   end
}

func (v variant) String() string {
	if v.style == beside {
		return "canary-" + string(v.end)
	}
	return string(v.style) + "-" + string(v.end)
}

// beside is canary style.
const beside world.AppKind = ""

// end is how a release ends, and what decides about that.
type end string

const (
	// approved: somebody approves each step.
	approved end = "approved"
	// promoted: metrics pass, and that is the approval.
	promoted end = "promoted"
	// stopped: metrics fail.
	stopped end = "stopped"
	// canceled: the workload is rolled back in the second step.
	canceled end = "canceled"
	// continued: a newer version comes in the second step.
	continued end = "continued"
	// removed: the Rollout is deleted in the second step.
	removed end = "removed"
	// disabled: the Rollout is disabled in the second step.
	disabled end = "disabled"
)

// variants are all releases that are played.
func variants() []variant {
	list := append([]variant{{beside, approved}}, turns()...)
	for _, e := range verdicts() {
		list = append(list, variant{beside, e})
	}
	return list
}

// fewest is how many plans there are at least of a release, about six in ten of what rehearsals have come to. With fewer of them a part of
// what can go wrong is no longer seen, and to play it all proves little.
func (v variant) fewest() int {
	switch {
	case v.measured(): // of which only what the analysis does is played
		return 120
	case v.own(): // without ReplicaSets there is less to watch
		return 500
	}
	return 700
}

// tooFew tells that there are too few plans of a release, "" where there are enough.
func (v variant) tooFew(plans int) string {
	if plans >= v.fewest() {
		return ""
	}
	return fmt.Sprintf("there are %d plans of %s, where there are to be %d at least", plans, v, v.fewest())
}

func (v variant) measured() bool { return v.end == promoted || v.end == stopped }

// turns reports whether the release takes a turn in its second step.
func (v variant) turns() bool { return v.end != approved && !v.measured() }

func (v variant) blueGreen() bool { return v.style == world.BlueGreen }

// parks reports whether the workload, a Deployment, makes the new pods itself, parked so that it goes no further than its budget.
func (v variant) parks() bool { return v.style == world.InPlace || v.blueGreen() }

// own reports whether the workload is no Deployment: it makes its pods itself, without a ReplicaSet between them.
func (v variant) own() bool {
	return v.style == world.Daemons || v.style == world.Ordered || v.style == world.Cloned
}

// workload is the resource of the workload.
func (v variant) workload() string { return v.style.Resource().Resource }
