package fleet

import (
	"cmp"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sluice.dev/sluice/pkg/api"
)

// maxAttention is how many entries status.attention has.
const maxAttention = 20

// describeStatus counts the clusters of the release, and lists what needs a person.
func (p *planner) describeStatus() {
	var counts map[api.FleetTargetPhase]int32
	if len(p.names) > 0 {
		counts = map[api.FleetTargetPhase]int32{}
	}
	var list []api.FleetAttention
	if needsPerson(p.status) {
		list = append(list, api.FleetAttention{Reason: p.status.Reason, Message: p.status.Message, Since: p.attentionSince("", p.status.Reason)})
	}
	for _, name := range p.names {
		c := p.clusters[name]
		counts[c.phase]++
		if reason := p.personNeeded(c); reason != "" {
			since := c.status.Since
			if c.target == nil { // its status is not kept
				since = p.attentionSince(name, reason)
			}
			message := ""
			switch {
			case reason == reasonOverridden:
				message = "without permits, by " + c.report.Overridden
			case c.report != nil:
				message = c.report.Message
			}
			list = append(list, api.FleetAttention{Cluster: name, Phase: c.phase, Reason: reason, Since: since, Message: message})
		}
	}
	oldestFirst := func(a, b api.FleetAttention) int { return a.Since.Compare(b.Since.Time) }
	slices.SortStableFunc(list, func(a, b api.FleetAttention) int { // the release itself is never cut off
		return cmp.Or(cmp.Compare(min(len(a.Cluster), 1), min(len(b.Cluster), 1)), oldestFirst(a, b))
	})
	list = list[:min(len(list), maxAttention)]
	slices.SortStableFunc(list, oldestFirst)
	p.status.Counts, p.status.Attention = counts, list
}

// needsPerson reports whether a release as a whole stands still until a person does something. After a withdrawal or an abort, a person names what comes next.
func needsPerson(s api.FleetRolloutStatus) bool {
	return s.Phase == api.FleetPhaseWithdrawn || s.Phase == api.FleetPhaseAborted || standsStill(s)
}

// personNeeded returns why a cluster needs a person, "" if it does not. A release that goes back waits for no delivery.
func (p *planner) personNeeded(c *cluster) string {
	undelivered := c.reason == reasonNotDelivered || c.reason == reasonBlocked || c.reason == reasonNoIdentity
	switch c.phase {
	case api.FleetTargetFailed, api.FleetTargetDiverged, api.FleetTargetNoWayBack, api.FleetTargetUnpermitted, api.FleetTargetUnknown:
		return cmp.Or(c.reason, string(c.phase))
	case api.FleetTargetDeferred:
		if c.reason != reasonCordoned && (!undelivered || p.status.Verb == api.FleetVerbRelease) {
			return c.reason
		}
	case api.FleetTargetAwaitingDelivery:
		if p.status.Verb == api.FleetVerbRelease {
			return c.reason
		}
	}
	switch {
	case c.reason == api.FleetReasonPlanChanged, c.phase == api.FleetTargetCompleted && p.countsAsFailed(c):
		return c.reason
	case c.phase == api.FleetTargetWithdrawn && c.report.Reason == api.FleetReasonContested:
		return api.FleetReasonContested
	case c.reason == reasonGoingBack && p.status.Verb != api.FleetVerbRelease && c.status.Since != nil && p.elapsed(c.status.Since.Time, p.spec.ProgressDeadline):
		return reasonGoingBack
	case c.overridden():
		return reasonOverridden
	case c.report != nil && c.report.AwaitsPerson && (c.underWay() || c.reason == reasonGoingBack):
		return "AwaitsPerson"
	}
	return ""
}

// attentionSince returns since when an entry is in status.attention.
func (p *planner) attentionSince(cluster, reason string) *metav1.MicroTime {
	for _, a := range p.seen.Status.Attention {
		if a.Cluster == cluster && a.Reason == reason && a.Since != nil {
			return a.Since
		}
	}
	return new(p.microNow())
}
