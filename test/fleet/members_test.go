package fleet

import (
	"context"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/test/world"
)

// The acts of TestMembersComeAndGo.
const (
	eu3Leaves = iota
	eu3Joins
	eu2Moves
	eu3HoldsNothing
	eu3Holds
)

// A cluster leaves the fleet and joins it again, changes its labels, and loses its policies, each in the middle of releases.
func TestMembersComeAndGo(t *testing.T) {
	f := sharedFleet(t)
	kubectl := func(w *world.World, args ...string) func() {
		return func() {
			if _, err := w.Kubectl(context.WithoutCancel(t.Context()), args...); err != nil {
				t.Error(err)
			}
		}
	}
	enter := func() {
		if err := f.enter(context.WithoutCancel(t.Context()), f.members["eu3"]); err != nil {
			t.Error(err)
		}
	}
	eu3 := f.members["eu3"].World
	restore := func() {
		if err := installPolicies(t, eu3); err != nil {
			t.Error(err)
		}
	}
	newActs(
		kubectl(f.hub, "delete", "fleetmember", "eu3"),
		enter,
		kubectl(f.hub, "label", "fleetmember", "eu2", "tier=canary", "--overwrite"),
		kubectl(eu3, "delete", "mutatingadmissionpolicybindings", "--all"),
		restore,
	).play(t, map[string]func(*story, acts){
		"a cluster that has had no permit leaves":    (*story).unexposedClusterLeaves,
		"a cluster that has completed leaves":        (*story).completedClusterLeaves,
		"a cluster that is under way leaves":         (*story).clusterLeavesUnderWay,
		"a cluster joins the wave under way":         (*story).clusterJoinsItsWave,
		"a cluster joins before its wave":            (*story).clusterJoinsBeforeItsWave,
		"a cluster gets the labels of another wave":  (*story).clusterMoves,
		"nothing holds changes in a cluster anymore": (*story).clusterHoldsNothing,
	})
	t.Cleanup(kubectl(f.hub, "label", "fleetmember", "eu2", "tier=prod", "--overwrite"))
}

// attendUntil attends all acts up to one.
func (s *story) attendUntil(a acts, last int) {
	for _, m := range a[:last+1] {
		s.attend(m)
	}
}

func (s *story) unexposedClusterLeaves(a acts) {
	s.installed("v1")
	s.release("  release: {version: v2}" + twoWaves)
	s.deliver("v2", "eu1", "eu2", "eu3")
	s.phase(api.FleetPhaseWaiting, "Approval")
	s.attend(a[eu3Leaves])
	s.command(api.FleetCommand{Action: api.FleetCommandApprove})
	s.phase(api.FleetPhaseSucceeded, "Completed")
	s.member("eu3", awaitsPermit("v2"))
	s.attend(a[eu3Joins])
	s.member("eu3", serves("v2")) // it joins the last wave, also after the end of the release
	s.target("eu3", api.FleetTargetCompleted)
}

func (s *story) completedClusterLeaves(a acts) {
	s.firstWaveCompleted()
	s.attend(a[eu3Leaves])
	s.target("eu3", api.FleetTargetLeft)
	s.command(api.FleetCommand{Action: api.FleetCommandApprove})
	status := s.phase(api.FleetPhaseSucceeded, "Completed")
	if status.Counts[api.FleetTargetLeft] != 1 {
		s.t.Errorf("eu3 was exposed and has left, and status.counts says %v", status.Counts)
	}
	s.attend(a[eu3Joins])
	s.target("eu3", api.FleetTargetCompleted)
}

func (s *story) clusterLeavesUnderWay(a acts) {
	s.underWayEverywhere(keepAll)
	s.attend(a[eu3Leaves])
	s.target("eu3", api.FleetTargetLeft)
	for _, cluster := range []string{"eu1", "eu2"} {
		s.approveLocally(cluster, 1)
		s.approveLocally(cluster, 2)
	}
	s.phase(api.FleetPhaseSucceeded, "Completed")
	s.member("eu3", world.PausedAt(1))
	s.attend(a[eu3Joins])
	s.target("eu3", api.FleetTargetProgressing)
	s.approveLocally("eu3", 1)
	s.approveLocally("eu3", 2)
	s.target("eu3", api.FleetTargetCompleted)
}

func (s *story) clusterJoinsItsWave(a acts) {
	s.installed("v1")
	s.attend(a[eu3Leaves])
	s.release("  release: {version: v2}\n  localPauses: Keep\n  waves: [{name: prod, clusters: {matchLabels: {tier: prod}}, pause: {}}, {name: last}]\n")
	s.deliver("v2", "eu1", "eu2", "eu3")
	s.member("eu2", world.PausedAt(1))
	s.attend(a[eu3Joins])
	s.await("eu3 in the wave under way, and heard", func(status api.FleetRolloutStatus) bool {
		return slices.Equal(status.Waves[0].Clusters, []string{"eu2", "eu3"}) && status.Counts[api.FleetTargetDeferred] == 0
	})
	s.member("eu3", awaitsPermit("v2")) // the wave allows one cluster at a time
	s.approveLocally("eu2", 1)
	s.approveLocally("eu3", 1)
	s.phase(api.FleetPhaseWaiting, "Approval")
	s.member("eu1", awaitsPermit("v2"))
}

func (s *story) clusterJoinsBeforeItsWave(a acts) {
	s.installed("v1")
	s.attend(a[eu3Leaves])
	s.release("  release: {version: v2}" + twoWaves)
	s.deliver("v2", "eu1", "eu2", "eu3")
	s.phase(api.FleetPhaseWaiting, "Approval")
	s.attend(a[eu3Joins])
	s.command(api.FleetCommand{Action: api.FleetCommandApprove})
	s.member("eu3", serves("v2"))
	status := s.phase(api.FleetPhaseSucceeded, "Completed")
	if !slices.Contains(status.Waves[1].Clusters, "eu3") {
		s.t.Errorf("eu3 has joined before the last wave, and the waves are %+v", status.Waves)
	}
}

func (s *story) clusterMoves(a acts) {
	s.attendUntil(a, eu3Joins)
	s.pausedInTheCanary()
	s.attend(a[eu2Moves])
	s.await("eu2 in the wave of its new labels", func(status api.FleetRolloutStatus) bool {
		return slices.Equal(status.Waves[0].Clusters, []string{"eu1", "eu2"})
	})
	s.approveLocally("eu1", 1)
	s.approveLocally("eu2", 1)
	s.phase(api.FleetPhaseWaiting, "Approval")
	s.command(api.FleetCommand{Action: api.FleetCommandApprove})
	s.approveLocally("eu3", 1)
	s.phase(api.FleetPhaseSucceeded, "Completed")
}

func (s *story) clusterHoldsNothing(a acts) {
	s.attendUntil(a, eu2Moves)
	s.installed("v1")
	s.release("  release: {version: v2}\n  budgets: {unreachable: 1}\n  waves: [{name: canary, clusters: {matchLabels: {cluster: eu1}}, pause: {}}, {name: rest, maxConcurrency: 2}]\n")
	s.deliver("v2", "eu1", "eu2", "eu3")
	s.phase(api.FleetPhaseWaiting, "Approval")
	s.attend(a[eu3HoldsNothing])
	s.awaitMember("eu3", "no enforcement", func(m api.FleetMember) bool { return m.Status.Enforcement == api.FleetEnforcementNone })
	s.command(api.FleetCommand{Action: api.FleetCommandApprove})
	status := s.phase(api.FleetPhaseSucceeded, "Completed")
	if !slices.ContainsFunc(status.Attention, func(a api.FleetAttention) bool { return a.Cluster == "eu3" && a.Reason == "NoEnforcement" }) {
		s.t.Errorf("nothing holds changes in eu3, and status.attention says %+v", status.Attention)
	}
	s.member("eu3", awaitsPermit("v2"))
	s.attend(a[eu3Holds])
	s.member("eu3", serves("v2"))
}

// awaitMember waits until a FleetMember has reached a state.
func (s *story) awaitMember(name, want string, reached func(api.FleetMember) bool) {
	s.t.Helper()
	s.hub.AwaitObject(s.t, "", "fleetmember", name, want, func(u *unstructured.Unstructured) bool {
		if u == nil {
			return false
		}
		var m api.FleetMember
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &m); err != nil {
			s.t.Fatal(err)
		}
		return reached(m)
	})
}

// installPolicies applies the installation again.
func installPolicies(t *testing.T, w *world.World) error {
	_, err := w.Kubectl(context.WithoutCancel(t.Context()), "apply", "--server-side", "-k", world.Root()+"/deploy")
	return err
}
