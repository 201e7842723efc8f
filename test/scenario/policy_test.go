package scenario

import (
	"path/filepath"
	"strings"
	"testing"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
	"sluice.dev/sluice/test/world"
)

// Without the admission policies, the API server does not hold a change when it is applied. An idle Rollout shows this.
// The executor pauses the change late and releases it all the same. The watcher notices the installation of the
// policies.
func TestWithoutAdmissionPoliciesChangesAreSeizedLateAndItIsSaid(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it needs a control plane, which -short leaves out")
	}
	w := withoutPolicies(t)
	const ns = "default"
	w.Apply(t, ns, strings.Replace(world.Seed(t, "istio-walkthrough/workload.yaml"), "replicas: 3", "replicas: 6", 1))
	w.Apply(t, ns, route(t))
	w.Apply(t, ns, release(t))
	r := w.Await(t, ns, "rollouts-demo", world.HeldFor(rollout.ReasonAdmissionPolicyMissing))
	golden(t, "policies missing", "Stalled AdmissionPolicyMissing\n"+r.Status.Message+"\n")
	w.Do(t, "-n", ns, "rollout", "status", "deployment/workload-demo")

	slow := strings.Replace(patchVersion, `"template":{`, `"template":{"metadata":{"annotations":{"sluice.dev/ready-after":"3s"}},`, 1)
	w.Do(t, "-n", ns, "patch", "deployment", "workload-demo", "-p", slow)
	r = w.Await(t, ns, "rollouts-demo", world.PausedAt(1))
	if why := began(r); !strings.Contains(why, "the executor pauses it late") {
		t.Errorf("the release began because %q", why)
	}
	for step := range int32(3) {
		w.Await(t, ns, "rollouts-demo", world.PausedAt(step+1))
		w.Approve(t, ns, "rollouts-demo")
	}
	w.Await(t, ns, "rollouts-demo", world.HeldFor(rollout.ReasonAdmissionPolicyMissing))

	w.Do(t, "apply", "--server-side", "-f", policies(), "-R")
	w.Await(t, ns, "rollouts-demo", func(r *api.Rollout) bool {
		return world.Healthy(r) && world.Condition(r, api.ConditionStalled) == nil
	})
}

func policies() string { return filepath.Join(world.Root(), "deploy/policies") }

// began returns the reason for which the release under way was begun.
func began(r *api.Rollout) string {
	for _, transition := range r.Status.Sluice.Transitions {
		if transition.Reason == "ReleaseStarted" {
			return transition.Message
		}
	}
	return ""
}

func withoutPolicies(t *testing.T) *world.World {
	t.Helper()
	w := world.Bare(t, world.Options{})
	w.Do(t, "delete", "-f", policies(), "-R")
	w.Begin(t, w.RunWatcher)
	w.Begin(t, w.Executor)
	return w
}
