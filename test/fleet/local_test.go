package fleet

import (
	"strings"
	"testing"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/test/world"
)

// A release is aborted in one cluster while a tool applies its version again and again. It does not begin there a second time, and no other cluster begins. Then
// the fleet takes the version back, and it stays away.
func TestALocalFailureUnderATool(t *testing.T) {
	t.Parallel()
	for kind, workload := range map[string]string{
		"Deployment":  app,
		"StatefulSet": strings.Replace(strings.ReplaceAll(app, "kind: Deployment", "kind: StatefulSet"), "spec:\n", "spec:\n  serviceName: checkout\n", 1),
		"DaemonSet":   strings.Replace(strings.ReplaceAll(app, "kind: Deployment", "kind: DaemonSet"), "  replicas: 4\n", "", 1),
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			s := newStory(t)
			s.app = workload
			pods := 4
			if kind == "DaemonSet" {
				pods = 2 // one on each node
			}
			s.deliver("v1", "eu1", "eu2", "eu3")
			for _, cluster := range []string{"eu1", "eu2", "eu3"} {
				s.member(cluster, func(r *api.Rollout) bool { return world.Healthy(r) && serves("v1")(r) })
				s.pods(cluster, map[string]int{"v1": pods})
			}
			s.release("  release: {version: v2}\n  waves: [{name: all, maxConcurrency: 1}]\n  localPauses: Keep\n")
			s.deliver("v2", "eu1", "eu2", "eu3")
			first := s.await("the first grant", func(status api.FleetRolloutStatus) bool { return status.Grant != nil }).Grant.Clusters[0]
			s.member(first, world.PausedAt(1))
			stop := s.applyAgain("v2", first)
			s.abortLocally(first)
			s.target(first, api.FleetTargetFailed)
			s.pods(first, map[string]int{"v1": pods})
			s.phase(api.FleetPhasePaused, "BudgetExceeded")
			s.command(api.FleetCommand{Action: api.FleetCommandRollback})
			s.phase(api.FleetPhaseWithdrawn, "RolledBack")
			stop()
			for name := range s.members {
				s.pods(name, map[string]int{"v1": pods})
				r := s.member(name, serves("v1"))
				if len(r.Status.Fleet.Blocked) == 0 && name == first {
					t.Errorf("%s has aborted v2, which is withdrawn, and blocks nothing", name)
				}
			}
		})
	}
}
