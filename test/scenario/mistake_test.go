package scenario

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
	"sluice.dev/sluice/test/world"
)

var update = flag.Bool("update", false, "write the golden files anew")

// mistake is a release with a mistake of a user. The manifests of the Istio walkthrough are told apart by their
// content.
type mistake struct {
	reason api.Reason
	// first has the objects that exist before the Rollout. Together with manifests, these are all objects when the
	// release begins.
	first, manifests []string
	// resting reports that there is no workload yet, and so no release.
	resting bool
	// spoil makes the mistake after the workload was adopted, before the release.
	spoil func(t *testing.T, w *world.World, ns, message string)
	// mend corrects the mistake, given the message of the status.
	mend func(t *testing.T, w *world.World, ns, message string)
}

// begins reports whether the release begins and then stalls. It does not begin without its own workload, nor while the
// watcher cannot see a relevant part.
func (m mistake) begins() bool {
	return !m.resting && m.reason != rollout.ReasonWorkloadConflict && m.reason != rollout.ReasonForbidden
}

// mistakes returns all mistakes by name. The test corrects them in the order of their names, so a release can only wake
// from the correction of its own mistake.
func mistakes(t *testing.T) map[string]mistake {
	m := map[string]mistake{
		"Service missing": {
			reason: rollout.ReasonServiceMissing, manifests: []string{deployment(t), route(t), release(t)}, mend: apply(service(t)),
		},
		"VirtualService missing": {
			reason: rollout.ReasonRouteMissing, manifests: []string{service(t), deployment(t), release(t)}, mend: apply(route(t)),
		},
		"workload missing": {
			reason: rollout.ReasonWorkloadMissing, manifests: []string{service(t), route(t), release(t)}, resting: true, mend: apply(deployment(t)),
		},
		"script missing": {
			reason: rollout.ReasonScriptMissing, first: []string{crd("Lane"), grant("Lane")}, manifests: []string{service(t), deployment(t), laneOf("Lane"), through(t, "Lane")},
			mend: addScript("Lane", laneScript),
		},
		"script broken": {
			reason: rollout.ReasonRouteUnsupported,
			first:  []string{crd("Track"), grant("Track")}, manifests: []string{service(t), deployment(t), laneOf("Track"), through(t, "Track")},
			mend: addScript("Track", laneScript),
		},
		"gateway kind not granted": {
			reason: rollout.ReasonForbidden,
			first:  []string{crd("Ramp"), grant("Ramp")}, manifests: []string{service(t), deployment(t), laneOf("Ramp"), through(t, "Ramp")},
			spoil: revokeRamp, mend: applyPrinted,
		},
		"gateway kind not installed": {
			reason: rollout.ReasonRouteMissing, first: []string{grant("Ferry")}, manifests: []string{service(t), deployment(t), through(t, "Ferry")}, mend: installFerry,
		},
		"two Rollouts on one workload": {
			reason: rollout.ReasonWorkloadConflict,
			first:  []string{service(t), deployment(t), route(t), swap(t, release(t), "name: rollouts-demo", "name: another")}, manifests: []string{swap(t, release(t), "name: workload-demo", "name: not-yet")},
			spoil: apply(release(t)), mend: deleteObject("rollout", "another"),
		},
		"foreign canary Deployment": {
			reason: rollout.ReasonNameConflict, manifests: []string{service(t), deployment(t), route(t), foreignDeployment, release(t)},
			mend: deleteObject("deployment", "workload-demo-canary"),
		},
		"foreign canary Service": {
			reason: rollout.ReasonNameConflict, manifests: []string{service(t), deployment(t), route(t), foreignService, release(t)},
			mend: deleteObject("service", "service-demo-canary"),
		},
	}
	m["unsupported field"] = mistake{
		reason: rollout.ReasonUnsupported, manifests: []string{service(t), deployment(t), route(t), unsupported(t)},
		mend: rollBackAndCorrect(release(t)), // the style of a Rollout is fixed while it is Progressing
	}
	return m
}

func TestMistakesAreToldAndHealOnceMended(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it needs a control plane, which -short leaves out")
	}
	// A cluster of its own: in a busy one, other tests would wake the stalled releases.
	w := world.ForTest(t, world.Options{})
	all := mistakes(t)
	addScript("Track", strings.Replace(laneScript, `"canary"`, `"canary`, 1))(t, w, "", "")
	addScript("Ramp", laneScript)(t, w, "", "")
	addScript("Ferry", laneScript)(t, w, "", "")
	for name, m := range all {
		w.Do(t, "create", "namespace", slug(name))
		w.Judge(t, slug(name), world.Breaches, world.Overexposed, world.StableServes)
		if len(m.first) > 0 {
			w.Apply(t, slug(name), strings.Join(m.first, "---\n"))
		}
	}
	w.Do(t, "wait", "--for=condition=Established", "crd", "--all")
	w.Await(t, slug("two Rollouts on one workload"), "another", resting)
	for name, m := range all {
		w.Apply(t, slug(name), strings.Join(m.manifests, "---\n"))
	}
	for name, m := range all {
		if !m.resting {
			w.Await(t, slug(name), "rollouts-demo", resting)
			w.Do(t, "-n", slug(name), "rollout", "status", "deployment/workload-demo")
			if m.spoil != nil {
				m.spoil(t, w, slug(name), "")
			}
			w.Do(t, "-n", slug(name), "patch", "deployment", "workload-demo", "-p", patchVersion)
		}
	}
	for _, name := range sorted(all) {
		t.Run(name, func(t *testing.T) { told(t, w, slug(name), name, all[name]) })
	}
	for _, name := range sorted(all) {
		t.Run(name+", mended", func(t *testing.T) {
			m, ns := all[name], slug(name)
			m.mend(t, w, ns, w.Await(t, ns, "rollouts-demo", world.HeldFor(m.reason)).Status.Message)
			if m.resting || m.reason == rollout.ReasonWorkloadConflict { // the release of a deleted Rollout ends with all pods at its version
				w.Await(t, ns, "rollouts-demo", world.Healthy)
				w.Do(t, "-n", ns, "rollout", "status", "deployment/workload-demo")
				w.Do(t, "-n", ns, "patch", "deployment", "workload-demo", "-p", strings.Replace(patchVersion, "canary", "next", 1))
			}
			r := w.Await(t, ns, "rollouts-demo", world.PausedAt(1))
			if c := world.Condition(r, api.ConditionStalled); c != nil {
				t.Errorf("the condition %s is still there: %s", c.Reason, c.Message)
			}
		})
	}
}

// resting is the goal that the Rollout has adopted its workload, or shows why it has not.
func resting(r *api.Rollout) bool {
	return r.Status.Sluice.GetState() == string(rollout.StateIdle) &&
		(world.Healthy(r) && r.Status.Common().StableRevision != "" || world.Condition(r, api.ConditionStalled) != nil)
}

// told checks that all places show a mistake, and that no component acts meanwhile.
func told(t *testing.T, w *world.World, ns, name string, m mistake) {
	r := w.Await(t, ns, "rollouts-demo", func(r *api.Rollout) bool {
		return world.HeldFor(m.reason)(r) && (!m.begins() || r.Status.Phase == api.PhaseProgressing)
	})
	c := world.Condition(r, api.ConditionStalled)
	if r.Status.Message != c.Message {
		t.Errorf("status.message is %q, the condition says %q", r.Status.Message, c.Message)
	}
	if wake := r.Status.Sluice.WakeAt; wake != nil {
		t.Errorf("it is looked at again at %s, so that its waking by events is not proved", wake)
	}
	golden(t, name, fmt.Sprintf("%s %s\n%s\n", c.Type, c.Reason, strings.ReplaceAll(c.Message, ns, "shop")))
	awaitEvent(t, w, ns, string(m.reason))
	if !m.resting && m.reason != rollout.ReasonWorkloadConflict {
		untouched(t, w, ns)
	}
}

// untouched checks that no pod runs the new version and no route was changed.
func untouched(t *testing.T, w *world.World, ns string) {
	t.Helper()
	d := w.AwaitObject(t, ns, "deployment", "workload-demo", "to be seen by its controller", func(u *unstructured.Unstructured) bool {
		if u == nil {
			return false
		}
		observed, _, _ := unstructured.NestedInt64(u.Object, "status", "observedGeneration")
		return observed == u.GetGeneration()
	}).Object
	if paused, _ := d["spec"].(map[string]any)["paused"].(bool); !paused {
		t.Error("the Deployment is not held")
	}
	if n := d["status"].(map[string]any)["updatedReplicas"]; n != nil && n != int64(0) {
		t.Errorf("%v pods have the new version", n)
	}
	if made := w.Do(t, "-n", ns, "get", "deployments,services", "-l", api.LabelRolloutUID, "-o", "name"); made != "" {
		t.Errorf("the held release has made %s", made)
	}
	routes := w.Do(t, "-n", ns, "get", "virtualservices", "-o", "yaml")
	if strings.Contains(routes, api.AnnotationReleases) {
		t.Errorf("the held release has changed the VirtualService:\n%s", routes)
	}
}

// awaitEvent waits until a warning with that reason is recorded about the Rollout.
func awaitEvent(t *testing.T, w *world.World, ns, reason string) {
	t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(10 * time.Minute); ; {
		reasons := w.Do(t, "-n", ns, "get", "events", "--field-selector=involvedObject.kind=Rollout,type=Warning", "-o", "jsonpath={.items[*].reason}")
		if strings.Contains(reasons, reason) {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("no Event with reason %s, only %q", reason, reasons)
		}
		<-tick.C
	}
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", "mistakes", slug(name)+".golden")
	if *update {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		write(t, file, got)
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got; -update writes it anew):\n%s", file, diff)
	}
}
