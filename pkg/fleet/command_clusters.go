package fleet

import (
	"fmt"
	"slices"

	"sluice.dev/sluice/pkg/api"
)

// followClusterCommand carries out a command about clusters, or refuses it. Their phases are those that the user has seen, or newer ones.
func (p *planner) followClusterCommand() {
	c := p.clusterCommand
	if c == nil {
		return
	}
	p.clusterCommand = nil
	if refusal := p.refuseClusters(*c); refusal != "" {
		p.recordRefusal(*c, refusal)
		return
	}
	switch c.Action {
	case api.FleetCommandRetry:
		p.status.Skipped, p.status.Retries = withoutNames(p.status.Skipped, c.Clusters), mergeNames(p.status.Retries, c.Clusters)
	case api.FleetCommandSkip:
		p.status.Retries, p.status.Skipped = withoutNames(p.status.Retries, c.Clusters), mergeNames(p.status.Skipped, c.Clusters)
	}
	p.record(string(p.status.Phase), string(p.status.Phase), string(c.Action), withComment(fmt.Sprintf("%s by %s", c.Action, c.Actor), c.Comment), c.Actor)
	for _, name := range c.Clusters {
		p.readCluster(p.clusters[name])
	}
}

// refuseClusters says why a command about clusters is not possible, "" if it is.
func (p *planner) refuseClusters(c api.FleetCommand) string {
	if c.Epoch != p.status.Epoch { // another release has begun just now
		return p.refuseCommand(c)
	}
	for _, name := range c.Clusters {
		cluster := p.clusters[name]
		if cluster == nil {
			return fmt.Sprintf("%q is no cluster of the release; list them with: sluice fleet targets %s -n %s", name, p.seen.Name, p.seen.Namespace)
		}
		if c.Action != api.FleetCommandRetry {
			continue
		}
		if why, helps := RetryRefusal(cluster.phase, cluster.reason); why != "" {
			return fmt.Sprintf("cluster %s is %s: %s%s", name, cluster.phase, why, p.typedHint(helps, name))
		}
	}
	return ""
}

// typedHint is the command with a verb about a cluster, as its user types it; "" without a verb.
func (p *planner) typedHint(verb, cluster string) string {
	if verb == "" {
		return ""
	}
	return fmt.Sprintf(", type: sluice fleet %s %s %s -n %s", verb, p.seen.Name, cluster, p.seen.Namespace)
}

// RetryRefusal says why a cluster of this phase and reason cannot be told to try again, "" if it can. helps is the verb that helps instead, "" if none is
// needed.
func RetryRefusal(phase api.FleetTargetPhase, reason string) (why, helps string) {
	switch phase {
	case api.FleetTargetFailed, api.FleetTargetDiverged, api.FleetTargetSkipped:
		return "", ""
	}
	if reason == reasonGoingBack || reason == api.FleetReasonPlanChanged {
		return "", ""
	}
	switch phase {
	case api.FleetTargetUnpermitted:
		return "it runs the version without a permit, and another permit does not change that. Find out why with: sluice check, in the cluster. To pass over it", "skip"
	case api.FleetTargetNoWayBack:
		return "it could not go back from the version, and another permit does not change that. To pass over it", "skip"
	case api.FleetTargetUnknown:
		return "the hub has lost it. Bring it back. To pass over it", "skip"
	case api.FleetTargetDeferred:
		return "it gets its permit when the cause is gone, which its reason names (" + reason + ")", ""
	case api.FleetTargetPending, api.FleetTargetAwaitingDelivery:
		return "it has not begun, and gets its permit in its turn", ""
	case api.FleetTargetCompleted:
		if reason == reasonUnhealthy {
			return "it has the version, and too few of its pods are ready. Make them ready. To pass over it", "skip"
		}
	case api.FleetTargetLeft, api.FleetTargetAbsent, api.FleetTargetUngoverned:
		return "it has no Rollout in this release", ""
	}
	return "there is nothing to retry", ""
}

func mergeNames(list, more []string) []string {
	all := slices.Concat(list, more)
	slices.Sort(all)
	return slices.Compact(all)
}

func withoutNames(list, names []string) []string {
	return slices.DeleteFunc(list, func(name string) bool { return slices.Contains(names, name) })
}
