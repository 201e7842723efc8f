package scenario

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/test/controlplane"
	"sluice.dev/sluice/test/world"
)

// watchBudget records the fewest ready pods and the most pods that the revisions of the workload ever have together. It
// counts wanted pods in place of existing ones, which the status shows late.
func (d *demo) watchBudget(t *testing.T) (bounds func() (fewest, most int64)) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	events, err := controlplane.Watch(ctx, d.w.Client(t, d.ns, "replicaset"), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	least, highest := int64(1000), int64(0)
	var watching sync.WaitGroup
	watching.Go(func() {
		told, ready := map[string]int64{}, map[string]int64{}
		for e := range events.ResultChan() {
			if u, ok := e.Object.(*unstructured.Unstructured); ok && u.GetName() != "" {
				told[u.GetName()], _, _ = unstructured.NestedInt64(u.Object, "spec", "replicas")
				ready[u.GetName()], _, _ = unstructured.NestedInt64(u.Object, "status", "readyReplicas")
				least, highest = min(least, sum(ready)), max(highest, sum(told))
			}
		}
	})
	return func() (int64, int64) { cancel(); watching.Wait(); return least, highest }
}

// watchSet records the most pods that the revision of a version wants, from now on.
func (d *demo) watchSet(t *testing.T, version string) (most func() int64) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	events, err := controlplane.Watch(ctx, d.w.Client(t, d.ns, "replicaset"), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	highest := int64(0)
	var watching sync.WaitGroup
	watching.Go(func() {
		for e := range events.ResultChan() {
			if u, ok := e.Object.(*unstructured.Unstructured); ok && versionOf(u) == version {
				told, _, _ := unstructured.NestedInt64(u.Object, "spec", "replicas")
				highest = max(highest, told)
			}
		}
	})
	return func() int64 { cancel(); watching.Wait(); return highest }
}

func sum(of map[string]int64) (n int64) {
	for _, some := range of {
		n += some
	}
	return n
}

// watchGranted records the share of its pods, in percent, that the workload may miss during a rolling update, after
// each change.
func (d *demo) watchGranted(t *testing.T) (granted func() []int) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	events, err := controlplane.Watch(ctx, d.w.Client(t, d.ns, "deployment"), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var list []int
	var watching sync.WaitGroup
	watching.Go(func() {
		for e := range events.ResultChan() {
			u, ok := e.Object.(*unstructured.Unstructured)
			if !ok {
				continue
			}
			paused, _, _ := unstructured.NestedBool(u.Object, "spec", "paused")
			seconds, _, _ := unstructured.NestedInt64(u.Object, "spec", "minReadySeconds")
			if paused || seconds != math.MaxInt32-1 {
				continue
			}
			field, _, _ := unstructured.NestedFieldNoCopy(u.Object, "spec", "strategy", "rollingUpdate", "maxUnavailable")
			may := fmt.Sprint(field) // 0, or a percentage
			percent, err := strconv.Atoi(strings.TrimSuffix(may, "%"))
			if err != nil || (percent != 0) != strings.HasSuffix(may, "%") {
				t.Errorf("it may miss %q of its pods, which is no share", may)
			}
			if len(list) == 0 || list[len(list)-1] != percent {
				list = append(list, percent)
			}
		}
	})
	return func() []int { cancel(); watching.Wait(); return list }
}

// A Deployment in partition style keeps its owner's budget for the whole release, also the default of the API server.
// The budget is restored unchanged afterwards. The allowance for missing old pods begins with that budget. It rises
// with the number of ready new pods, which become ready a moment after their creation. The executor leaves the status
// of the Deployment to its controller, and writes the status of the Rollout as a status.
func TestTheOwnersBudgetHoldsInPlaceAndComesBack(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		strategy     string
		fewest, most int64 // of 10 replicas
		granted      []int // one pod gets ready at a time, so that no value is missed
	}{
		"by default":            {`{"type":"RollingUpdate"}`, 8, 13, nil},
		"without a surge":       {`{"rollingUpdate":{"maxSurge":0,"maxUnavailable":1}}`, 9, 10, []int{10, 20, 30, 40, 50, 60, 70, 80, 90, 100}},
		"a default beside one":  {`{"rollingUpdate":{"maxSurge":1}}`, 8, 11, nil},
		"none to be missing":    {`{"rollingUpdate":{"maxSurge":"20%","maxUnavailable":0}}`, 10, 12, nil},
		"in percent and pieces": {`{"rollingUpdate":{"maxSurge":"1%","maxUnavailable":"35%"}}`, 7, 11, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := aDemo(t, world.Shared(t), unrouted(inPlace(withSteps(t, "{replicas: 3}", "{replicas: 60%}", "{replicas: 100%}"))))
			d.scale(t, 10)
			if err := d.w.Patch(t, d.ns, "deployment", "workload-demo", `{"spec":{"strategy":`+c.strategy+`}}`); err != nil {
				t.Fatal(err)
			}
			d.w.Available(t, d.ns, "workload-demo")
			d.await(t, world.Healthy)
			owners := d.deployment(t).Spec.Strategy
			bounds, granted, written := d.watchBudget(t), d.watchGranted(t), d.w.Journal(d.ns)
			d.release(t, version("new", controlplane.ReadyAfter, "300ms"))
			for n := int32(1); n <= 2; n++ {
				d.await(t, world.PausedAt(n))
				d.approve(t)
			}
			d.await(t, func(r *api.Rollout) bool { return world.Healthy(r) && r.Status.Sluice.Epoch == 1 })
			d.w.Available(t, d.ns, "workload-demo")
			if fewest, most := bounds(); fewest < c.fewest || most > c.most {
				t.Errorf("there were %d ready pods at the fewest and %d at the most, where %d and %d are allowed", fewest, most, c.fewest, c.most)
			}
			got := granted()
			if rises := slices.IsSorted(got); len(got) < 3 || got[0] != int(10-c.fewest)*10 || !rises {
				t.Errorf("it might miss %v percent of its pods, which is to rise from %d", got, (10-c.fewest)*10)
			}
			if diff := cmp.Diff(c.granted, got); c.granted != nil && diff != "" {
				t.Errorf("the percentages of its pods that it might miss (-want +got):\n%s", diff)
			}
			after := d.deployment(t)
			if diff := cmp.Diff(owners, after.Spec.Strategy); diff != "" {
				t.Errorf("its strategy (-before +after):\n%s", diff)
			}
			if left := marksOf(after.Annotations, api.AnnotationRollout); len(left) > 0 {
				t.Errorf("it keeps the annotations %v", left)
			}
			d.wantStatusesKeptApart(t, written)
		})
	}
}

// wantStatusesKeptApart checks that an executor writes the status of the Rollout by its subresource, and no other
// status.
func (d *demo) wantStatusesKeptApart(t *testing.T, written func() ([]world.Write, error)) {
	t.Helper()
	writes, err := written()
	if err != nil {
		t.Fatal(err)
	}
	statuses := 0
	for _, w := range writes {
		switch on := fmt.Sprintf("%s/%s", w.Resource, w.Subresource); {
		case w.User != api.DefaultInstallation().ExecutorUser():
		case on == "rollouts/status":
			statuses++
		case w.Resource == "rollouts", w.Subresource != "":
			t.Errorf("the executor wrote %s %s", on, w.Name)
		}
	}
	if statuses == 0 {
		t.Error("no status was written")
	}
}
