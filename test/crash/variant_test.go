package crash

import "sluice.dev/sluice/test/world"

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

func (v variant) measured() bool { return v.end == promoted || v.end == stopped }

// turns reports whether the release takes a turn in its second step.
func (v variant) turns() bool { return v.end != approved && !v.measured() }

func (v variant) blueGreen() bool { return v.style == world.BlueGreen }

// parks reports whether the workload, a Deployment, makes the new pods itself, parked so that it goes no further than its budget.
func (v variant) parks() bool { return v.style == world.InPlace || v.blueGreen() }

// workload is the resource of the workload.
func (v variant) workload() string {
	if v.style == world.Daemons {
		return "daemonsets"
	}
	return "deployments"
}
