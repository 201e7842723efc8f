package scenario

import (
	"fmt"
	"strings"
	"testing"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/test/controlplane"
	"sluice.dev/sluice/test/world"
)

// newPods returns the numbers of new pods and of ready new pods in a status.
func newPods(r *api.Rollout) (all, ready int32) {
	switch s := r.Status; {
	case s.CanaryStatus != nil:
		return s.CanaryStatus.CanaryReplicas, s.CanaryStatus.CanaryReadyReplicas
	case s.BlueGreenStatus != nil:
		return s.BlueGreenStatus.UpdatedReplicas, s.BlueGreenStatus.UpdatedReadyReplicas
	}
	return 0, 0
}

// cureOne makes one of the sick new pods ready.
func (d *demo) cureOne(t *testing.T) {
	t.Helper()
	for _, name := range strings.Fields(d.w.Do(t, "-n", d.ns, "get", "pods", "-o", "name")) {
		never := d.w.Do(t, "-n", d.ns, "get", name, "-o", `jsonpath={.metadata.annotations.sluice\.dev/never-ready}`)
		if never == "true" {
			d.w.Do(t, "-n", d.ns, "annotate", name, controlplane.NeverReady+"-")
			return
		}
	}
	t.Fatal("there is no pod to cure")
}

// A step has three pods, and none gets ready by itself. The step is ready when at least one pod is ready and no more
// are missing than failureThreshold allows, in percent of the new pods, rounded up. Without a threshold, all pods must
// be ready. The owner's budget lets all replaced pods be missing at once, so only the threshold decides.
func TestAStepToleratesAsManyUnreadyPodsAsItsThreshold(t *testing.T) {
	t.Parallel()
	for style, manifest := range map[string]func(*testing.T) string{
		"canary style":    func(t *testing.T) string { return withSteps(t, "{replicas: 100%, traffic: 50%}", "{replicas: 100%}") },
		"partition style": func(t *testing.T) string { return inPlace(withSteps(t, "{replicas: 100%}", "{replicas: 100%}")) },
		"blue-green":      func(t *testing.T) string { return blueGreen(t, "{replicas: 100%, traffic: 50%}") },
	} {
		for threshold, want := range map[string]int32{"": 3, "0": 3, "1": 2, "30%": 2, "34%": 1} {
			t.Run(fmt.Sprintf("%s threshold %s", style, strings.Replace(threshold, "%", " percent", 1)), func(t *testing.T) {
				t.Parallel()
				text := manifest(t)
				if threshold != "" {
					text = swap(t, text, "      steps:\n", "      failureThreshold: "+threshold+"\n      steps:\n")
				}
				d := aDemo(t, world.Shared(t), text)
				d.w.Do(t, "-n", d.ns, "patch", "deployment", "workload-demo", "-p", `{"spec":{"strategy":{"rollingUpdate":{"maxUnavailable":"100%"}}}}`)
				d.release(t, version("slow", controlplane.NeverReady, "true"))
				for enough := range want {
					r := d.await(t, func(r *api.Rollout) bool {
						all, ready := newPods(r)
						return r.Status.CurrentStepState == api.StepUpgrade && all == 3 && ready == enough || world.PausedAt(1)(r)
					})
					if world.PausedAt(1)(r) {
						t.Fatalf("the step is reached with %d ready pods, want %d", enough, want)
					}
					d.cureOne(t)
				}
				if _, ready := newPods(d.await(t, world.PausedAt(1))); ready != want {
					t.Errorf("the step is reached with %d ready pods, want %d", ready, want)
				}
			})
		}
	}
}
