package matrix

// partitionRouted is partition style with a VirtualService: one Deployment runs both versions.
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
