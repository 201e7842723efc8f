package scenario

import (
	"strings"
	"testing"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/test/controlplane"
	"sluice.dev/sluice/test/world"
)

// Two clusters share one NATS and have releases of the same names. A release of one cluster never affects the other,
// and each audit log has writes of its own executor only.
func TestTwoClustersOnOneNATSDoNotMeet(t *testing.T) {
	t.Parallel()
	east := world.Shared(t)
	west := world.ForTest(t, world.Options{Name: "west", NATS: east.NATS})
	ns := east.Namespace(t)
	west.Do(t, "create", "namespace", ns)
	west.Judge(t, ns, world.Breaches, world.Overexposed, world.StableServes)
	uids := map[*world.World]string{}
	for _, w := range []*world.World{east, west} {
		for _, text := range []string{service(t), deployment(t), route(t), release(t)} {
			w.Apply(t, ns, text)
		}
		uids[w] = string(w.Await(t, ns, "rollouts-demo", world.Healthy).UID)
		w.Do(t, "-n", ns, "rollout", "status", "deployment/workload-demo")
	}

	// The east releases. The west, which has the same names, must stay unchanged.
	before := west.Do(t, "-n", ns, "get", "deployments,services,virtualservices,rollouts", "-o", "jsonpath={.items[*].metadata.resourceVersion}")
	east.Do(t, "-n", ns, "patch", "deployment", "workload-demo", "-p", patchVersion)
	east.Await(t, ns, "rollouts-demo", world.PausedAt(1))
	after := west.Do(t, "-n", ns, "get", "deployments,services,virtualservices,rollouts", "-o", "jsonpath={.items[*].metadata.resourceVersion}")
	if before != after {
		t.Errorf("a release in one cluster wrote to the other: resource versions were %s and are %s", before, after)
	}

	// Both release at once, each at its own step.
	west.Do(t, "-n", ns, "patch", "deployment", "workload-demo", "-p", patchVersion)
	west.Await(t, ns, "rollouts-demo", world.PausedAt(1))
	for step := range int32(3) {
		east.Await(t, ns, "rollouts-demo", world.PausedAt(step+1))
		east.Approve(t, ns, "rollouts-demo")
	}
	east.Await(t, ns, "rollouts-demo", world.Healthy)
	if !world.PausedAt(1)(west.Await(t, ns, "rollouts-demo", func(r *api.Rollout) bool { return r.Status.Sluice != nil })) {
		t.Error("approvals in one cluster moved the release of the other")
	}
	for _, w := range []*world.World{east, west} {
		for other, uid := range uids {
			if other != w {
				unheardOf(t, w, uid)
			}
		}
	}
}

// unheardOf checks that no write to a cluster was about the Rollout of another one.
func unheardOf(t *testing.T, w *world.World, uid string) {
	t.Helper()
	events, err := controlplane.Audit(w.AuditLog)
	if err != nil {
		t.Fatal(err)
	}
	executors := 0
	for _, e := range events {
		if e.User == "system:serviceaccount:"+api.DefaultNamespace+":"+api.DefaultExecutor {
			executors++
		}
		if strings.Contains(string(e.RequestObject), uid) {
			t.Errorf("%s %s %s/%s is about the other cluster's Rollout", e.Verb, e.Resource, e.Namespace, e.Name)
		}
	}
	if executors == 0 {
		t.Error("the audit log holds no write of the executor, so it proves nothing")
	}
}
