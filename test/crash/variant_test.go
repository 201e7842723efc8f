package crash

import (
	"slices"

	"sluice.dev/sluice/test/world"
)

// variant is a release that is played repeatedly: the kind of its application, and its end.
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

// The variant beside is canary style.
const beside world.AppKind = ""

// end is the end of a release, and the event or decision that leads to it.
type end string

const (
	// approved: a user approves each step.
	approved end = "approved"
	// promoted: metrics pass, which approves the step.
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
	// permitted: a fleet governs the Rollout, and its hub permits the release. A user approves each step.
	permitted end = "permitted"
	// withdrawn: the hub withdraws the version in the second step. Then the owner rolls the workload back.
	withdrawn end = "withdrawn"
	// recalled: the hub withdraws the version after all pods run it.
	recalled end = "recalled"
	// undone: the workload is rolled back after the last step, when its own pods are gone and no others can come.
	undone end = "undone"
)

// variants returns all releases that are played.
func variants() []variant {
	list := append([]variant{{beside, approved}}, turns()...)
	for _, e := range verdicts() {
		list = append(list, variant{beside, e})
	}
	return list
}

// always returns kinds of acts that each undisturbed release of a variant has, regardless of the timing.
func (v variant) always() []string {
	if v.measured() { // only the acts of the analysis are played
		return []string{
			"analyzer PATCH rollouts/app/status", "analyzer watches rollouts", hintingToMeasure,
			"NATS analyzer take lease", "NATS analyzer store sums", "NATS analyzer publish tick", "NATS analyzer release lease", "NATS analyzer ack",
		}
	}
	workload, route := v.workload(), "virtualservices"
	kinds := []string{
		"PUT rollouts/app/status", "PATCH " + workload + "/app", "PATCH services/app", "POST services", "DELETE services/app-canary", "PATCH pods",
		hinting, "NATS take lease", "NATS publish event", "NATS publish timer", "NATS release lease", "NATS ack",
	}
	switch v.style {
	case beside, world.Ingressed, world.Recreated, world.Attached:
		kinds = append(kinds, "POST deployments", "PATCH deployments/app-canary", "DELETE deployments/app-canary")
	case world.Daemons:
		kinds = append(kinds, "DELETE pods")
	}
	if v.style == world.Ingressed {
		route = "ingresses"
		kinds = append(kinds, "POST ingresses", "PUT ingresses/app-canary", "DELETE ingresses/app-canary")
	} else {
		kinds = append(kinds, "PUT virtualservices/app")
	}
	if v.style == world.Attached {
		kinds = append(kinds, "POST destinationrules", "DELETE destinationrules/app-canary.app", "watcher"+watches+"destinationrules", "executor"+watches+"destinationrules")
	}
	for _, resource := range []string{"rollouts", workload, "services", "endpointslices", route} {
		kinds = append(kinds, "watcher"+watches+resource, "executor"+watches+resource)
	}
	return kinds
}

// definition returns the resource of Istio whose definition the watcher sees.
func (v variant) definition() string {
	if v.style == world.Attached {
		return world.DestinationRuleResource().Resource
	}
	return "virtualservices"
}

// missing returns the kinds that a release always has and that are missing among these acts. Without them, the test
// would miss some failures and prove little.
func missing(always []string, acts []act) (kinds []string) {
	for _, kind := range always {
		if !slices.ContainsFunc(acts, func(a act) bool { return a.kind == kind }) {
			kinds = append(kinds, kind)
		}
	}
	return kinds
}

func (v variant) measured() bool { return v.end == promoted || v.end == stopped }

// governed reports whether a fleet governs the Rollout.
func (v variant) governed() bool {
	return v.end == permitted || v.end == withdrawn || v.end == recalled
}

// turns reports whether an event interrupts the release.
func (v variant) turns() bool { return v.end != approved && v.end != permitted && !v.measured() }

func (v variant) blueGreen() bool { return v.style == world.BlueGreen }

// parks reports whether the workload is a Deployment that creates the new pods itself, taken over and limited by its
// budget.
func (v variant) parks() bool { return v.style == world.InPlace || v.blueGreen() }

// own reports whether the workload is not a Deployment: it creates its pods itself, without a ReplicaSet.
func (v variant) own() bool {
	return v.style == world.Daemons || v.style == world.Ordered || v.style == world.Cloned
}

// workload returns the resource of the workload.
func (v variant) workload() string { return v.style.Resource().Resource }
