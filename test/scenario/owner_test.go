package scenario

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
	"sluice.dev/sluice/test/controlplane"
	"sluice.dev/sluice/test/world"
)

// While a release has the fields of a Deployment, its owner writes new values. After the release, the Deployment has
// these values and not the earlier ones. The Deployment was paused when the change came, and the owner's new manifest
// does not pause it. Until the end, the release decides the fields.
func TestAnOwnersNewValuesComeBackAtTheEnd(t *testing.T) {
	t.Parallel()
	const (
		before = "  paused: true\n  minReadySeconds: 2\n  progressDeadlineSeconds: 300\n  strategy: {rollingUpdate: {maxSurge: 1, maxUnavailable: 0}}\n"
		after  = "  minReadySeconds: 1\n  progressDeadlineSeconds: 900\n  strategy: {rollingUpdate: {maxSurge: 3, maxUnavailable: 40%}}\n"
	)
	steps := []string{"{replicas: 1}", "{replicas: 2}", "{replicas: 100%}"}
	for style, c := range map[string]struct {
		rollout string
		sets    map[string]int32 // at step 2
	}{
		"partition":  {inPlace(withSteps(t, steps...)), map[string]int32{"base": 1, "new": 2}},
		"blue-green": {blueGreen(t, steps...), map[string]int32{"base": 3, "new": 2}},
	} {
		t.Run(style, func(t *testing.T) {
			t.Parallel()
			d := aDemo(t, world.Shared(t), unrouted(c.rollout))
			owner := func(value, fields string) {
				text := strings.Replace(world.Seed(t, "istio-walkthrough/workload.yaml"), "  replicas: 3\n", "  replicas: 3\n"+fields, 1)
				d.w.Apply(t, d.ns, strings.Replace(text, "value: base", "value: "+value, 1))
			}
			owner("base", before)
			breaches := watchHold(t, d.w, d.ns)
			owner("new", before)
			d.await(t, world.PausedAt(1))
			d.approveIn(t, style)
			d.await(t, world.PausedAt(2))
			owner("new", after)
			d.wantSets(t, c.sets)
			d.approveIn(t, style)
			if style == "blue-green" { // in partition style all pods are replaced, so no step is left to approve
				d.await(t, world.PausedAt(3))
				d.approveIn(t, style)
			}
			d.await(t, world.Healthy)
			d.awaitSets(t, map[string]int32{"new": 3})
			now := d.deployment(t)
			if diff := cmp.Diff("paused false, minReadySeconds 1, progressDeadlineSeconds 900, RollingUpdate of 3 and 40%", speed(now)); diff != "" {
				t.Errorf("its owner's values (-asked for +are):\n%s", diff)
			}
			if left := marksOf(now.Annotations, api.AnnotationRollout); len(left) > 0 {
				t.Errorf("it keeps the annotations %v", left)
			}
			for _, breach := range breaches() {
				t.Error(breach)
			}
		})
	}
}

// In canary style, the Deployment itself runs the new version only at the end. If its owner has paused it, the release
// stalls there until the owner resumes it, and its status shows how.
func TestAPauseOfTheOwnersHoldsTheEndOfARelease(t *testing.T) {
	t.Parallel()
	pause := func(t *testing.T, d *demo) {
		if err := d.w.Patch(t, d.ns, "deployment", "workload-demo", `{"spec":{"paused":true}}`); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct{ before, letGo func(*testing.T, *demo) }{
		"asked for before the change":  {before: pause},
		"asked for once it was let go": {letGo: pause},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := aDemo(t, world.Shared(t), withSteps(t, "{replicas: 1, traffic: 20%}"))
			if c.before != nil {
				c.before(t, d)
			}
			d.release(t, version("new", controlplane.NeverReady, "true"))
			d.await(t, func(r *api.Rollout) bool { all, _ := newPods(r); return all == 1 })
			d.cureOne(t)
			d.await(t, world.PausedAt(1))
			d.approve(t)
			if c.letGo != nil {
				d.w.AwaitObject(t, d.ns, "deployment", "workload-demo", "to run a new pod", func(u *unstructured.Unstructured) bool {
					n, _, _ := unstructured.NestedInt64(u.Object, "status", "updatedReplicas")
					return n == 1
				})
				c.letGo(t, d)
			}
			r := d.await(t, world.HeldFor(rollout.ReasonWorkloadPaused))
			if want := "kubectl rollout resume deployment/workload-demo -n " + d.ns; !strings.Contains(r.Status.Message, want) {
				t.Errorf("it says %q", r.Status.Message)
			}
			readyFromNow(t, d.w, d.ns)
			d.w.Do(t, "-n", d.ns, "rollout", "resume", "deployment/workload-demo")
			d.await(t, func(r *api.Rollout) bool { return world.Healthy(r) && r.Status.Sluice.Epoch == 1 })
			d.awaitSets(t, map[string]int32{"new": 3})
			d.wantRestored(t)
		})
	}
}

// speed describes the settings of a Deployment's owner for a rolling update.
func speed(d *appsv1.Deployment) string {
	s := d.Spec
	text := fmt.Sprintf("paused %t, minReadySeconds %d, progressDeadlineSeconds %d, %s", s.Paused, s.MinReadySeconds, *s.ProgressDeadlineSeconds, s.Strategy.Type)
	if r := s.Strategy.RollingUpdate; r != nil {
		text += fmt.Sprintf(" of %s and %s", r.MaxSurge, r.MaxUnavailable)
	}
	return text
}
