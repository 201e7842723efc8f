package scenario

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/test/world"
)

// mostCommits is the number of writes of the status that the end of a release may take. Without load it takes two or
// three; there are five or six tasks. If the end takes long, one more write may show progress after each showEvery.
const (
	mostCommits = 4
	showEvery   = 5 * time.Second
)

// Each task of finalising is carried out once, in OpenKruise's order. The lists here have all writes of an executor at
// the end of a release. No task has its own write of the status, and a grace period of 0 causes no wait.
func TestEachTaskOfFinalisingIsCarriedOutOnce(t *testing.T) {
	alone := func(t *testing.T) string { return blueGreen(t, "{replicas: 100%, traffic: 50%}") }
	replaced := func(t *testing.T) string { return inPlace(shortGrace(t)) }
	for name, c := range map[string]struct {
		manifest func(*testing.T) string
		rollback bool
		want     []string
	}{
		"canary style, success": {shortGrace, false, []string{
			"patch services service-demo", "update virtualservices vs-demo", "delete services service-demo-canary",
			"patch deployments workload-demo", "delete deployments workload-demo-canary"}},
		"canary style, rollback": {shortGrace, true, []string{
			"update virtualservices vs-demo", "patch deployments workload-demo", "delete deployments workload-demo-canary",
			"patch services service-demo", "delete services service-demo-canary"}},
		"partition style, success": {replaced, false, []string{
			"patch services service-demo", "update virtualservices vs-demo", "delete services service-demo-canary", "patch deployments workload-demo"}},
		// The executor stops the creation of new pods, replaces new pods with stable ones, and releases the workload.
		"partition style, rollback": {replaced, true, []string{
			"update virtualservices vs-demo", "patch deployments workload-demo", "patch replicasets base", "patch replicasets new", "patch deployments workload-demo",
			"patch services service-demo", "delete services service-demo-canary"}},
		// The route goes to the new version, and then back to its owner's spec.
		"blue-green, success": {alone, false, []string{
			"update virtualservices vs-demo", "patch services service-demo", "patch deployments workload-demo",
			"update virtualservices vs-demo", "delete services service-demo-canary"}},
		// The executor stops the creation of new pods, the new ones go, and it releases the workload.
		"blue-green, rollback": {alone, true, []string{
			"update virtualservices vs-demo", "patch deployments workload-demo", "patch replicasets new", "patch deployments workload-demo",
			"patch services service-demo", "delete services service-demo-canary"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := aDemo(t, world.Shared(t), swap(t, c.manifest(t), "gracePeriodSeconds: 1", "gracePeriodSeconds: 0"))
			written := d.w.Journal(d.ns)
			d.release(t, version("new"))
			d.toTheEnd(t, c.rollback)
			writes, err := written()
			if err != nil {
				t.Fatal(err)
			}
			ending, commits := world.Ending(writes)
			var objects []string
			for _, w := range ending {
				if w.Resource == "replicasets" {
					w.Name = versionOf(w.Object) // it has a different name each time
					if slices.Contains(objects, w.String()) {
						continue // the owner's budget decides how often
					}
				}
				objects = append(objects, w.String())
			}
			if diff := cmp.Diff(c.want, objects); diff != "" {
				t.Errorf("written at the end (-want +got):\n%s", diff)
			}
			if most := mostCommits + int(lasted(commits)/showEvery); len(commits) > most {
				t.Errorf("the end took %d writes of the status, more than %d", len(commits), most)
			}
			for _, w := range commits {
				if until := graceUntil(t, w); until.After(w.Received) {
					t.Errorf("at %s it waits until %s for a grace period of 0", w.Received, until)
				}
			}
		})
	}
}

// lasted returns the time from the first write to the last.
func lasted(writes []world.Write) time.Duration {
	if len(writes) == 0 {
		return 0
	}
	return writes[len(writes)-1].Received.Sub(writes[0].Received)
}

// toTheEnd approves the steps of a release, or rolls it back from the last one, and waits until it is over.
func (d *demo) toTheEnd(t *testing.T, rollback bool) {
	t.Helper()
	strategy := d.await(t, func(r *api.Rollout) bool { return r.Status.Sluice != nil }).Spec.Strategy
	approval, last := approval, int32(3)
	if strategy.BlueGreen != nil {
		approval, last = strings.Replace(approval, "canaryStatus", "blueGreenStatus", 1), int32(len(strategy.BlueGreen.Steps))
	}
	for n := int32(1); n <= last; n++ {
		d.await(t, world.PausedAt(n))
		if n == last && rollback {
			d.release(t, version("base"))
		} else if err := d.status(t, approval); err != nil {
			t.Fatal(err)
		}
	}
	d.await(t, func(r *api.Rollout) bool { return world.Healthy(r) && r.Status.Sluice.Epoch == 1 })
}

func graceUntil(t *testing.T, commit world.Write) (until time.Time) {
	t.Helper()
	text, set, _ := unstructured.NestedString(commit.Object.Object, "status", "sluice", "graceUntil")
	if !set {
		return until
	}
	until, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		t.Fatal(err)
	}
	return until
}
