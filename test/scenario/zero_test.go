package scenario

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
	"sluice.dev/sluice/test/controlplane"
	"sluice.dev/sluice/test/world"
)

func (d *demo) scale(t *testing.T, n int) {
	t.Helper()
	d.w.Do(t, "-n", d.ns, "scale", "deployment/workload-demo", fmt.Sprintf("--replicas=%d", n))
}

// A release that is scaled to 0 relies on this rule: the controller of a paused Deployment knows no versions. It brings
// back all pods of one ReplicaSet, and selects it by its creation time, not by its revision.
func TestAPausedDeploymentComesBackFromZeroAsWhatWasMadeLast(t *testing.T) {
	t.Parallel()
	w := world.Shared(t)
	d := &demo{w: w, ns: w.Namespace(t)}
	w.Apply(t, d.ns, world.Seed(t, "istio-walkthrough/workload.yaml"))
	w.Available(t, d.ns, "workload-demo")
	for _, v := range []string{"second", "base"} {
		d.release(t, version(v))
		d.awaitSets(t, map[string]int32{v: 3})
	}
	w.Do(t, "-n", d.ns, "rollout", "pause", "deployment/workload-demo")
	d.scale(t, 0)
	d.awaitSets(t, map[string]int32{})
	d.release(t, version("third")) // this version has no ReplicaSet while the Deployment is paused
	d.scale(t, 3)
	d.awaitSets(t, map[string]int32{d.madeLast(t): 3})
}

// madeLast returns the version whose ReplicaSet was created last; among ReplicaSets of the same second, the last by
// name.
func (d *demo) madeLast(t *testing.T) string {
	t.Helper()
	list, err := d.w.Client(t, d.ns, "replicaset").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	last := slices.MaxFunc(list.Items, func(a, b unstructured.Unstructured) int {
		made := a.GetCreationTimestamp()
		return cmp.Or(made.Compare(b.GetCreationTimestamp().Time), cmp.Compare(a.GetName(), b.GetName()))
	})
	return versionOf(&last)
}

func TestScaledToZeroAndBackAReleaseInPlaceReachesItsStepAnew(t *testing.T) {
	t.Parallel()
	d := aDemo(t, world.Shared(t), inPlace(shortGrace(t)))
	d.release(t, version("new"))
	d.at(t, 2)
	d.scale(t, 0)
	d.awaitOnly(t, "base")
	wantSame(t, d.route, d.w.AwaitObject(t, d.ns, "virtualservice", "vs-demo", "no traffic of a release", func(u *unstructured.Unstructured) bool {
		return u.GetAnnotations()[api.AnnotationReleases] == ""
	}))

	d.scale(t, 3)
	d.awaitSets(t, map[string]int32{"base": 1, "new": 2})
	d.await(t, func(r *api.Rollout) bool {
		return world.PausedAt(2)(r) && r.Status.CanaryStatus.CanaryReadyReplicas == 2
	})
	d.w.AwaitObject(t, d.ns, "virtualservice", "vs-demo", "the traffic of step 2", func(u *unstructured.Unstructured) bool {
		return strings.Contains(toJSON(t, u.Object["spec"]), `"weight":50`)
	})
	d.finish(t, 2)
	d.awaitSets(t, map[string]int32{"new": 3})
	d.wantRestored(t)
	d.wantFree(t)
}

func TestScaledToZeroAndBackAnAbortedReleaseStaysTakenBack(t *testing.T) {
	t.Parallel()
	d := aDemo(t, world.Shared(t), inPlace(shortGrace(t)))
	d.release(t, version("bad"))
	d.at(t, 2)
	d.command(t, api.CommandAbort)
	d.await(t, func(r *api.Rollout) bool { return r.Status.Sluice.State == string(rollout.StateAborted) })
	d.awaitSets(t, map[string]int32{"base": 3})
	d.scale(t, 0)
	d.awaitOnly(t, "base")
	d.scale(t, 3)
	d.awaitSets(t, map[string]int32{"base": 3})

	d.command(t, api.CommandRetry)
	d.await(t, func(r *api.Rollout) bool { return world.PausedAt(1)(r) && r.Status.Sluice.Epoch == 2 })
	d.wantSets(t, map[string]int32{"base": 2, "bad": 1})
}

// awaitOnly waits until the workload has no pods, and only the ReplicaSet of a version.
func (d *demo) awaitOnly(t *testing.T, version string) {
	t.Helper()
	d.awaitSets(t, map[string]int32{})
	client := d.w.Client(t, d.ns, "replicaset")
	ctx := world.Patient(t)
	watching, err := controlplane.Watch(ctx, client, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer watching.Stop()
	for {
		list, err := client.List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if len(list.Items) == 1 && versionOf(&list.Items[0]) == version {
			return
		}
		select {
		case <-watching.ResultChan():
		case <-ctx.Done():
			t.Fatalf("the workload has %d ReplicaSets", len(list.Items))
		}
	}
}

func TestScaledToZeroAndBackABlueGreenReleaseReachesItsStepAnew(t *testing.T) {
	t.Parallel()
	g := beside(t)
	g.release(t, version("green"))
	g.at(t, 2)
	g.scale(t, 0)
	g.awaitSets(t, map[string]int32{})
	g.scale(t, 3)
	g.awaitSets(t, map[string]int32{"base": 3, "green": 3})
	g.await(t, func(r *api.Rollout) bool {
		return world.PausedAt(2)(r) && r.Status.BlueGreenStatus.UpdatedReadyReplicas == 3
	})
	g.approve(t)
	g.await(t, world.PausedAt(3))
	g.approve(t)
	g.wantOver(t, "green")
}
