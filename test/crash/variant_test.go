package crash

import (
	"slices"

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
	// undone: the workload is rolled back after the last step, when its own pods are gone and no others can come.
	undone end = "undone"
)

// variants are all releases that are played.
func variants() []variant {
	list := append([]variant{{beside, approved}}, turns()...)
	for _, e := range verdicts() {
		list = append(list, variant{beside, e})
	}
	return list
}

// always are kinds of acts that each undisturbed release of a variant has, however things fall together.
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

// definition is the resource of Istio's whose definition the watcher sees.
func (v variant) definition() string {
	if v.style == world.Attached {
		return world.DestinationRuleResource().Resource
	}
	return "virtualservices"
}

// missing are the kinds that a release always has and that are not among these acts. Without them a part of what can go wrong is no longer
// seen, and to play all of it proves little.
func (v variant) missing(acts []act) (kinds []string) {
	for _, kind := range v.always() {
		if !slices.ContainsFunc(acts, func(a act) bool { return a.kind == kind }) {
			kinds = append(kinds, kind)
		}
	}
	return kinds
}

func (v variant) measured() bool { return v.end == promoted || v.end == stopped }

// turns reports whether the release takes a turn on its way.
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
