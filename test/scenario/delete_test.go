package scenario

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/test/controlplane"
	"sluice.dev/sluice/test/world"
)

// A user may delete a Rollout in any way at any time. Traffic goes back first, then the executor deletes all objects of
// the release. The workload's controller rolls out the template that its owner wants.
func TestADeletedRolloutLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	moments := map[string]func(*testing.T, *demo){
		"idle":   func(*testing.T, *demo) {},
		"step 1": func(t *testing.T, d *demo) { d.release(t, version("canary")); d.at(t, 1) },
		"step 2": func(t *testing.T, d *demo) { d.release(t, version("canary")); d.at(t, 2) },
		"step 3": func(t *testing.T, d *demo) { d.release(t, version("canary")); d.at(t, 3) },
		"upgrading": func(t *testing.T, d *demo) {
			d.release(t, version("canary", controlplane.NeverReady, "true"))
			d.await(t, upgrading)
		},
	}
	for _, way := range []string{"foreground", "background", "orphan"} {
		for moment, reach := range moments {
			t.Run(way+" "+moment, func(t *testing.T) {
				t.Parallel()
				d := aDemo(t, world.Shared(t))
				breaches := watchRoutes(t, d.w, d.ns)
				reach(t, d)
				d.w.Do(t, "-n", d.ns, "delete", "rollout", "rollouts-demo", "--cascade="+way, "--timeout=600s")
				d.wantForgotten(t)
				wantReleased(t, d, moment)
				for _, breach := range breaches() {
					t.Error(breach)
				}
			})
		}
	}
}

// upgrading is the goal that the canary of step 1 exists and the release waits for it.
func upgrading(r *api.Rollout) bool {
	return r.Status.CurrentStepState == api.StepUpgrade && r.Status.CanaryStatus.CanaryReplicas > 0
}

// wantReleased checks that the workload's own controller rolls out the template. With pods that are never ready, it
// stops at its own limit.
func wantReleased(t *testing.T, d *demo, moment string) {
	t.Helper()
	if moment != "upgrading" {
		d.w.Available(t, d.ns, "workload-demo")
		return
	}
	d.w.AwaitObject(t, d.ns, "deployment", "workload-demo", "pods of the new template", func(u *unstructured.Unstructured) bool {
		updated, _, _ := unstructured.NestedInt64(u.Object, "status", "updatedReplicas")
		observed, _, _ := unstructured.NestedInt64(u.Object, "status", "observedGeneration")
		return observed == u.GetGeneration() && updated > 0
	})
}

// change is one state of a Service or a VirtualService, with its resource version.
type change struct {
	version int
	kind    string
	gone    bool
	object  *unstructured.Unstructured
}

// watchRoutes records each time that a VirtualService names a Service of the walkthrough that does not exist. It orders
// the two kinds by their resource versions, which the API server counts together.
func watchRoutes(t *testing.T, w *world.World, ns string) (breaches func() []string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var mu sync.Mutex
	var changes []change
	var watching sync.WaitGroup
	for _, kind := range []string{"service", "virtualservice"} {
		events, err := controlplane.Watch(ctx, w.Client(t, ns, kind), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		watching.Go(func() {
			for e := range events.ResultChan() {
				u, ok := e.Object.(*unstructured.Unstructured)
				if !ok {
					continue
				}
				version, _ := strconv.Atoi(u.GetResourceVersion())
				mu.Lock()
				changes = append(changes, change{version: version, kind: kind, gone: e.Type == watch.Deleted, object: u})
				mu.Unlock()
			}
		})
	}
	return sync.OnceValue(func() []string {
		cancel()
		watching.Wait()
		return danglingRoutes(changes)
	})
}

func danglingRoutes(changes []change) []string {
	slices.SortFunc(changes, func(a, b change) int { return a.version - b.version })
	services, routes := map[string]bool{}, map[string]string{}
	var list []string
	for _, c := range changes {
		switch {
		case c.kind == "service":
			services[c.object.GetName()] = !c.gone
		case c.gone:
			delete(routes, c.object.GetName())
		default:
			spec, _ := json.Marshal(c.object.Object["spec"])
			routes[c.object.GetName()] = string(spec)
		}
		for name, spec := range routes {
			if strings.Contains(spec, `"service-demo-canary"`) && !services["service-demo-canary"] {
				list = append(list, fmt.Sprintf("VirtualService %s names a Service that does not exist, at version %d", name, c.version))
			}
		}
	}
	return list
}
