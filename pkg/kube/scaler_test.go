package kube_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice.dev/sluice/pkg/kube"
	"sluice.dev/sluice/pkg/rollout"
)

const autoscaler = `
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: web}
spec: {scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}, minReplicas: 1, maxReplicas: 3}`

// The client uses a list for a while, but not after it has changed an autoscaler in the list itself.
func TestAutoscalersAreListedNowAndThen(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.apply(deployment, service, virtualService, autoscaler,
		strings.NewReplacer("canary:", "blueGreen:", "      enableExtraWorkloadForCanary: true\n", "").Replace(canaryRollout))
	lists := func(look func() *kube.Snapshot) (s *kube.Snapshot, reads int64) {
		_, before := w.client.ReadCounts()
		s = look()
		_, after := w.client.ReadCounts()
		return s, after - before
	}
	observe := func() *kube.Snapshot { return w.observe("web") }
	live := func() *kube.Snapshot {
		s, err := w.client.ObserveLive(t.Context(), w.key("web"))
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	w.kubectl("", "wait", "deployment/web", "--for=condition=Available", "--timeout=600s")
	w.adopted()
	_, idle := lists(observe)
	if _, again := lists(observe); again != idle {
		t.Errorf("at rest a look made %d reads, and the next one %d", idle, again)
	}
	w.kubectl("", "patch", "deployment/web", "--type=strategic", "-p", heldImage("2"))
	w.drive("web", rollout.StateUpgrade)
	first, all := lists(live)
	again, few := lists(observe)
	if few >= all {
		t.Errorf("the first look made %d reads, and the next one %d", all, few)
	}
	own := rollout.Autoscaler{Object: rollout.Ref{APIVersion: "autoscaling/v2", Kind: "HorizontalPodAutoscaler", Name: "web"}}
	parked := own
	parked.Disabled = true
	for name, c := range map[string]struct {
		seen *kube.Snapshot
		want rollout.Autoscaler
	}{"first": {first, parked}, "again": {again, parked}} {
		if diff := cmp.Diff([]rollout.Autoscaler{c.want}, c.seen.Seen.Autoscalers); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}

	w.act(rollout.RestoreAutoscaler{Object: own.Object}) // act observes again when the autoscaler's controller has written
	after, most := lists(observe)
	if most <= few {
		t.Errorf("after a change of its own the look made %d reads", most)
	}
	if diff := cmp.Diff([]rollout.Autoscaler{own}, after.Seen.Autoscalers); diff != "" {
		t.Errorf("after a change of its own (-want +got):\n%s", diff)
	}

	w.kubectl("", "delete", "horizontalpodautoscaler", "web")
	if now := live(); len(now.Seen.Autoscalers) != 0 {
		t.Errorf("a look at what is there now sees %v", now.Seen.Autoscalers)
	}
}
