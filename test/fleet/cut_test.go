package fleet

import (
	"slices"
	"strings"
	"testing"
	"time"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/test/world"
)

// whileAway is how far the clock of a cluster that is cut off goes ahead. It is more than the longest permit in these stories that expires, and less than the
// ten minutes after which the hub takes no heartbeat.
const whileAway = 8 * time.Minute

// A cluster is cut off from its hub, at each moment of a release. It goes no further than its permit, and follows when it comes back.
func TestAClusterIsCutOff(t *testing.T) {
	f := sharedFleet(t)
	eu2, eu3 := f.members["eu2"], f.members["eu3"]
	t.Cleanup(func() { eu2.proxy.Restore(); eu3.proxy.Restore(); eu3.ahead.Store(0) })
	newActs(
		func() { eu3.proxy.CutOff(); eu3.ahead.Store(int64(whileAway)) },
		func() { eu3.ahead.Store(0); eu3.proxy.Restore() },
		eu3.proxy.CutOff,
		eu3.proxy.Restore,
		func() { eu2.proxy.CutOff(); eu3.proxy.CutOff() },
		func() { eu2.proxy.Restore(); eu3.proxy.Restore() },
	).play(t, map[string]func(*story, acts){
		"before its permit":                     (*story).cutOffBeforeItsPermit,
		"in its permit":                         (*story).cutOffInItsPermit,
		"after its permit":                      (*story).cutOffAfterItsPermit,
		"completed while the fleet withdraws":   (*story).cutOffWhileItsVersionIsWithdrawn,
		"under way while the fleet withdraws":   (*story).cutOffWhileItsReleaseIsWithdrawn,
		"for longer than its permit":            (*story).cutOffForLongerThanItsPermit,
		"while a newer version takes its place": (*story).cutOffWhileItIsOvertaken,
		"again and again":                       (*story).cutOffAgainAndAgain,
	})
}

// The cluster is deferred, and the release ends without it.
func (s *story) cutOffBeforeItsPermit(a acts) {
	s.steps = steadySteps
	s.installed("v1")
	s.attend(a[0])
	s.release("  release: {version: v2}\n  budgets: {unreachable: 1}" + twoWaves)
	s.deliver("v2", "eu1", "eu2", "eu3")
	s.phase(api.FleetPhaseWaiting, "Approval")
	s.target("eu1", api.FleetTargetCompleted)
	s.command(api.FleetCommand{Action: api.FleetCommandApprove})
	status := s.phase(api.FleetPhaseSucceeded, "Completed")
	if n := status.Counts[api.FleetTargetDeferred]; n != 1 || !strings.Contains(status.Message, "eu3") {
		s.t.Errorf("%d clusters are deferred, want eu3: %s", n, status.Message)
	}
	s.member("eu3", awaitsPermit("v2"))
	s.attend(a[1])
	s.member("eu3", serves("v2"))
	s.target("eu3", api.FleetTargetCompleted)
}

// keepAll is a plan with one wave of all clusters, whose pauses stay with their users.
const keepAll = "  release: {version: v2}\n  waves: [{name: all, maxConcurrency: 3}]\n  localPauses: Keep\n"

// The cluster ends its release under its permit. The hub does not know, and the wave waits for it.
func (s *story) cutOffInItsPermit(a acts) {
	s.underWayEverywhere(keepAll)
	s.attend(a[0])
	s.target("eu3", api.FleetTargetUnknown)
	for _, cluster := range []string{"eu1", "eu2", "eu3"} {
		s.approveLocally(cluster, 1)
		s.approveLocally(cluster, 2)
		s.member(cluster, serves("v2"))
	}
	s.target("eu1", api.FleetTargetCompleted)
	s.target("eu2", api.FleetTargetCompleted)
	if status := s.phase(api.FleetPhaseProgressing, "Wave"); !slices.ContainsFunc(status.Attention, func(a api.FleetAttention) bool { return a.Cluster == "eu3" }) {
		s.t.Errorf("eu3 is lost, and status.attention says %+v", status.Attention)
	}
	s.attend(a[1])
	s.phase(api.FleetPhaseSucceeded, "Completed")
}

// A third of the fleet is lost and comes back twice in one release, and then two thirds at once. The release goes on in between, and ends.
func (s *story) cutOffAgainAndAgain(a acts) {
	s.underWayEverywhere(keepAll)
	s.attend(a[0])
	s.target("eu3", api.FleetTargetUnknown)
	s.approveLocally("eu1", 1)
	s.approveLocally("eu2", 1)
	s.attend(a[1])
	s.target("eu3", api.FleetTargetProgressing)
	s.approveLocally("eu3", 1)
	s.member("eu3", world.PausedAt(2))
	s.attend(a[2])
	s.target("eu3", api.FleetTargetUnknown)
	s.attend(a[3])
	s.target("eu3", api.FleetTargetProgressing)
	s.attend(a[4])
	s.phase(api.FleetPhaseStalled, "HubCutOff")
	s.attend(a[5])
	s.phase(api.FleetPhaseProgressing, "Wave")
	for _, cluster := range []string{"eu1", "eu2", "eu3"} {
		s.approveLocally(cluster, 2)
	}
	s.phase(api.FleetPhaseSucceeded, "Completed")
}

// underWayEverywhere brings all clusters to their first step by one grant.
func (s *story) underWayEverywhere(spec string) {
	s.steps = steadySteps
	s.installed("v1")
	s.release(spec)
	s.deliver("v2", "eu1", "eu2", "eu3")
	for _, cluster := range []string{"eu1", "eu2", "eu3"} {
		s.member(cluster, world.PausedAt(1))
	}
}

// approveLocally approves a step in a cluster itself.
func (s *story) approveLocally(cluster string, step int32) {
	s.t.Helper()
	s.member(cluster, world.PausedAt(step))
	s.members[cluster].Approve(s.t, s.namespace, "checkout")
}

// The release goes on without the cluster that has completed.
func (s *story) cutOffAfterItsPermit(a acts) {
	s.firstWaveCompleted()
	s.attend(a[0])
	s.command(api.FleetCommand{Action: api.FleetCommandApprove})
	status := s.phase(api.FleetPhaseSucceeded, "Completed")
	if n := status.Counts[api.FleetTargetCompleted]; n != 3 {
		s.t.Errorf("%d clusters have completed, want 3: %v", n, status.Counts)
	}
	s.attend(a[1])
	s.target("eu3", api.FleetTargetCompleted)
	s.member("eu3", serves("v2"))
}

// eu3First is a plan whose first wave is the cluster that is cut off.
const eu3First = `
  waves:
  - {name: first, clusters: {matchLabels: {cluster: eu3}}, pause: {}}
  - {name: rest, maxConcurrency: 2}
`

// firstWaveCompleted brings v2 into eu3.
func (s *story) firstWaveCompleted() {
	s.steps = steadySteps
	s.installed("v1")
	s.release("  release: {version: v2}" + eu3First)
	s.deliver("v2", "eu1", "eu2", "eu3")
	s.phase(api.FleetPhaseWaiting, "Approval")
	s.member("eu3", serves("v2"))
}

// The cluster keeps the version, and goes back as soon as it hears of the withdrawal.
func (s *story) cutOffWhileItsVersionIsWithdrawn(a acts) {
	s.firstWaveCompleted()
	s.attend(a[0])
	s.command(api.FleetCommand{Action: api.FleetCommandRollback})
	s.phase(api.FleetPhaseWithdrawing, "RolledBack")
	s.target("eu3", api.FleetTargetUnknown)
	s.member("eu3", serves("v2"))
	s.attend(a[1])
	s.member("eu3", serves("v1"))
	s.phase(api.FleetPhaseWithdrawn, "RolledBack")
}

// The cluster stays within its permit, and goes back as soon as it hears of the withdrawal. The others are back before.
func (s *story) cutOffWhileItsReleaseIsWithdrawn(a acts) {
	s.underWayEverywhere(keepAll)
	s.attend(a[0])
	s.command(api.FleetCommand{Action: api.FleetCommandRollback})
	s.target("eu1", api.FleetTargetWithdrawn)
	s.target("eu2", api.FleetTargetWithdrawn)
	s.approveLocally("eu3", 1) // its permit still counts
	s.member("eu3", world.PausedAt(2))
	s.attend(a[1])
	s.phase(api.FleetPhaseWithdrawn, "RolledBack")
	if r := s.member("eu3", serves("v1")); r.Status.Fleet.Used.Failure == "" {
		s.t.Error("eu3 has gone back, and its release counts as a success")
	}
}

// The step under way ends. No other step begins before the hub has given the cluster more time.
func (s *story) cutOffForLongerThanItsPermit(a acts) {
	s.underWayEverywhere(keepAll + "  progressDeadline: 1m\n")
	s.attend(a[0])
	s.approveLocally("eu3", 1)
	s.member("eu3", func(r *api.Rollout) bool {
		return r.Status.CurrentStepIndex == 1 && strings.Contains(r.Status.Message, "has expired")
	})
	s.attend(a[1])
	s.lookAgain("eu3")
	s.approveLocally("eu3", 2)
	s.member("eu3", serves("v2"))
	for _, cluster := range []string{"eu1", "eu2"} {
		s.approveLocally(cluster, 1)
		s.approveLocally(cluster, 2)
	}
	s.phase(api.FleetPhaseSucceeded, "Completed")
}

// lookAgain makes the executors of a cluster look at the Rollout, as they do every few minutes.
func (s *story) lookAgain(cluster string) {
	s.t.Helper()
	s.members[cluster].Do(s.t, "-n", s.namespace, "annotate", "rollout", "checkout", "example.com/look=again", "--overwrite")
}

// The old version gets no step more in the clusters that are heard. The one that is cut off follows to the new version when it is heard.
func (s *story) cutOffWhileItIsOvertaken(a acts) {
	s.underWayEverywhere(keepAll)
	s.attend(a[0])
	s.target("eu3", api.FleetTargetUnknown)
	s.release("  release: {version: v3}\n  waves: [{name: all, maxConcurrency: 3}]\n  localPauses: Pass\n  budgets: {unreachable: 1}\n")
	s.deliver("v3", "eu1", "eu2")
	s.member("eu1", serves("v3"))
	s.member("eu2", serves("v3"))
	s.member("eu3", world.PausedAt(1))
	s.attend(a[1])
	s.deliver("v3", "eu3")
	r := s.member("eu3", serves("v3"))
	if slices.ContainsFunc(r.Status.Fleet.Served, func(v api.FleetVersion) bool { return v.Version == "v2" }) {
		s.t.Error("all pods of eu3 have run v2, which was overtaken")
	}
	s.phase(api.FleetPhaseSucceeded, "Completed")
}
