package fleet

import (
	"strings"
	"testing"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/test/world"
)

// patched is a release whose images the clusters set.
func patched(version string) string {
	return "  delivery: Patch\n  release: {version: " + version + `, images: {app: "example.com/checkout:` + version + `"}}` + "\n"
}

// Each cluster sets the images of its workload when it has its permit. After a withdrawal, all clusters run version 1 again.
func TestClustersSetTheImages(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	s.installed("v1")
	s.release(patched("v2") + twoWaves)
	s.phase(api.FleetPhaseWaiting, "Approval")
	s.member("eu1", serves("v2"))
	s.pods("eu1", map[string]int{"v2": 4})
	s.pods("eu2", map[string]int{"v1": 4})
	s.command(api.FleetCommand{Action: api.FleetCommandApprove})
	s.phase(api.FleetPhaseSucceeded, "Completed")
	for _, name := range []string{"eu1", "eu2", "eu3"} {
		s.pods(name, map[string]int{"v2": 4})
	}
	s.command(api.FleetCommand{Action: api.FleetCommandRollback})
	s.phase(api.FleetPhaseWithdrawn, "RolledBack")
	for _, name := range []string{"eu1", "eu2", "eu3"} {
		s.member(name, serves("v1"))
		s.pods(name, map[string]int{"v1": 4})
	}
}

// A tool that applies its own manifest takes the images back. The cluster fails, names the tool, and does not fight with it. A retry sets them again.
func TestAToolTakesTheImagesBack(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	s.installed("v1")
	s.release(patched("v2") + "  localPauses: Keep" + twoWaves)
	first := s.member("eu1", world.PausedAt(1)).Status.Sluice.Epoch
	s.deliver("v1", "eu1")
	target := s.target("eu1", api.FleetTargetFailed)
	if r := target.Status.Report; target.Status.Reason != api.FleetReasonTakenBack || !strings.Contains(r.Message, "kubectl-client-side-apply has changed its template since") {
		t.Errorf("the target has failed with %s: %s", target.Status.Reason, r.Message)
	}
	s.pods("eu1", map[string]int{"v1": 4})
	s.command(api.FleetCommand{Action: api.FleetCommandRetry, Clusters: []string{"eu1"}})
	s.member("eu1", func(r *api.Rollout) bool { return world.PausedAt(1)(r) && r.Status.Sluice.Epoch > first })
	s.members["eu1"].Approve(t, s.namespace, "checkout")
	s.phase(api.FleetPhaseWaiting, "Approval")
	s.member("eu1", serves("v2"))
}

// The images of a release must be those of all containers. A cluster with other containers says so before anything changes.
func TestAClusterWithOtherContainersFails(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	s.installed("v1")
	s.release(strings.Replace(patched("v2"), "{app:", "{web:", 1) + twoWaves)
	target := s.target("eu1", api.FleetTargetFailed)
	if r := target.Status.Report; target.Status.Reason != api.FleetReasonContainersDiffer || !strings.Contains(r.Message, "images for web, and the containers of Deployment checkout are app") {
		t.Errorf("the target has failed with %s: %s", target.Status.Reason, r.Message)
	}
	s.pods("eu1", map[string]int{"v1": 4})
}
