package matrix

import (
	"maps"

	"sluice.dev/sluice/test/workload"
)

// Reasons why cells of kinds other than Deployments do not stand.
const (
	newWithoutPods = "without pods, its controller forgets the stable version, and all further pods are new"
	lastComesNew   = "its controller regards an update as complete while the only stable pod is missing, and creates this pod in the new version"
	waitsForOthers = "its controller replaces no ready pod while unready pods of any version use up maxUnavailable; the status says so"
	daemonsComeNew = "its controller creates a lost daemon again in the new version"
	daemonsOfNodes = "a daemon belongs to its node, and its kind has no replicas"
	daemonsSilent  = "its controller does not count daemons on a silent node: it replaces another daemon instead, and the step goes on"
	daemonsReturn  = "a deleted daemon comes back in the version of the template, so the executor restores the template: the abort ends as a rollback"
)

// kinds returns partition style on kinds other than Deployments. Their controllers update pods by a partition, or
// replace deleted pods.
func kinds() []column {
	var list []column
	for _, kind := range workload.Kinds() {
		c := column{
			name: kind.Name + "-routed", strategy: "partition style", workload: kind.Kind, traffic: "VirtualService", routed: true,
			resource: kind.Resource, kind: kind.Kind, style: "canary", daemon: kind.Daemon,
			settled: kind.Settled, total: kind.Total, ready: kind.Ready,
			except: map[string]string{"scaled to 0 and back": newWithoutPods, "@ " + withoutStable().name: endsWithFewPods},
		}
		if kind.Ordinals {
			c.spec = "  serviceName: app\n"
		}
		if kind.Resource.Group != "apps" {
			c.workload += " (OpenKruise)"
			if kind.Ordinals {
				c.except["pods evicted @ paused at step 3"] = lastComesNew
				c.except["failing version then a good one @ finalising"] = waitsForOthers
			}
		}
		if kind.Daemon {
			maps.Copy(c.except, daemons())
			if kind.Resource.Group != "apps" {
				c.except["node silent"] = daemonsSilent
			}
		}
		list = append(list, c)
	}
	return list
}

// daemons are the exceptions of workloads with a pod on each node.
func daemons() map[string]string {
	return map[string]string{
		"pods evicted":                   daemonsComeNew,
		"node lost":                      daemonsOfNodes,
		"scaled by an autoscaler":        daemonsOfNodes,
		"scaled to one pod and back":     daemonsComeNew,
		"workload at 0 replicas changed": daemonsOfNodes,
		"aborted":                        daemonsReturn,

		"deadline passed and release aborted": daemonsReturn,

		"aborted and tried again": daemonsReturn,
		"aborted twice":           daemonsReturn,
		"@ aborted":               daemonsReturn,
	}
}
