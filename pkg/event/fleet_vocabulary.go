package event

import (
	"slices"

	"sluice.dev/sluice/pkg/api"
)

// Nouns of the events of a fleet.
const (
	nounFleetRelease = "fleet.release"
	nounFleetWave    = "fleet.wave"
	nounFleetCluster = "fleet.cluster"
)

// fleetKind is a type of event of a fleet. It is for transitions to one of these phases or stages, and for one of these reasons; an empty list stands for all.
type fleetKind struct {
	Kind
	to, reasons []string
}

// fleetKinds lists the types of events about a release and its waves. The first one that fits a transition is its type.
func fleetKinds() []fleetKind {
	release := func(verb string, cause Cause, when string, to, reasons []string) fleetKind {
		return fleetKind{Kind{Noun: nounFleetRelease, Verb: verb, Cause: cause, When: when}, to, reasons}
	}
	wave := func(verb string, cause Cause, when string, to, reasons []string) fleetKind {
		return fleetKind{Kind{Noun: nounFleetWave, Verb: verb, Cause: cause, When: when}, to, reasons}
	}
	phase := func(verb, when string, to api.FleetPhase) fleetKind {
		return release(verb, CauseFleet, when, []string{string(to)}, nil)
	}
	stage := func(verb, when string, to api.FleetWaveStage) fleetKind {
		return wave(verb, CauseProgress, when, []string{string(to)}, nil)
	}
	commands := []string{
		string(api.FleetCommandPause), string(api.FleetCommandResume), string(api.FleetCommandAbort), string(api.FleetCommandRetry), string(api.FleetCommandSkip),
		string(api.FleetCommandPromote), string(api.FleetCommandUnblock),
	}
	return []fleetKind{
		release("started", CauseRollout, "The release of a version begins. data.release.epoch is its number.", []string{"Begun"}, nil),
		release("superseded", CauseRollout, "Another version takes the place of this release, which goes no further. release.started follows.", []string{"Superseded"}, nil),
		release("refused", CauseCommand, "The hub has refused a command. data.message says why.", nil, []string{"CommandRefused"}),
		release("commanded", CauseCommand, "The hub has followed a command. data.reason names it, and data.actor says who gave it.", nil, commands),
		wave("started", CauseProgress, "A wave begins. The hub has drawn its clusters.", nil, []string{"WaveBegun"}),
		wave("approved", CauseApproval, "A user or a program approved the pause of the wave. data.actor says who.", nil, []string{string(api.FleetCommandApprove)}),
		wave("rejected", CauseApproval, "A user or a program rejected the release in this wave. data.actor says who.", nil, []string{string(api.FleetCommandReject)}),
		wave("paused", CauseProgress, "The wave waits for an approval (data.reason Approval), or for the end of its pause (Duration).",
			[]string{string(api.FleetPhaseWaiting), string(api.FleetPhasePaused)}, []string{"Approval", "Duration"}),
		stage("held", "All clusters of the wave stand at its holdAt, and soak there.", api.FleetWaveHoldSoak),
		stage("ready", "The clusters of the wave have soaked at its holdAt.", api.FleetWaveHoldPause),
		stage("resumed", "The clusters of the wave go on from its holdAt.", api.FleetWaveGoing),
		stage("completed", "The clusters of the wave have completed and soaked.", api.FleetWavePause),
		stage("passed", "The wave has passed, and the next one may begin.", api.FleetWavePassed),
		stage("skipped", "A user let the release pass over the wave, although it has proven nothing.", api.FleetWaveSkipped),
		phase("progressing", "Clusters are under way, or begin soon. data.reason says which.", api.FleetPhaseProgressing),
		phase("waiting", "The release waits until the version has arrived in the clusters of the wave.", api.FleetPhaseWaiting),
		phase("soaking", "The clusters of the wave must stay healthy for some time.", api.FleetPhaseSoaking),
		phase("paused", "The release stands still because of a user, or of a failure. data.reason says which, and data.message says what to do.", api.FleetPhasePaused),
		phase("stalled", "The release stands still until a person acts. data.message says what to do.", api.FleetPhaseStalled),
		phase("withdrawing", "All clusters go back from the version, and no cluster gets it again.", api.FleetPhaseWithdrawing),
		phase("withdrawn", "All clusters have gone back from the version.", api.FleetPhaseWithdrawn),
		phase("aborted", "The release has ended early. Clusters that had completed keep the version.", api.FleetPhaseAborted),
		phase("succeeded", "All waves have passed. data.message names clusters that are deferred.", api.FleetPhaseSucceeded),
		phase("idle", "The FleetRollout names no version.", api.FleetPhaseIdle),
		release("changed", CauseFleet, "The release is in a phase that the sending version of Sluice does not know. data.to names the phase.", nil, nil),
	}
}

// FleetKindOf returns the one kind of event for a transition of a FleetRollout.
func FleetKindOf(t api.FleetTransition) Kind {
	fits := func(list []string, word string) bool { return list == nil || slices.Contains(list, word) }
	kinds := fleetKinds()
	i := slices.IndexFunc(kinds, func(k fleetKind) bool { return fits(k.to, t.To) && fits(k.reasons, t.Reason) })
	return kinds[i].Kind // the last one fits all
}

// fleetTargetKinds lists the types of events about the clusters of a release, by the phases of FleetTargets.
func fleetTargetKinds() []fleetKind {
	list := []fleetKind{}
	add := func(phase api.FleetTargetPhase, verb, when string) {
		list = append(list, fleetKind{Kind: Kind{Noun: nounFleetCluster, Verb: verb, Cause: CauseFleet, When: when}, to: []string{string(phase)}})
	}
	add(api.FleetTargetPending, "pending", "The cluster waits for its wave or its turn.")
	add(api.FleetTargetAwaitingDelivery, "awaiting", "The version has not arrived in the cluster.")
	add(api.FleetTargetPermitted, "permitted", "The cluster has a permit, and has not begun.")
	add(api.FleetTargetProgressing, "progressing", "The release of the cluster is under way, or it goes back (data.reason GoingBack).")
	add(api.FleetTargetAtHold, "held", "The cluster stands at holdAt, or was told to hold.")
	add(api.FleetTargetSoaking, "soaking", "The cluster has completed, and must stay healthy.")
	add(api.FleetTargetCompleted, "completed", "The cluster runs the version, and has soaked.")
	add(api.FleetTargetFailed, "failed", "The release of the cluster has failed. data.reason says why.")
	add(api.FleetTargetWithdrawn, "withdrawn", "The cluster has gone back from the version.")
	add(api.FleetTargetNoWayBack, "irreversible", "The cluster gets no permit, because it has no version to go back to.")
	add(api.FleetTargetDiverged, "diverged", "The cluster holds another version than its permit names.")
	add(api.FleetTargetUnpermitted, "unpermitted", "The cluster runs the version without a permit.")
	add(api.FleetTargetDeferred, "deferred", "The release goes on without the cluster, which follows later. data.reason says why.")
	add(api.FleetTargetUnknown, "lost", "The hub has lost the cluster while it had a permit.")
	add(api.FleetTargetSkipped, "skipped", "A user let the release pass over the cluster.")
	add(api.FleetTargetAbsent, "absent", "The cluster has no such Rollout.")
	add(api.FleetTargetUngoverned, "ungoverned", "The Rollout of the cluster does not name the FleetRollout, or is disabled.")
	add(api.FleetTargetLeft, "left", "The FleetMember of the cluster was deleted.")
	return append(list, fleetKind{Kind: Kind{Noun: nounFleetCluster, Verb: "changed", Cause: CauseFleet,
		When: "The cluster is in a phase that the sending version of Sluice does not know. data.to names the phase."}})
}

// FleetTargetKindOf returns the one kind of event for a phase of a cluster.
func FleetTargetKindOf(phase api.FleetTargetPhase) Kind {
	kinds := fleetTargetKinds()
	i := slices.IndexFunc(kinds, func(k fleetKind) bool { return k.to == nil || slices.Contains(k.to, string(phase)) })
	return kinds[i].Kind // the last one fits all
}

// FleetVocabulary lists every type of event that the hub of a fleet sends about its releases.
func FleetVocabulary() []Kind {
	var list []Kind
	for _, k := range append(fleetKinds(), fleetTargetKinds()...) {
		list = append(list, k.Kind)
	}
	return list
}
