package turn

const (
	refusedMeanwhile  = "a blue-green release takes no other version; the scenarios of blue-green releases have it"
	unscaledMeanwhile = "an autoscaler is taken off its workload for the length of a blue-green release; the scenarios of blue-green releases have it"
	goesOnPaused      = "the annotation is held as unsupported: Kubernetes moves a paused Deployment of two versions on"
	otherNumbers      = "in blue-green style the stable pods stay beside the new ones; the scenarios of blue-green releases scale them"
)

// blueGreenRouted is blue-green style with a VirtualService: both versions, whole, in the one Deployment.
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
			"continuous release": refusedMeanwhile, "failing version then a good one": refusedMeanwhile, "continuous release and back": refusedMeanwhile,
			"version that returns": refusedMeanwhile, "versions in haste": refusedMeanwhile,
			"scaled by an autoscaler": unscaledMeanwhile, "scaled up": otherNumbers, "scaled down": otherNumbers, "scaled to 0 and back": otherNumbers,
			"Rollout deleted and workload kept": goesOnPaused,
		},
	}
}
