package crash

import (
	"slices"
	"strings"
)

// inFleet returns who does an act in a release with a hub and members, "" for an act in another release.
func (a act) inFleet() string {
	who, _, _ := strings.Cut(strings.TrimPrefix(a.kind, toNATS), " ")
	if slices.Contains([]string{hubName, "eu1", "eu2"}, who) {
		return who
	}
	return ""
}

// waysInFleet returns the ways of an act in a fleet. Acts that the hub or its members do just as any executor have fewer,
// because releases without a hub play all of theirs.
func (a act) waysInFleet(who string) []way {
	is := func(kinds ...string) bool {
		return slices.ContainsFunc(kinds, func(kind string) bool { return strings.HasSuffix(a.kind, kind) })
	}
	switch {
	case is("publish order", "publish answer"):
		return []way{before, after, lost, twice, late}
	case is("publish heartbeat"):
		return []way{gone, late}
	case is("read order", "read answer"):
		return []way{before, lost}
	case a.isWord():
		return []way{before}
	case a.isFrame():
		return []way{delayed, cut}
	case who == hubName:
		return []way{before, after, lost, conflict, broken, late}
	}
	return []way{before, after, late}
}

// plays reports whether a story plays an act. Each story is about some members, and the first one has all other acts of the
// hub. Events, pods, leases and acks of members are no part of a fleet.
func (s fleetStory) plays(a act) bool {
	who := a.inFleet()
	word := strings.TrimPrefix(strings.TrimPrefix(a.kind, toNATS), who+" ")
	switch {
	case strings.Contains(word, " events"), strings.Contains(word, " pods"):
		return false
	case strings.HasSuffix(word, "publish order"), strings.HasSuffix(word, "publish answer"):
		return s.about(who)
	case who == hubName:
		return s == succeeded || a.isWrite()
	case a.isWord():
		return s == succeeded && (strings.HasPrefix(word, "read ") || strings.HasSuffix(word, "heartbeat"))
	case a.isFrame():
		return s.about(who) && strings.HasSuffix(word, "orders")
	}
	return s.about(who)
}

// about reports whether a story is about what a component does.
func (s fleetStory) about(who string) bool {
	switch who {
	case "eu1":
		return s == failed || s == superseded
	case "eu2":
		return s != superseded
	}
	return true
}

// always returns kinds of acts that each undisturbed run of a story has.
func (s fleetStory) always() []string {
	kinds := []string{
		"hub PUT fleetrollouts/app/status", "hub PATCH fleetrollouts/app", "hub POST fleettargets", "hub PUT fleettargets/app.eu1", "hub PUT fleetmembers/eu1/status",
		"NATS hub publish order", "NATS hub publish hint", "NATS hub publish timer", "NATS hub take lease", "NATS hub ack",
		"hub watches fleetrollouts", "hub watches fleettargets", "hub watches answers",
	}
	for _, m := range []string{"eu1", "eu2"} {
		kinds = append(kinds, m+" PUT rollouts/app/status", m+" PATCH rollouts/app", m+" PATCH deployments/app", m+" watches orders", "NATS "+m+" publish answer", "NATS "+m+" read order")
	}
	return slices.DeleteFunc(kinds, func(kind string) bool { return !s.plays(act{kind: kind}) })
}
