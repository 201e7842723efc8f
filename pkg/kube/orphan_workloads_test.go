package kube_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sluice.dev/sluice/pkg/kube/apiclient"
	"sluice.dev/sluice/pkg/planner"
	"sluice.dev/sluice/pkg/rollout"
)

// removedByForce deletes the Rollout like a user who removes its finalizer.
func (w *world) removedByForce() {
	w.t.Helper()
	w.kubectl("", "patch", "rollout", "web", "--type=merge", "-p", `{"metadata":{"finalizers":null}}`)
	w.kubectl("", "delete", "rollout", "web")
}

func TestAWorkloadWhoseRolloutIsGoneIsLetGo(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.settled()
	w.adopted()
	w.removedByForce()
	n, err := w.orphansLetGo()
	if n != 1 || err != nil {
		t.Errorf("%d workloads were let go of, error %v", n, err)
	}
	marks := w.get("deployment/web", "{.metadata.labels}{.metadata.annotations}{.spec.paused}")
	if strings.Contains(marks, "sluice.dev") || strings.Contains(marks, "rollouts.kruise.io") || strings.HasSuffix(marks, "true") {
		t.Errorf("the workload is left with %s", marks)
	}
	if n, err := w.orphansLetGo(); n != 0 || err != nil {
		t.Errorf("the second time %d workloads were let go of, error %v", n, err)
	}
}

func TestAReleaseWhoseRolloutIsGoneStaysHeldUntilTheNextOneOfItsNameTakesOver(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.settled()
	before := w.get("virtualservice/web", "{.spec}")
	w.adopted()
	w.kubectl("", "patch", "deployment", "web", "--type=strategic", "-p", heldImage("2"))
	w.drive("web", rollout.StatePaused)
	w.removedByForce()

	for range 2 {
		if n, err := w.orphansLetGo(); n != 0 || err != nil {
			t.Errorf("%d workloads were let go of, error %v", n, err)
		}
	}
	if got := w.get("deployment/web", "{.spec.paused}"); got != "true" {
		t.Errorf("the Deployment is left with paused=%s", got)
	}
	note := w.kubectl("", "get", "events", "--field-selector=reason=ReleaseOrphaned", "-o", "jsonpath={range .items[*]}{.involvedObject.kind}/{.involvedObject.name} {.series.count} {.message}{end}")
	if !strings.HasPrefix(note, "Deployment/web 2 Rollout web was removed by force during its release.") || !strings.Contains(note, "Create Rollout web again") {
		t.Errorf("the event is %q", note)
	}

	dead := w.get("deployment/web-canary", "{.metadata.uid}")
	w.apply(canaryRollout)
	s := w.drive("web", rollout.StatePaused)
	if left := w.get("deployment/web-canary", "{.metadata.uid}"); left == dead {
		t.Error("the new Rollout goes on with the canary of the dead one")
	}
	if problems := s.Seen.Problems; len(problems) > 1 { // the policies are not installed
		t.Errorf("the problems are %v", problems)
	}
	w.kubectl("", "delete", "rollout", "web", "--wait=false")
	w.gone("web")
	left := w.kubectl("", "get", "deployments,services", "-o", "name")
	if diff := cmp.Diff("deployment.apps/web\nservice/web", left); diff != "" {
		t.Errorf("what is left differs (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(before, w.get("virtualservice/web", "{.spec}")); diff != "" {
		t.Errorf("the VirtualService differs (-want +got):\n%s", diff)
	}
	if got := w.get("service/web", "{.spec.selector}"); got != `{"app":"web"}` {
		t.Errorf("the stable Service selects %s", got)
	}
}

// gone runs the Rollout as an executor does until it no longer exists.
func (w *world) gone(name string) {
	w.t.Helper()
	w.eventually("the Rollout "+name+" is gone", func() bool {
		s, err := w.client.Observe(w.t.Context(), w.key(name))
		if apiclient.IsGone(err) {
			return true
		}
		if err != nil {
			w.t.Fatal(err)
		}
		for range 50 {
			d := planner.Plan(s.Seen, time.Now())
			if err := w.step(s, d); err != nil || len(d.Actions) == 0 {
				break
			}
		}
		return false
	})
}
