package fleet

import (
	"strings"
	"testing"
	"time"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/test/world"
)

// twoWaves is a strategy with an approval between the first cluster and the others.
const twoWaves = `
  waves:
  - {name: canary, clusters: {matchLabels: {tier: canary}}, pause: {}}
  - {name: rest, maxConcurrency: 2}
`

// A version goes through the first wave, waits for an approval, and then goes through the rest. Pauses of the clusters end by the permit.
func TestAVersionGoesThroughItsWaves(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	s.installed("v1")
	s.release("  release: {version: v2}" + twoWaves)
	s.phase(api.FleetPhaseWaiting, "Delivery")
	s.deliver("v2", "eu1", "eu2", "eu3")
	s.phase(api.FleetPhaseWaiting, "Approval")
	if wave := s.member("eu1", serves("v2")).Status.Fleet.Permit.Wave; wave != "canary" {
		t.Errorf("the permit is for the wave %q, want canary", wave)
	}
	s.member("eu2", awaitsPermit("v2"))
	s.member("eu3", awaitsPermit("v2"))
	s.command(api.FleetCommand{Action: api.FleetCommandApprove})
	status := s.phase(api.FleetPhaseSucceeded, "Completed")
	if n := status.Counts[api.FleetTargetCompleted]; n != 3 {
		t.Errorf("%d clusters have completed, want 3: %v", n, status.Counts)
	}
	s.member("eu2", serves("v2"))
	s.member("eu3", serves("v2"))
	s.awaitEvent("Approval")
}

// A person takes a version back that has completed in one cluster, while a tool goes on applying it. The whole fleet goes back and stays there, and the version
// gets no permit before a person unblocks it.
func TestAWithdrawnVersionStaysAwayFromAllClusters(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	s.installed("v1")
	s.release("  release: {version: v2}" + twoWaves)
	s.deliver("v2", "eu1", "eu2", "eu3")
	s.phase(api.FleetPhaseWaiting, "Approval")
	stop := s.applyAgain("v2", "eu1")
	s.command(api.FleetCommand{Action: api.FleetCommandRollback, Comment: "errors in the shop"})
	s.await("the withdrawal", func(status api.FleetRolloutStatus) bool { return status.Phase == api.FleetPhaseWithdrawn })
	s.target("eu1", api.FleetTargetWithdrawn)
	r := s.member("eu1", serves("v1"))
	if len(r.Status.Fleet.Blocked) != 1 {
		t.Errorf("the cluster blocks %v, want version/v2", r.Status.Fleet.Blocked)
	}
	stop()
	s.deliver("v2", "eu1")
	s.command(api.FleetCommand{Action: api.FleetCommandUnblock, Version: "version/v2"})
	s.phase(api.FleetPhaseWaiting, "Approval")
	s.member("eu1", serves("v2"))
}

// While no executor of the hub runs, a cluster finishes under its permit and no other begins. The hub goes on where it stood.
func TestTheHubIsAwayInTheMiddleOfAWave(t *testing.T) {
	s := newStory(t)
	s.installed("v1")
	s.release("  release: {version: v2}\n  waves: [{name: all, maxConcurrency: 1}]\n  localPauses: Keep\n")
	s.deliver("v2", "eu1", "eu2", "eu3")
	status := s.await("the first grant", func(status api.FleetRolloutStatus) bool { return status.Grant != nil })
	first := status.Grant.Clusters[0]
	s.member(first, world.PausedAt(1))
	s.stopHub()
	s.members[first].Approve(t, s.namespace, "checkout")
	s.member(first, serves("v2"))
	for name := range s.members {
		if name != first {
			s.member(name, awaitsPermit("v2"))
		}
	}
	if err := s.runHub(t.Context()); err != nil {
		t.Fatal(err)
	}
	second := s.await("the second grant", func(status api.FleetRolloutStatus) bool { return status.Grant.Seq == 2 }).Grant.Clusters[0]
	s.member(second, world.PausedAt(1))
	s.members[second].Approve(t, s.namespace, "checkout")
	third := s.await("the third grant", func(status api.FleetRolloutStatus) bool { return status.Grant.Seq == 3 }).Grant.Clusters[0]
	s.member(third, world.PausedAt(1))
	s.members[third].Approve(t, s.namespace, "checkout")
	s.phase(api.FleetPhaseSucceeded, "Completed")
}

// A new version in the middle of a release goes through all waves. A cluster in the middle of the old one goes back from it first.
func TestANewVersionOvertakesTheOldOne(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	s.pausedInTheCanary()
	s.release("  release: {version: v3}\n  localPauses: Pass" + twoWaves)
	s.deliver("v3", "eu1", "eu2", "eu3")
	s.phase(api.FleetPhaseWaiting, "Approval")
	s.member("eu1", serves("v3"))
	s.command(api.FleetCommand{Action: api.FleetCommandApprove})
	s.phase(api.FleetPhaseSucceeded, "Completed")
	for name := range s.members {
		r := s.member(name, serves("v3"))
		for _, version := range r.Status.Fleet.Served {
			if version.Version == "v2" {
				t.Errorf("all pods of %s have run v2, which no permit let through to its end", name)
			}
		}
	}
}

// Lines that deliver late, and one that breaks again and again, cost time only.
func TestBadLinesCostTimeOnly(t *testing.T) {
	s := newStory(t)
	s.installed("v1")
	t.Cleanup(func() { s.members["eu1"].proxy.Restore(); s.members["eu2"].proxy.Restore() })
	s.members["eu1"].proxy.Slow(300 * time.Millisecond)
	s.members["eu2"].proxy.Slow(100 * time.Millisecond)
	stop := s.breakAgain("eu3")
	s.release("  release: {version: v2}" + twoWaves)
	s.deliver("v2", "eu1", "eu2", "eu3")
	s.phase(api.FleetPhaseWaiting, "Approval")
	s.command(api.FleetCommand{Action: api.FleetCommandApprove})
	s.member("eu3", serves("v2"))
	stop()
	s.phase(api.FleetPhaseSucceeded, "Completed")
	s.member("eu2", serves("v2"))
}

// A FleetRollout that is deleted leaves clusters under way where they stand.
func TestADeletedFleetRolloutHoldsItsClusters(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	s.pausedInTheCanary()
	s.hub.Do(t, "-n", s.namespace, "delete", "fleetrollout", "checkout")
	r := s.member("eu1", func(r *api.Rollout) bool {
		return r.Status.Fleet != nil && r.Status.Fleet.Permit != nil && r.Status.Fleet.Permit.Verb == api.FleetVerbHold
	})
	if r.Status.Fleet.Permit.Version != "version/v2" {
		t.Errorf("the hold is about %q, want version/v2", r.Status.Fleet.Permit.Version)
	}
	s.members["eu1"].Approve(t, s.namespace, "checkout")
	s.member("eu1", func(r *api.Rollout) bool {
		return r.Status.CurrentStepIndex == 1 && r.Status.CurrentStepState == api.StepReady && strings.Contains(r.Status.Message, "was deleted at the hub; create it again")
	})
}

// measured are steps with metrics. No analyzer runs in the clusters of the tests, so their verdict never comes.
const measured = `[{replicas: 1, analysis: {templates: [{name: errors}]}, pause: {duration: 1}}, {replicas: "50%", pause: {duration: 1}}]`

// templateOfMeasured is the template of these metrics.
const templateOfMeasured = `
apiVersion: sluice.dev/v1alpha1
kind: AnalysisTemplate
metadata: {name: errors}
spec:
  metrics:
  - {name: errors, interval: 10s, count: 1, prometheus: {address: "http://127.0.0.1:9", query: "vector(1)"}, failWhen: value > 1}
`

// A person passes over metrics that block a hotfix. The cluster under way goes on by a newer permit. The metrics of clusters in later waves count.
func TestAPromotionPassesOverMetrics(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	for _, m := range s.members {
		m.Apply(t, s.namespace, templateOfMeasured)
	}
	s.steps = measured
	s.installed("v1")
	s.release("  release: {version: v2}" + twoWaves)
	s.deliver("v2", "eu1", "eu2", "eu3")
	measuring := func(r *api.Rollout) bool { return r.Status.Analysis != nil && r.Status.Analysis.Step != nil }
	first := s.member("eu1", measuring).Status.Fleet.Permit.Number()
	s.command(api.FleetCommand{Action: api.FleetCommandPromote, Through: 1, SkipAnalyses: []string{"errors"}, Comment: "hotfix"})
	r := s.member("eu1", serves("v2"))
	if p := r.Status.Fleet.Permit; !first.Before(p.Number()) || len(p.SkipAnalyses) != 1 {
		t.Errorf("eu1 has completed under the permit %+v, want a newer one than %v that passes over the metrics", p, first)
	}
	if skipped := s.member("eu2", measuring).Status.Fleet.Permit.SkipAnalyses; len(skipped) > 0 {
		t.Errorf("eu2 of the next wave passes over %v", skipped)
	}
}
