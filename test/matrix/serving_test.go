package matrix

import (
	"context"
	"fmt"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/test/controlplane"
	"sluice.dev/sluice/test/world"
)

// Reasons why cells of a release that is being finalised do not stand.
const (
	endsWithOldPods = "the old pods of a blue-green release go when all new ones are ready, and the release ends at the same time"
	endsWithFewPods = "at the end of a release in place, at least the number of pods that the owner requires is ready"
)

// withoutStable is a release that is being finalised. The workload's controller has deleted all its pods of app:1, and
// its new pods are not ready. Pods of app:1 need two seconds to get ready.
func withoutStable() moment {
	return moment{name: "finalising without stable pods", epoch: 1, sick: true, reach: func(c *cell) {
		c.mayMiss("100%")
		finalising().reach(c)
		c.seen.await(c, "no pod of app:1", func(pods map[string][]string) bool { return len(pods["app:1"]) == 0 })
	}}
}

// withSomeStable is a release that a user promotes at its first step. The workload's controller has deleted half of its
// pods of app:1.
func withSomeStable() moment {
	return moment{name: "finalising with some stable pods", epoch: 1, sick: true, reach: func(c *cell) {
		c.mayMiss("50%")
		c.promoteSick(1)
		c.seen.await(c, "some pods of app:1", func(pods map[string][]string) bool { return len(pods["app:1"]) > 0 })
	}}
}

// mayMiss creates the application with a workload whose owner allows a share of unavailable pods. Its pods need two
// seconds to be ready.
func (c *cell) mayMiss(share string) {
	c.Helper()
	rolling := fmt.Sprintf("rollingUpdate: {maxUnavailable: %s}", share)
	switch {
	case c.col.resource != deployments() && c.col.kind == "CloneSet":
		c.col.spec += fmt.Sprintf("  updateStrategy: {maxUnavailable: %s}\n", share)
	case c.col.resource != deployments():
		if c.col.resource.Group != "apps" && !c.col.daemon {
			c.col.spec += "  podManagementPolicy: Parallel\n" // by default only one pod may be unavailable
		}
		c.col.spec += fmt.Sprintf("  updateStrategy: {type: RollingUpdate, %s}\n", rolling)
	case c.col.beside && share == "100%":
		c.col.spec += "  strategy: {type: Recreate}\n"
	default:
		c.col.spec += fmt.Sprintf("  strategy: {type: RollingUpdate, rollingUpdate: {maxUnavailable: %s, maxSurge: 0}}\n", share)
	}
	c.col.annotations = ", " + controlplane.ReadyAfter + ": 2s"
	c.adopted()
}

// servings are events of a release that is being finalised while pods are missing. In each of them, the Service always
// has a ready endpoint.
func servings() []event {
	at := []moment{withoutStable(), withSomeStable()}
	later := func(*cell) {} // the moments create the application
	return []event{
		{name: "rollback where all pods may be missing", meaning: "The workload's own strategy would delete all new pods at once: `Recreate`, or `maxUnavailable: 100%`. The new pods stay until stable ones are ready. The Service has a ready endpoint all the time.",
			at: atPauses(), made: func(c *cell) { c.mayMiss("100%") }, take: func(c *cell, _ moment) end {
				c.serves()
				c.back()
				return canceled("app:1")
			}},
		{name: "rollback while pods are missing", meaning: "The owner rolls back after the last approval, when the workload's controller has already deleted stable pods. The canary stays until the stable pods are ready again.",
			at: at, made: later, take: func(c *cell, _ moment) end {
				c.serves()
				c.back()
				return canceled("app:1")
			}},
		{name: "Rollout deleted while pods are missing", meaning: "As for a rollback: the pods of the canary stay until the workload's own pods are ready. The Rollout stays until then too.",
			at: at, made: later, take: func(c *cell, _ moment) end {
				c.serves()
				c.deleting(api.RolloutResource(), "app")
				c.quietly()
				c.seen.cure(none)
				c.gone(api.RolloutResource(), "app")
				return end{image: "app:2"}
			}},
		{name: "disabled while pods are missing", meaning: "As for a deleted Rollout.",
			at: at, made: later, take: func(c *cell, _ moment) end {
				c.serves()
				c.spec(`{"disabled":true}`)
				c.quietly()
				c.seen.cure(none)
				c.await("Disabled", func(r *api.Rollout) bool { return r.Status.Phase == api.PhaseDisabled })
				return end{phase: api.PhaseDisabled, image: "app:2"}
			}},
		{name: "newer version while pods are missing", meaning: "A policy holds the newer version until enough pods of the workload are ready. Usually these are pods of the approved version. If no pod of that version is ready, the executor brings back the stable version. Then the release of the newer version begins.",
			at: at, made: later, take: func(c *cell, _ moment) end {
				c.serves()
				c.release("app:3")
				c.finish("app:3", 2)
				return healthy("app:3")
			}},
	}
}

// serves watches the endpoints of the application's Service until the cell ends. From now on, one of them must be
// ready.
func (c *cell) serves() {
	c.Helper()
	ctx, cancel := context.WithCancel(c.Context())
	slices := schema.GroupVersionResource{Group: "discovery.k8s.io", Version: "v1", Resource: "endpointslices"}
	events, err := controlplane.Watch(ctx, c.client(slices), metav1.ListOptions{LabelSelector: "kubernetes.io/service-name=app"})
	if err != nil {
		c.Fatal(err)
	}
	var watching sync.WaitGroup
	var gaps []string
	watching.Go(func() {
		ready := map[string][]string{}
		for e := range events.ResultChan() {
			u, ok := e.Object.(*unstructured.Unstructured)
			if !ok {
				continue
			}
			before := served(ready)
			_, ready[u.GetName()] = world.EndpointPods(u)
			if e.Type == watch.Deleted {
				delete(ready, u.GetName())
			}
			if before != "" && served(ready) == "" {
				gaps = append(gaps, fmt.Sprintf("no endpoint of Service app was ready; before, %s were", before))
			}
		}
	})
	c.Cleanup(func() {
		cancel()
		watching.Wait()
		for _, gap := range gaps {
			c.Error(gap)
		}
	})
}

func served(ready map[string][]string) string {
	var all []string
	for _, names := range ready {
		all = append(all, names...)
	}
	return strings.Join(all, ", ")
}
