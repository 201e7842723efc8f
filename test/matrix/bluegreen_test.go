package matrix

import (
	"slices"

	"sluice.dev/sluice/test/workload"
)

const (
	refusedMeanwhile = "a blue-green release accepts no other version; the scenarios of blue-green releases test the refusal"
	unkept           = "the annotation is unsupported in this style, because two full versions would share a Service; the release stalls and the deletion waits"
)

// blueGreenRouted is blue-green style with a VirtualService: one Deployment runs both versions, each with all its pods.
func blueGreenRouted() column {
	c := blueGreenPlain()
	c.name, c.traffic, c.routed = "blue-green-routed", "VirtualService", true
	return c
}

// blueGreenPlain is blue-green style without traffic routing.
func blueGreenPlain() column {
	return column{
		name: "blue-green-plain", strategy: "blue-green style", workload: "Deployment", traffic: "none",
		resource: deployments(), kind: "Deployment", style: "blueGreen", settled: deploymentSettled, total: deploymentTotal, ready: deploymentReady,
		except: map[string]string{
			"continuous release @ paused at step 1": refusedMeanwhile, "continuous release @ paused at step 2": refusedMeanwhile, "continuous release @ paused at step 3": refusedMeanwhile,
			"failing version then a good one @ upgrading step 1": refusedMeanwhile, "failing version then a good one @ upgrading step 2": refusedMeanwhile,
			"continuous release and back": refusedMeanwhile, "version that returns": refusedMeanwhile, "versions in haste": refusedMeanwhile,
			"Rollout deleted and workload kept": unkept,
			"@ " + withoutStable().name:         endsWithOldPods, "@ " + withSomeStable().name: endsWithOldPods,
		},
	}
}

// widenedRouted is blue-green style on a CloneSet with a VirtualService. The CloneSet has surge replicas and runs both
// versions, each with all its pods.
func widenedRouted() column {
	c := widenedPlain()
	c.name, c.traffic, c.routed = "widened-routed", "VirtualService", true
	return c
}

// widenedPlain is blue-green style on a CloneSet without traffic routing.
func widenedPlain() column {
	all := workload.Kinds()
	kind := all[slices.IndexFunc(all, func(k workload.Kind) bool { return k.Name == "cloneset" })]
	return column{
		name: "widened-plain", strategy: "blue-green style", workload: "CloneSet (OpenKruise)", traffic: "none",
		resource: kind.Resource, kind: kind.Kind, style: "blueGreen", settled: kind.Settled, total: kind.Total, ready: kind.Ready,
		except: map[string]string{
			"continuous release @ paused at step 1": refusedMeanwhile, "continuous release @ paused at step 2": refusedMeanwhile, "continuous release @ paused at step 3": refusedMeanwhile,
			"failing version then a good one @ upgrading step 1": refusedMeanwhile, "failing version then a good one @ upgrading step 2": refusedMeanwhile,
			"continuous release and back": refusedMeanwhile, "version that returns": refusedMeanwhile, "versions in haste": refusedMeanwhile,
			"scaled to 0 and back": newWithoutPods, "Rollout deleted and workload kept": unkept,
			"@ " + withoutStable().name: endsWithOldPods, "@ " + withSomeStable().name: endsWithOldPods,
		},
	}
}
