package fleethub

import (
	"cmp"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/labels"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/fleet"
	"sluice.dev/sluice/pkg/fleetmessage"
)

// observe collects what the planner decides by. known is false if the watches do not work.
func (h *Hub) observe(r *api.FleetRollout) (seen fleet.Seen, targets map[string]*api.FleetTarget, known bool) {
	targets, known = h.kube.FleetTargets(r, drawnClusters(r.Status))
	if !known {
		return seen, nil, false
	}
	seen = fleet.Seen{
		Namespace: r.Namespace, Name: r.Name, UID: string(r.UID), Paused: r.Spec.Paused, Delivery: fleet.Delivery(cmp.Or(r.Spec.Delivery, api.FleetDeliveryExternal)),
		Status: r.Status, Members: map[string]fleet.Member{}, Targets: map[string]fleet.Target{}, Reports: map[string]api.FleetReport{}, Started: h.started,
	}
	if r.Spec.Release != nil {
		seen.Release = *r.Spec.Release
	}
	seen.Spec, seen.SpecProblem, known = h.readStrategy(r)
	now := h.Clock()
	for _, m := range h.kube.FleetMembers() {
		beat := h.beats.of(m)
		seen.Members[m.Name] = fleet.Member{
			Labels: labels.Set(m.Labels), LastSeen: beat.heard, SilentFrom: beat.silentFrom, HeardFrom: beat.heardFrom, Ready: m.Status.Phase == api.FleetMemberReady, Cordoned: m.Spec.Cordoned.Holds(now),
			Unenforced: beat.enforcement == api.FleetEnforcementNone, NoTraffic: m.Spec.NoTraffic, NameTaken: beat.taken(now), ClockSkew: beat.clockSkew(),
		}
		if order, is := h.lastOrder(m.Name, r); is && seen.LastOrder.Before(orderNumber(order)) {
			seen.LastOrder = orderNumber(order)
		}
		if answer, is := h.lastAnswer(m, r); is {
			seen.Reports[m.Name] = answer.Report
		}
	}
	for cluster, t := range targets {
		seen.Targets[cluster] = fleet.Target{Permit: t.Spec.Permit, Status: t.Status}
	}
	return seen, targets, known
}

// drawnClusters are the clusters that may have a FleetTarget.
func drawnClusters(s api.FleetRolloutStatus) []string {
	var names []string
	for _, w := range s.Waves {
		names = append(names, w.Clusters...)
	}
	if s.Grant != nil {
		names = append(names, s.Grant.Clusters...)
	}
	return names
}

// readStrategy returns the strategy of a FleetRollout: of its FleetPlan, or its own. problem says why there is none that can be used.
func (h *Hub) readStrategy(r *api.FleetRollout) (spec fleet.Spec, problem string, known bool) {
	strategy := r.Spec.FleetStrategy
	if r.Spec.Plan != "" {
		plan, known := h.kube.FleetPlan(r.Spec.Plan)
		switch {
		case !known:
			return spec, "", false
		case plan == nil:
			return spec, fmt.Sprintf("The FleetPlan %s does not exist: create it, or name another one in spec.plan", r.Spec.Plan), true
		case !slices.Contains(plan.Spec.Namespaces, r.Namespace):
			return spec, fmt.Sprintf("The FleetPlan %s is not for the namespace %s: its owner must add it to spec.namespaces, or name another plan", r.Spec.Plan, r.Namespace), true
		}
		strategy = plan.Spec.FleetStrategy
	}
	if field := unsupportedField(r.Spec, strategy); field != "" {
		return spec, fmt.Sprintf("This version of Sluice does not have %s: remove it, or use a version that has it", field), true
	}
	spec, err := fleet.Parse(strategy)
	if err != nil {
		return spec, fmt.Sprintf("The waves are not valid: %v", err), true
	}
	return spec, "", true
}

// unsupportedField returns a field that is in the schema and that this version does not have, "" for none.
func unsupportedField(s api.FleetRolloutSpec, strategy api.FleetStrategy) string {
	switch {
	case len(s.Holds) > 0:
		return "spec.holds"
	case len(s.Requires) > 0:
		return "spec.requires"
	case s.OnNewVersion == api.FleetOnNewVersionQueue:
		return "spec.onNewVersion: Queue"
	case s.FirstInstall == api.FleetFirstInstallWait:
		return "spec.firstInstall: Wait"
	case s.MinInterval != nil:
		return "spec.minInterval"
	case s.Analysis != nil:
		return "spec.analysis"
	case slices.ContainsFunc(strategy.Waves, func(w api.FleetWave) bool { return w.Spread != "" }):
		return "spread in a wave"
	}
	return ""
}

// lastAnswer returns the last answer of a cluster about the Rollout that a FleetRollout governs. The hub counts and logs an answer that it refuses.
func (h *Hub) lastAnswer(m *api.FleetMember, r *api.FleetRollout) (fleetmessage.Answer, bool) {
	rollout := fleetmessage.Name{Namespace: r.Namespace, Name: r.Name}
	subject := fleetmessage.AnswerSubject(m.Name, rollout)
	state := h.answers.Get(subject)
	if state.Seq == 0 {
		return fleetmessage.Answer{}, false
	}
	expected := fleetmessage.Expected{Member: fleetmessage.Member{Name: m.Name, UID: m.Status.UID}, Keys: memberKeys(m)}
	opened, fresh := h.opened.open(subject, state, fmt.Sprint(expected), func(last int64) (openedMessage, error) {
		a, err := expected.OpenAnswer(state.Data, rollout, governorOf(r), last)
		return openedMessage{answer: a, order: a.Sent}, err
	})
	if fresh && opened.err != nil {
		h.noteRefusal("answer", m.Name, opened.err)
	}
	return opened.answer, opened.err == nil
}

// memberKeys are the public keys that a cluster may sign with.
func memberKeys(m *api.FleetMember) []string {
	keys := []string{m.Spec.Key}
	if m.Spec.NextKey != "" {
		keys = append(keys, m.Spec.NextKey)
	}
	return keys
}
