package scenario

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/test/world"
)

// enlarge gives the route so many hosts that its original does not fit into an annotation.
func (d *demo) enlarge(t *testing.T) {
	t.Helper()
	hosts := []string{"*"}
	for n := range 1500 {
		hosts = append(hosts, fmt.Sprintf("%s%d.example.com", strings.Repeat("x", 55)+"."+strings.Repeat("y", 55)+"."+strings.Repeat("z", 30), n))
	}
	body, err := json.Marshal(map[string]any{"spec": map[string]any{"hosts": hosts}})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.w.Patch(t, d.ns, "virtualservice", "vs-demo", string(body)); err != nil {
		t.Fatal(err)
	}
	d.route = d.w.Get(t, d.ns, "virtualservice", "vs-demo")
}

// stored returns the originals in ControllerRevisions.
func (d *demo) stored(t *testing.T) []unstructured.Unstructured {
	t.Helper()
	list, err := d.w.Client(t, d.ns, "controllerrevision").List(t.Context(), metav1.ListOptions{LabelSelector: api.LabelOriginalOf})
	if err != nil {
		t.Fatal(err)
	}
	return list.Items
}

func (d *demo) wantNothingStored(t *testing.T) {
	t.Helper()
	for _, left := range d.stored(t) {
		t.Errorf("ControllerRevision %s is left", left.GetName())
	}
}

// The original of a route that is too large for an annotation is kept in a ControllerRevision that the route owns and
// names. The executor restores it from there, also after a crash at any write.
func TestALargeRouteIsReleasedAndRestored(t *testing.T) {
	t.Parallel()
	w := bareWorld(t)
	c := startCrashing(t, w)

	d := aDemo(t, w)
	d.enlarge(t)
	d.release(t, version("canary"))
	d.at(t, 1)
	d.wantStored(t)
	d.finish(t, 1)
	d.wantRestored(t)
	d.wantNothingStored(t)

	kinds := c.writesOf(d.ns)
	t.Run("after", func(t *testing.T) {
		for n, kind := range kinds {
			if !strings.Contains(kind, "controllerrevisions") && !strings.Contains(kind, "virtualservices") {
				continue
			}
			times := count(kinds[:n+1], kind)
			t.Run(fmt.Sprintf("%s %d", kind, times), func(t *testing.T) {
				t.Parallel()
				ns := w.Namespace(t)
				c.crashAfter(ns, kind, times)
				d := aDemoIn(t, w, ns)
				d.enlarge(t)
				d.release(t, version("canary"))
				d.finish(t, 1)
				d.wantRestored(t)
				d.wantNothingStored(t)
			})
		}
	})
}

// wantStored checks a large original while the release is under way.
func (d *demo) wantStored(t *testing.T) {
	t.Helper()
	route, stored := d.w.Get(t, d.ns, "virtualservice", "vs-demo"), d.stored(t)
	if len(stored) != 1 {
		t.Fatalf("%d originals are stored, want 1", len(stored))
	}
	want := fmt.Sprintf(`{"controllerRevision":%q}`, stored[0].GetName())
	if diff := cmp.Diff(want, route.GetAnnotations()[api.AnnotationOriginalSpec]); diff != "" {
		t.Errorf("the annotation (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(d.route.Object["spec"], stored[0].Object["data"].(map[string]any)["spec"]); diff != "" {
		t.Errorf("the stored spec (-want +got):\n%s", diff)
	}
	owners := stored[0].GetOwnerReferences()
	if len(owners) != 1 || owners[0].UID != route.GetUID() {
		t.Errorf("it is owned by %v, want the route", owners)
	}
}

// A user deletes the stored original. The status reports it, and the traffic stays. The release goes on after the user
// has applied the route again.
func TestALargeOriginalThatIsDeletedHoldsTheRelease(t *testing.T) {
	t.Parallel()
	w := world.Shared(t)
	d := aDemo(t, w)
	d.enlarge(t)
	d.release(t, version("canary"))
	d.at(t, 1)
	during := d.w.Get(t, d.ns, "virtualservice", "vs-demo")
	for _, stored := range d.stored(t) {
		if err := d.w.Client(t, d.ns, "controllerrevision").Delete(t.Context(), stored.GetName(), metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	d.approve(t)
	d.await(t, func(r *api.Rollout) bool {
		return strings.Contains(r.Status.Message, "is gone; apply your own version of it")
	})
	wantSame(t, during, d.w.Get(t, d.ns, "virtualservice", "vs-demo"))
	body, err := json.Marshal(map[string]any{"spec": d.route.Object["spec"]})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.w.Patch(t, d.ns, "virtualservice", "vs-demo", string(body)); err != nil {
		t.Fatal(err)
	}
	d.finish(t, 2)
	d.wantRestored(t)
	d.wantNothingStored(t)
}
