package kube_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"sluice.dev/sluice/pkg/kube"
	"sluice.dev/sluice/pkg/kube/apiclient"
	"sluice.dev/sluice/pkg/planner"
	"sluice.dev/sluice/pkg/rollout"
)

const partitionRollout = `
apiVersion: rollouts.kruise.io/v1beta1
kind: Rollout
metadata: {name: web}
spec:
  workloadRef: {apiVersion: apps/v1, kind: Deployment, name: web}
  strategy: {canary: {steps: [{replicas: 1}, {replicas: 2}, {replicas: 100%}]}}`

// betweenSteps runs a release of three pods until it is about to start its second step. The watches show this state
// too.
func betweenSteps(t *testing.T) (w *world, k *watcher) {
	t.Helper()
	w = newWorld(t)
	w.apply(strings.Replace(deployment, "replicas: 2", "replicas: 3", 1), partitionRollout)
	w.kubectl("", "wait", "deployment/web", "--for=condition=Available", "--timeout=600s")
	w.adopted()
	w.kubectl("", "patch", "deployment", "web", "--type=merge", "-p", heldImage("2"))
	w.drive("web", rollout.StatePaused)
	k = w.watching()
	w.kubectl("", "patch", "rollout", "web", "--subresource=status", "--type=merge", "-p", `{"status":{"canaryStatus":{"currentStepState":"StepReady"}}}`)
	w.eventually("the second step may begin", func() bool {
		s := w.observe("web")
		d, advances := advancing(s)
		if !advances {
			_ = w.step(s, d)
		}
		return advances
	})
	w.sees(k, "the same", func(seen rollout.Seen) bool { _, advances := advancing(&kube.Snapshot{Seen: seen}); return advances })
	return w, k
}

func advancing(s *kube.Snapshot) (rollout.Decision, bool) {
	d := planner.Plan(s.Seen, time.Now())
	return d, slices.ContainsFunc(d.Actions, func(a rollout.Action) bool { _, is := a.(rollout.ResumeRollingUpdate); return is })
}

// confirmBehind confirms the second step after a change that the watches do not show.
func (w *world) confirmBehind(k *watcher, change func(s *kube.Snapshot)) (s *kube.Snapshot, moved bool, lists int32) {
	w.t.Helper()
	k.on()
	defer k.off()
	s, err := k.Observe(w.t.Context(), w.key("web"))
	if err != nil {
		w.t.Fatal(err)
	}
	d, advances := advancing(s)
	if !advances {
		w.t.Fatalf("the second step does not begin, but %s", d.Actions)
	}
	change(s)
	before := k.lists.Load()
	if moved, err = k.ConfirmDecision(w.t.Context(), s, d); err != nil {
		w.t.Fatal(err)
	}
	return s, moved, k.lists.Load() - before
}

func TestReplicaSetsAreConfirmedOneByOne(t *testing.T) {
	t.Parallel()
	w, k := betweenSteps(t)
	if _, moved, lists := w.confirmBehind(k, func(*kube.Snapshot) {}); moved || lists != 0 {
		t.Errorf("nothing has changed, and it has moved: %t, after %d lists", moved, lists)
	}
	s, moved, lists := w.confirmBehind(k, func(s *kube.Snapshot) {
		w.kubectl("", "annotate", "replicaset", "web-"+s.Seen.Workload.Revisions[0].Hash, "written=behind")
	})
	if !moved || lists != 1 { // the watch is late, so it may lack another ReplicaSet
		t.Errorf("a ReplicaSet was written behind the watch, and it has moved: %t, after %d lists", moved, lists)
	}
	if d, advances := advancing(s); !advances {
		t.Errorf("it goes on with %s", d.Actions)
	}
}

func TestAReplicaSetThatIsGoneIsNotCounted(t *testing.T) {
	t.Parallel()
	w, k := betweenSteps(t)
	s, moved, _ := w.confirmBehind(k, func(s *kube.Snapshot) {
		w.kubectl("", "delete", "replicaset", "web-"+s.Seen.Workload.Revisions[0].Hash, "--cascade=orphan")
	})
	if sets := s.Seen.Workload.Revisions; !moved || len(sets) != 1 {
		t.Errorf("a ReplicaSet that is gone is not found: %t, %+v", moved, sets)
	}
}

// A ReplicaSet of the live template may exist although the watch shows none.
func TestAReplicaSetThatNoWatchHasShownIsFound(t *testing.T) {
	t.Parallel()
	w, k := betweenSteps(t)
	s, moved, lists := w.confirmBehind(k, func(*kube.Snapshot) {
		w.kubectl("", "patch", "deployment", "web", "--type=merge", "-p",
			`{"spec":{"paused":false,"template":{"spec":{"containers":[{"name":"web","image":"web:3"}]}}}}`)
		w.eventually("the third one is there", func() bool { return len(w.observe("web").Seen.Workload.Revisions) == 3 })
	})
	if sets := s.Seen.Workload.Revisions; !moved || lists == 0 || len(sets) != 3 {
		t.Errorf("a new ReplicaSet is not found: %t after %d lists, %+v", moved, lists, sets)
	}
}

func TestReplicaSetsAreReadAgainAfterAConflictAboutTheirWorkload(t *testing.T) {
	t.Parallel()
	w, _ := betweenSteps(t)
	s := w.observe("web")
	d, _ := advancing(s)
	w.kubectl("", "annotate", "deployment", "web", "written=meanwhile")
	conflict := w.client.ApplyAction(t.Context(), s, d.Actions[0])
	if !apiclient.IsConflict(conflict) {
		t.Fatalf("%s met %v", d.Actions[0], conflict)
	}
	w.kubectl("", "annotate", "replicaset", "web-"+s.Seen.Workload.Revisions[0].Hash, "written=meanwhile")
	if err := w.client.RefreshConflicted(t.Context(), s, conflict); err != nil {
		t.Fatal(err)
	}
	d, advances := advancing(s)
	if moved, err := w.client.ConfirmDecision(t.Context(), s, d); !advances || !moved || err != nil {
		t.Errorf("it is about to %s, and a ReplicaSet that was written has moved: %t, %v", d.Actions, moved, err)
	}
}
