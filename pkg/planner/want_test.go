package planner

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sluice.dev/sluice/pkg/rollout"
)

// wanting is a release of v2 of a workload of a kind with so many pods. Its only step is about to create its first new pods. Its owner allows all
// pods to be missing, so the executor asks for all new pods of the step at once.
func wanting(style rollout.Style, kind string, replicas int32, step rollout.Amount) *given {
	g := map[rollout.Style]func() *given{
		rollout.StyleCanary:    func() *given { return aRelease().In(rollout.StateUpgrade) },
		rollout.StylePartition: func() *given { return replacing(1, 0, 0, 10) },
		rollout.StyleBlueGreen: func() *given { return besideStable(1, 0, 0) },
	}[style]()
	if kind == "CloneSet" && style == rollout.StyleBlueGreen {
		g = roomFor(1, 0, 0)
	}
	g.Spec.Steps = []rollout.Step{{Replicas: step, Manual: true}}
	g.Spec.Routing, g.Backends, g.Routes = nil, nil, nil
	g.replan()
	g.Status.Sluice.PlanHash, g.Status.Common().RolloutHash = g.Spec.Hash, g.Spec.Hash
	lever := map[string]rollout.UpdateMechanism{"StatefulSet": rollout.MechanismPartition, "CloneSet": rollout.MechanismPartition, "Advanced DaemonSet": rollout.MechanismPartition, "DaemonSet": rollout.MechanismOnDelete}[kind]
	g.by(kind, lever)
	g.Workload.PercentPartition, g.Workload.HasOrdinals = kind == "CloneSet", kind == "StatefulSet"
	g.Workload.DesiredReplicas, g.Workload.Total, g.Workload.Available, g.Workload.MaxUnavailable = replicas, replicas, replicas, replicas
	g.Workload.Revisions[0].Replicas, g.Workload.Revisions[0].Ready = replicas, replicas
	g.Workload.Partition = rollout.Amount{Value: 32767} // the workload is held
	if g.Workload.Surged {
		g.Workload.Partition = rollout.Amount{Value: replicas}
	}
	return g
}

// A percentage is rounded up. Below 100 %, it leaves one of two or more old pods, because the stable version needs a pod for its traffic. A number is
// limited to the workload's pods. Parallel new pods replace no old pod.
func TestWhatAStepWants(t *testing.T) {
	t.Parallel()
	const (
		deployment = "let Deployment demo replace pods: %s"
		stateful   = "let StatefulSet demo replace pods: all but %s"
		clone      = "let CloneSet demo replace pods: all but %s"
		advanced   = "let Advanced DaemonSet demo replace pods: all but %s"
		daemon     = "replace %s pods of h1 of DaemonSet demo"
		canary     = "create canary demo-canary with %s replicas"
		room       = "let CloneSet demo replace pods: 0%% and %s more"
	)
	for _, c := range []struct {
		style    rollout.Style
		kind     string
		replicas int32
		step     string
		pods     int32
		does     string
		with     string
	}{
		{rollout.StylePartition, "Deployment", 10, "3", 3, deployment, "30% and 0 more"},
		{rollout.StylePartition, "Deployment", 10, "25%", 3, deployment, "30% and 0 more"},
		{rollout.StylePartition, "Deployment", 10, "1%", 1, deployment, "10% and 0 more"},
		{rollout.StylePartition, "Deployment", 10, "91%", 9, deployment, "90% and 0 more"},
		{rollout.StylePartition, "Deployment", 10, "99%", 9, deployment, "90% and 0 more"},
		{rollout.StylePartition, "Deployment", 10, "100%", 10, deployment, "100% and 0 more"},
		{rollout.StylePartition, "Deployment", 10, "10", 10, deployment, "100% and 0 more"},
		{rollout.StylePartition, "Deployment", 10, "11", 10, deployment, "100% and 0 more"},
		{rollout.StylePartition, "Deployment", 3, "50%", 2, deployment, "67% and 0 more"},
		{rollout.StylePartition, "Deployment", 2, "50%", 1, deployment, "50% and 0 more"},
		{rollout.StylePartition, "Deployment", 2, "51%", 1, deployment, "50% and 0 more"},
		{rollout.StylePartition, "Deployment", 1, "1%", 1, "", ""},
		{rollout.StylePartition, "Deployment", 1000, "1%", 10, deployment, "1% and 0 more"},
		{rollout.StylePartition, "Deployment", 1000, "5", 5, deployment, "0% and 5 more"},

		{rollout.StylePartition, "StatefulSet", 10, "3", 3, stateful, "7"},
		{rollout.StylePartition, "StatefulSet", 10, "25%", 3, stateful, "7"},
		{rollout.StylePartition, "StatefulSet", 10, "99%", 9, stateful, "1"},
		{rollout.StylePartition, "StatefulSet", 10, "100%", 10, stateful, "0"},
		{rollout.StylePartition, "StatefulSet", 10, "12", 10, stateful, "0"},
		{rollout.StylePartition, "StatefulSet", 1, "1%", 1, "", ""},

		{rollout.StylePartition, "CloneSet", 10, "3", 3, clone, "7"},
		{rollout.StylePartition, "CloneSet", 10, "25%", 3, clone, "70%"},
		{rollout.StylePartition, "CloneSet", 3, "50%", 2, clone, "33%"},
		{rollout.StylePartition, "CloneSet", 10, "99%", 9, clone, "10%"},
		{rollout.StylePartition, "CloneSet", 1000, "99%", 990, clone, "1%"},
		{rollout.StylePartition, "CloneSet", 101, "99%", 100, clone, "1"}, // 0% would leave no pod
		{rollout.StylePartition, "CloneSet", 10, "100%", 10, clone, "0%"},
		{rollout.StylePartition, "CloneSet", 10, "12", 10, clone, "0"},
		{rollout.StylePartition, "CloneSet", 1, "1%", 1, "", ""},

		{rollout.StylePartition, "Advanced DaemonSet", 4, "1", 1, advanced, "3"},
		{rollout.StylePartition, "Advanced DaemonSet", 4, "26%", 2, advanced, "2"},
		{rollout.StylePartition, "Advanced DaemonSet", 4, "99%", 3, advanced, "1"},
		{rollout.StylePartition, "Advanced DaemonSet", 4, "100%", 4, advanced, "0"},
		{rollout.StylePartition, "Advanced DaemonSet", 4, "5", 4, advanced, "0"},

		{rollout.StylePartition, "DaemonSet", 4, "1", 1, daemon, "1"},
		{rollout.StylePartition, "DaemonSet", 4, "26%", 2, daemon, "2"},
		{rollout.StylePartition, "DaemonSet", 4, "99%", 3, daemon, "3"},
		{rollout.StylePartition, "DaemonSet", 4, "100%", 4, daemon, "4"},
		{rollout.StylePartition, "DaemonSet", 4, "5", 4, daemon, "4"},
		{rollout.StylePartition, "DaemonSet", 1, "1%", 1, "", ""},

		{rollout.StyleCanary, "Deployment", 10, "3", 3, canary, "3"},
		{rollout.StyleCanary, "Deployment", 10, "25%", 3, canary, "3"},
		{rollout.StyleCanary, "Deployment", 10, "99%", 10, canary, "10"},
		{rollout.StyleCanary, "Deployment", 10, "100%", 10, canary, "10"},
		{rollout.StyleCanary, "Deployment", 10, "12", 10, canary, "10"},
		{rollout.StyleCanary, "Deployment", 1, "1%", 1, canary, "1"},

		{rollout.StyleBlueGreen, "Deployment", 10, "3", 3, deployment, "0% and 30% more"},
		{rollout.StyleBlueGreen, "Deployment", 10, "25%", 3, deployment, "0% and 25% more"},
		{rollout.StyleBlueGreen, "Deployment", 10, "99%", 10, deployment, "0% and 99% more"},
		{rollout.StyleBlueGreen, "Deployment", 10, "100%", 10, deployment, "0% and 100% more"},
		{rollout.StyleBlueGreen, "Deployment", 3, "2", 2, deployment, "0% and 66% more"},
		{rollout.StyleBlueGreen, "Deployment", 1000, "5", 5, deployment, "0% and 5 more"},

		{rollout.StyleBlueGreen, "CloneSet", 10, "3", 3, room, "3"},
		{rollout.StyleBlueGreen, "CloneSet", 10, "25%", 3, room, "3"},
		{rollout.StyleBlueGreen, "CloneSet", 10, "99%", 10, room, "10"},
		{rollout.StyleBlueGreen, "CloneSet", 10, "100%", 10, room, "10"},
	} {
		t.Run(fmt.Sprintf("%s of %d pods of %s in %s style", c.step, c.replicas, c.kind, c.style), func(t *testing.T) {
			t.Parallel()
			step, err := rollout.ParseAmount(c.step)
			if err != nil {
				t.Fatal(err)
			}
			g := wanting(c.style, c.kind, c.replicas, step)
			if got := newPlanner(g.Seen, g.now).desiredNewPods(); got != c.pods {
				t.Errorf("the step wants %d pods, not %d", got, c.pods)
			}
			var want []string // a single pod has no share that could be new
			if c.does != "" {
				want = []string{fmt.Sprintf(c.does, c.with)}
			}
			if diff := cmp.Diff(want, g.outcome().Actions); diff != "" {
				t.Errorf("what is asked of the workload differs (-want +got):\n%s", diff)
			}
		})
	}
}
