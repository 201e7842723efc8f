package matrix

import (
	"maps"

	"sluice.dev/sluice/test/workload"
)

// Why cells of workloads that are no Deployments do not stand.
const (
	newWithoutPods = "without pods its controller forgets the stable version, so that all pods that come are new"
	lastComesNew   = "its controller takes an update for complete while the only stable pod is missing, so that this one comes back new"
	waitsForOthers = "its controller replaces no ready pod while maxUnavailable is used up by pods that are not, of whatever version; the status says so"
	daemonsComeNew = "a daemon that is lost comes back in the new version"
	daemonsOfNodes = "a daemon belongs to its node, and its kind has no replicas"
	daemonsSilent  = "its controller counts no daemon on a node that is silent: another one is made new in its place, and the step goes on without it"
	daemonsReturn  = "a daemon that is deleted comes back in the version of the template, so that the template is given back: it ends as a rollback"
)

// kinds are partition style on workloads that are no Deployments: their own controllers move them by a partition, or make anew the pods
// that are deleted.
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
