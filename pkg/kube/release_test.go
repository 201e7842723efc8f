package kube_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sluice.dev/sluice/pkg/planner"
	"sluice.dev/sluice/pkg/rollout"
)

func TestAReleaseRunsFromIdleToIdleAndLeavesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.settled()
	before := w.get("virtualservice/web", "{.spec}")
	w.drive("web", rollout.StateIdle)
	w.adopted()

	w.kubectl("", "patch", "deployment", "web", "--type=strategic", "-p", heldImage("2"))
	w.drive("web", rollout.StatePaused)
	stable, canary := w.get("deployment/web", "{.spec.template.spec.containers[0].image}"), w.get("deployment/web-canary", "{.spec.template.spec.containers[0].image}")
	if stable != "web:2" || canary != "web:2" || w.get("deployment/web", "{.spec.paused}") != "true" {
		t.Errorf("the workload has %s and paused=%s, the canary %s", stable, w.get("deployment/web", "{.spec.paused}"), canary)
	}
	weights := w.get("virtualservice/web", "{range .spec.http[*].route[*]}{.destination.host}={.weight} {end}")
	if diff := cmp.Diff("web=80 web-canary=20", weights); diff != "" {
		t.Errorf("the route of step 1 differs (-want +got):\n%s", diff)
	}
	owner := w.get("deployment/web-canary", "{.metadata.ownerReferences[0].kind}/{.metadata.ownerReferences[0].name}")
	if diff := cmp.Diff("Deployment/web", owner); diff != "" {
		t.Errorf("the owner of the canary differs (-want +got):\n%s", diff)
	}

	w.kubectl("", "patch", "rollout", "web", "--subresource=status", "--type=merge", "-p", `{"status":{"canaryStatus":{"currentStepState":"StepReady"}}}`)
	if diff := cmp.Diff("kubectl-patch", w.observe("web").Seen.Editor); diff != "" {
		t.Errorf("who approved differs (-want +got):\n%s", diff)
	}
	w.drive("web", rollout.StateFinalising)
	w.drive("web", rollout.StateIdle)

	if diff := cmp.Diff(before, w.get("virtualservice/web", "{.spec}")); diff != "" {
		t.Errorf("the VirtualService differs after the release (-want +got):\n%s", diff)
	}
	left := w.kubectl("", "get", "deployments,services", "-o", "name")
	if diff := cmp.Diff("deployment.apps/web\nservice/web", left); diff != "" {
		t.Errorf("what is left differs (-want +got):\n%s", diff)
	}
	if selector := w.get("service/web", "{.spec.selector}"); selector != `{"app":"web"}` {
		t.Errorf("the stable Service selects %s", selector)
	}
	if paused := w.get("deployment/web", "{.spec.paused}"); paused != "" {
		t.Errorf("the workload is left with paused=%s", paused)
	}
	if status := w.get("rollout/web", "{.status.phase} {.status.canaryStatus.currentStepState}"); status != "Healthy Completed" {
		t.Errorf("the Rollout is left as %s", status)
	}
}

// adopted runs the Rollout until it is idle and its marks are on the workload.
func (w *world) adopted() {
	w.t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(look) {
		s := w.observe("web")
		d := planner.Plan(s.Seen, time.Now())
		if err := w.step(s, d); err != nil {
			continue
		}
		if s.Seen.Workload.Adopted && len(d.Actions) == 0 && state(s) == rollout.StateIdle {
			return
		}
	}
	w.t.Fatal("the workload is not adopted")
}

func TestAPausedWorkloadOfItsOwnerStaysPaused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.apply(strings.Replace(deployment, "replicas: 2", "replicas: 2\n  paused: true", 1), service, virtualService, canaryRollout)
	w.act(rollout.AdoptWorkload{})
	s := w.act(rollout.HoldWorkload{})
	if seen := s.Seen.Workload; !seen.Held || !seen.Adopted || !seen.Paused || !seen.OwnerPaused {
		t.Errorf("a held workload is seen as %+v", *seen)
	}
	s = w.act(rollout.DisownWorkload{})
	if seen := s.Seen.Workload; seen.Held || seen.HasMarks || !seen.Paused || !seen.OwnerPaused {
		t.Errorf("a disowned workload is seen as %+v", *seen)
	}
	if marks := w.get("deployment/web", "{.metadata.labels} {.metadata.annotations}"); strings.Contains(marks, "sluice") || strings.Contains(marks, "kruise") {
		t.Errorf("marks are left: %s", marks)
	}
}
