package matrix

// partitionRouted is partition style with a VirtualService: both versions in the one Deployment.
func partitionRouted() column {
	c := partitionPlain()
	c.name, c.traffic, c.routed = "partition-routed", "VirtualService", true
	return c
}

// partitionPlain is partition style without traffic routing.
func partitionPlain() column {
	return column{
		name: "partition-plain", strategy: "partition style", workload: "Deployment", traffic: "none",
		resource: deployments(), kind: "Deployment", style: "canary", settled: deploymentSettled, total: deploymentTotal, ready: deploymentReady,
		except: map[string]string{"@ " + withoutStable().name: endsWithFewPods},
	}
}
