package planner

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice.dev/sluice/pkg/api"
)

// The test checks every action of the whole release in the documentation's example, in order. The workload has three pods.
func TestAWholeRelease(t *testing.T) {
	g := aRollout()
	g.replan().unrouted()
	g.Workload.DesiredReplicas, g.Workload.Updated, g.Workload.Available, g.Workload.Total = 3, 3, 3, 3
	g.Workload.Revisions[0].Replicas, g.Workload.Revisions[0].Ready = 3, 3
	g.Status = api.RolloutStatus{}
	g.Finalizer, g.Workload.Adopted, g.Workload.HasMarks = false, false, false
	var got []string
	play := func(headline string) {
		got = append(got, "# "+headline)
		got = append(got, g.settle()...)
		got = append(got, "= "+string(g.Status.Phase)+": "+g.Status.Message)
	}
	play("created")
	g.HeldAt("v2")
	play("new version")
	for range 3 {
		g.Approved()
		play("approved")
	}
	want := `# created
add finalizer
adopt Deployment demo
= Healthy: rollout is healthy
# new version
pin Service demo to h1
create canary demo-canary with 1 replicas
create Service demo-canary selecting hc
route step 1 on VirtualService demo
= Progressing: Rollout is in step(1/3), and you need manually confirm to enter the next step
# approved
scale canary demo-canary to 2 replicas
route step 2 on VirtualService demo
= Progressing: Rollout is in step(2/3), and you need manually confirm to enter the next step
# approved
scale canary demo-canary to 3 replicas
route step 3 on VirtualService demo
= Progressing: Rollout is in step(3/3), and you need manually confirm to enter the next step
# approved
unpin Service demo
restore VirtualService demo
delete Service demo-canary
resume Deployment demo
delete canary demo-canary
= Healthy: Rollout progressing has been completed`
	if diff := cmp.Diff(strings.Split(want, "\n"), got); diff != "" {
		t.Error(diff)
	}
}
