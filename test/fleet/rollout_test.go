package fleet

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/test/world"
)

// A workload without pods gets another version, which nothing holds, and is scaled up again. The cluster reports that the version runs without a permit, and no other
// cluster begins before a person has decided.
func TestReplicasGoToZeroAndBack(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	s.installed("v1")
	s.release("  release: {version: v2}" + twoWaves)
	s.scale("eu2", 0)
	s.pods("eu2", map[string]int{})
	s.deliver("v2", "eu1", "eu3")
	s.members["eu2"].Do(t, "-n", s.namespace, "patch", "deployment", "checkout", "--type=merge", "-p",
		`{"metadata":{"annotations":{"sluice.dev/version":"v2"}},"spec":{"template":{"spec":{"containers":[{"name":"app","image":"example.com/checkout:v2"}]}}}}`)
	s.phase(api.FleetPhaseWaiting, "Approval")
	s.scale("eu2", 4)
	s.pods("eu2", map[string]int{"v2": 4})
	s.member("eu2", func(r *api.Rollout) bool { return r.Status.Fleet.Unpermitted == api.FleetUnpermittedNotHeld })
	s.command(api.FleetCommand{Action: api.FleetCommandApprove})
	status := s.phase(api.FleetPhasePaused, "BudgetExceeded")
	if status.Counts[api.FleetTargetUnpermitted] != 1 {
		t.Errorf("eu2 runs v2 without a permit, and status.counts says %v", status.Counts)
	}
	s.member("eu3", awaitsPermit("v2"))
	s.command(api.FleetCommand{Action: api.FleetCommandSkip, Clusters: []string{"eu2"}})
	s.phase(api.FleetPhaseSucceeded, "Completed")
	s.member("eu3", serves("v2"))
}

// A cluster that is scaled to 0 carries out its permit too: there is nothing to release step by step. Its pods come in the version of the permit later.
func TestAClusterAtZeroReplicasCompletes(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	s.installed("v1")
	s.scale("eu2", 0)
	s.pods("eu2", map[string]int{})
	s.release(patched("v2") + twoWaves)
	s.phase(api.FleetPhaseWaiting, "Approval")
	s.command(api.FleetCommand{Action: api.FleetCommandApprove})
	s.phase(api.FleetPhaseSucceeded, "Completed")
	s.scale("eu2", 4)
	s.pods("eu2", map[string]int{"v2": 4})
	r := s.member("eu2", func(r *api.Rollout) bool { return world.Healthy(r) && serves("v2")(r) })
	if r.Status.Fleet.Unpermitted != "" {
		t.Errorf("the version of the permit counts as unpermitted: %s", r.Status.Fleet.Unpermitted)
	}
}

func (s *story) scale(cluster string, replicas int) {
	s.t.Helper()
	s.members[cluster].Do(s.t, "-n", s.namespace, "scale", "deployment", "checkout", fmt.Sprint("--replicas=", replicas))
}

// A Rollout is deleted and created again under its permit. The version goes back, and begins again by another permit.
func TestARolloutIsMadeAgainUnderItsPermit(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	s.installed("v1")
	s.release("  release: {version: v2}\n  localPauses: Keep" + twoWaves)
	s.deliver("v2", "eu1", "eu2", "eu3")
	first := s.member("eu1", world.PausedAt(1)).Status.Fleet.Used.Number()
	s.members["eu1"].Do(t, "-n", s.namespace, "delete", "rollout", "checkout")
	s.target("eu1", api.FleetTargetAbsent)
	s.members["eu1"].AwaitObject(t, s.namespace, "deployment", "checkout", "the stable template", func(u *unstructured.Unstructured) bool {
		return u != nil && u.GetAnnotations()[api.AnnotationVersion] == "v1"
	})
	s.pods("eu1", map[string]int{"v1": 4})
	s.deliverRollout("v1", "eu1")
	s.member("eu1", func(r *api.Rollout) bool {
		return serves("v1")(r) && r.Status.Fleet.Permit != nil && r.Status.Fleet.Permit.Verb == api.FleetVerbAbort // the hub has taken the permit back
	})
	s.deliver("v2", "eu1")
	r := s.member("eu1", world.PausedAt(1))
	if used := r.Status.Fleet.Used.Number(); !first.Before(used) {
		t.Errorf("the Rollout that was made again has used permit %v, and the one before %v", used, first)
	}
	s.approveLocally("eu1", 1)
	s.phase(api.FleetPhaseWaiting, "Approval")
	s.pods("eu1", map[string]int{"v2": 4})
}

// deliverRollout applies the Rollout alone.
func (s *story) deliverRollout(version, cluster string) {
	s.t.Helper()
	_, rollout, _ := strings.Cut(s.manifests(version), "\n---\n")
	s.members[cluster].Apply(s.t, s.namespace, rollout)
}

// A Rollout is disabled under its permit. The cluster gets its stable version back, and the hub says that nothing governs it.
func TestARolloutIsDisabledUnderItsPermit(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	s.pausedInTheCanary()
	s.specOf("eu1", `{"disabled":true}`)
	s.target("eu1", api.FleetTargetUngoverned)
	s.pods("eu1", map[string]int{"v1": 4})
	s.phase(api.FleetPhaseStalled, "NothingProven")
}

// specOf merges a patch into the spec of the Rollout of a cluster.
func (s *story) specOf(cluster, patch string) {
	s.t.Helper()
	if err := s.members[cluster].Patch(s.t, s.namespace, "rollout", "checkout", `{"spec":`+patch+`}`); err != nil {
		s.t.Fatal(err)
	}
}

// A cluster without the Rollout, and one whose Rollout names no FleetRollout any more, are in no budget and hold nothing up.
func TestClustersWithoutTheFleetHoldNothingUp(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	s.deliver("v1", "eu1", "eu2")
	for _, cluster := range []string{"eu1", "eu2"} {
		s.member(cluster, func(r *api.Rollout) bool { return world.Healthy(r) && serves("v1")(r) })
	}
	s.specOf("eu2", `{"fleet":null}`)
	s.member("eu2", func(r *api.Rollout) bool { return r.Status.Fleet == nil })
	s.release("  release: {version: v2}" + twoWaves)
	s.deliver("v2", "eu1")
	s.phase(api.FleetPhaseWaiting, "Approval")
	s.command(api.FleetCommand{Action: api.FleetCommandApprove})
	status := s.phase(api.FleetPhaseStalled, "NothingProven")
	if status.Counts[api.FleetTargetUngoverned] != 1 || status.Counts[api.FleetTargetAbsent] != 1 {
		t.Errorf("eu2 has left the fleet and eu3 has no Rollout, and status.counts says %v", status.Counts)
	}
	s.command(api.FleetCommand{Action: api.FleetCommandSkip})
	s.phase(api.FleetPhaseSucceeded, "Completed")
	s.pods("eu2", map[string]int{"v1": 4})
}

// A Rollout joins the fleet in the middle of a release of its own, which ends as it would have. The next version waits for a permit.
func TestARolloutJoinsTheFleetUnderWay(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	s.ungoverned("v1", "eu1")
	s.deliver("v1", "eu2", "eu3")
	s.member("eu1", world.Healthy)
	s.members["eu1"].Available(t, s.namespace, "checkout")
	s.ungoverned("v2", "eu1")
	s.member("eu1", world.PausedAt(1))
	s.release("  release: {version: v3}" + twoWaves)
	s.deliver("v2", "eu1") // with spec.fleet
	s.approveLocally("eu1", 1)
	s.member("eu1", serves("v2"))
	s.pods("eu1", map[string]int{"v2": 4})
	s.members["eu1"].Do(t, "-n", s.namespace, "get", "rollout", "checkout")
	s.deliver("v3", "eu1", "eu2", "eu3")
	s.phase(api.FleetPhaseWaiting, "Approval")
	s.member("eu1", serves("v3"))
	s.command(api.FleetCommand{Action: api.FleetCommandApprove})
	s.phase(api.FleetPhaseSucceeded, "Completed")
}

// ungoverned applies a version with a Rollout that no fleet governs.
func (s *story) ungoverned(version, cluster string) {
	s.t.Helper()
	var kept []string
	for line := range strings.Lines(s.manifests(version)) {
		if !strings.Contains(line, "fleet:") {
			kept = append(kept, line)
		}
	}
	s.members[cluster].Apply(s.t, s.namespace, strings.Join(kept, ""))
}

// A Rollout joins the fleet at rest. The version that runs counts as completed, and nothing is released again.
func TestARolloutJoinsTheFleetAtRest(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	for _, cluster := range []string{"eu1", "eu2", "eu3"} {
		s.ungoverned("v1", cluster)
	}
	for _, cluster := range []string{"eu1", "eu2", "eu3"} {
		s.member(cluster, world.Healthy)
	}
	s.deliver("v1", "eu1", "eu2", "eu3")
	s.release("  release: {version: v1}\n  waves: [{name: all, maxConcurrency: 3}]\n")
	s.phase(api.FleetPhaseSucceeded, "Completed")
	for _, cluster := range []string{"eu1", "eu2", "eu3"} {
		if r := s.member(cluster, serves("v1")); r.Status.Sluice.Epoch > 1 || r.Status.Fleet.Unpermitted != "" {
			t.Errorf("%s has release %d, and is unpermitted for %q", cluster, r.Status.Sluice.Epoch, r.Status.Fleet.Unpermitted)
		}
	}
}

// Only a user with the verb override takes a Rollout out of its fleet during a release. The cluster then gets its stable version back.
func TestOnlyAnOverrideTakesARolloutOutOfItsFleet(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	s.installed("v1")
	eu1 := s.members["eu1"]
	for user, verbs := range map[string]string{"ann": "get,patch,delete", "bob": "get,patch,delete,override"} {
		eu1.Do(t, "-n", s.namespace, "create", "role", user, "--verb="+verbs, "--resource=rollouts.rollouts.kruise.io")
		eu1.Do(t, "-n", s.namespace, "create", "rolebinding", user, "--role="+user, "--user="+user)
	}
	s.release("  release: {version: v2}\n  localPauses: Keep" + twoWaves)
	s.deliver("v2", "eu1", "eu2", "eu3")
	s.member("eu1", world.PausedAt(1))
	leave := []string{"-n", s.namespace, "patch", "rollout", "checkout", "--type=merge", "-p", `{"spec":{"fleet":null}}`}
	for _, args := range [][]string{leave, {"-n", s.namespace, "patch", "rollout", "checkout", "--type=merge", "-p", `{"spec":{"disabled":true}}`}, {"-n", s.namespace, "delete", "rollout", "checkout"}} {
		if _, err := eu1.Kubectl(t.Context(), append(args, "--as=ann")...); err == nil || !strings.Contains(err.Error(), "verb override") {
			t.Errorf("%v by a user without the verb override: %v", args[2:], err)
		}
	}
	s.member("eu1", world.PausedAt(1))
	eu1.Do(t, append(leave, "--as=bob")...)
	s.target("eu1", api.FleetTargetUngoverned)
	s.member("eu1", func(r *api.Rollout) bool { return r.Status.Fleet == nil })
	s.pods("eu1", map[string]int{"v1": 4})
}
