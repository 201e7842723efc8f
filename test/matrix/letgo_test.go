package matrix

import (
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sluice.dev/sluice/pkg/api"
)

// wanted returns the image that the workload runs after its Rollout has released it at a moment.
func (c *cell) wanted(m moment) string {
	if m.name == idle().name || m.name == stopped().name || c.col.governed && m.name != finalising().name {
		return "app:1"
	}
	return "app:2"
}

func always() []moment { return append([]moment{idle()}, inRelease()...) }

// disablings are events that release the workload and keep the Rollout.
func disablings() []event {
	disable := func(c *cell, m moment) {
		c.free("app:2")
		c.spec(`{"disabled":true}`)
		if m.sick {
			c.seen.cure(none)
		}
		c.await("Disabled", func(r *api.Rollout) bool { return r.Status.Phase == api.PhaseDisabled })
		c.settled(c.wanted(m))
	}
	return []event{
		{name: "disabled", meaning: "The executor restores all objects and ends the hold of the workload, which then rolls out its template by itself. An aborted release is rolled back. A release in a fleet is rolled back too, before its last step is approved.",
			at: always(), take: func(c *cell, m moment) end {
				disable(c, m)
				return end{phase: api.PhaseDisabled, image: c.wanted(m)}
			}},
		{name: "disabled and enabled again", meaning: "The executor adopts the workload as it is. Its next change is held again.",
			at: always(), take: func(c *cell, m moment) end {
				disable(c, m)
				epoch := c.rollout(c.get(api.RolloutResource(), "app")).Status.Sluice.Epoch
				c.spec(`{"disabled":false}`)
				c.adopts()
				c.unblock(m)
				c.release("app:3")
				c.finish("app:3", epoch+1)
				return healthy("app:3")
			}},
		{name: "changed while disabled", meaning: "The workload's controller rolls the change out without Sluice. When the user enables the Rollout again, no release of this change begins.",
			at: []moment{idle()}, take: func(c *cell, m moment) end {
				disable(c, m)
				c.change("app:2", "null")
				c.settled("app:2")
				c.spec(`{"disabled":false}`)
				c.adopts()
				return end{phase: api.PhaseHealthy, image: "app:2"}
			}},
	}
}

// deletions are events that delete the Rollout, or the namespace.
func deletions() []event {
	return []event{
		{name: "Rollout deleted", meaning: "As for a disabled Rollout. Then the Rollout is gone.",
			at: always(), take: func(c *cell, m moment) end {
				c.free("app:2")
				if m.sick {
					c.seen.cure(none)
				}
				c.deleteRollout("app")
				return end{image: c.wanted(m)}
			}},
		{name: "failing version and Rollout deleted", meaning: "The deletion does not wait for pods: the Rollout goes, and the workload's own budget bounds the number of unavailable pods. With `capacity: Constant`, the executor may have scaled the workload down. The deletion then waits until the workload has its pods back. In this test the owner rolls back, so the workload gets them back.",
			at: []moment{upgrading(1), upgrading(2), finalising()}, take: func(c *cell, m moment) end {
				c.free("app:2")
				if c.col.constant && m.step != 1 {
					c.deleting(api.RolloutResource(), "app")
					c.await("waiting for its pods", func(r *api.Rollout) bool { return strings.Contains(r.Status.Message, "to have its pods back") })
					c.back()
					c.gone(api.RolloutResource(), "app")
					return end{image: "app:1"}
				}
				c.deleteRollout("app")
				c.seen.cure(none)
				return end{image: c.wanted(m)}
			}},
		{name: "Rollout deleted and workload kept", meaning: "With `sluice.dev/keep-paused: \"true\"` the workload stays paused in its current state. Its owner resumes it.",
			at: atPauses(), take: func(c *cell, m moment) end {
				c.annotate(api.AnnotationKeepPaused, "true")
				stay := 0
				if !c.col.adds() {
					stay = c.steps[m.step-1].of(c.replicas)
				}
				c.seen.allow("app:2", limit{c.steps[m.step-1].of(c.replicas), none}) // a Service of all pods spreads its traffic over these pods
				c.deleteRollout("app")
				c.seen.await(c, "the pods that there were", func(pods map[string][]string) bool {
					return len(pods["app:2"]) == stay && len(pods["app:1"]) == c.replicas-stay
				})
				c.free("app:2")
				c.resumes()
				c.settled("app:2")
				return end{image: "app:2"}
			}},
		{name: "Rollout deleted and made again", meaning: "The new Rollout adopts the version that runs and waits for the next one.",
			at: atPauses(), take: func(c *cell, m moment) end {
				c.free("app:2")
				c.deleteRollout("app")
				c.settled(c.wanted(m))
				c.create(api.RolloutResource(), c.col.rolloutManifest(c.steps))
				c.adopts()
				c.release("app:3")
				c.finish("app:3", 1)
				return healthy("app:3")
			}},
		{name: "namespace deleted", meaning: "No object or finalizer of Sluice keeps the namespace from going.",
			at: always(), take: func(c *cell, m moment) end {
				c.free("app:2")
				c.namespaceGone()
				return end{over: true}
			}},
	}
}

// annotate puts an annotation on the Rollout.
func (c *cell) annotate(key, value string) {
	c.Helper()
	if err := c.patch(api.RolloutResource(), "app", fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, key, value)); err != nil {
		c.Fatal(err)
	}
}

// resumes lets a paused workload go on, as its owner would do.
func (c *cell) resumes() {
	c.Helper()
	body := `{"updateStrategy":{"rollingUpdate":{"partition":null}}}`
	switch c.col.resource.GroupResource().String() {
	case "deployments.apps":
		body = `{"paused":null,"strategy":null}` // null removes the surge of a Deployment with two versions
	case "clonesets.apps.kruise.io":
		body = `{"updateStrategy":{"partition":null}}`
	case "daemonsets.apps":
		body = `{"updateStrategy":{"type":"RollingUpdate"}}`
	}
	if err := c.patch(c.col.resource, "app", `{"spec":`+body+`}`); err != nil {
		c.Fatal(err)
	}
}

// namespaceGone deletes the namespace and waits until it is gone.
func (c *cell) namespaceGone() {
	c.Helper()
	namespaces := c.kube().CoreV1().Namespaces()
	if err := namespaces.Delete(c.Context(), c.ns, metav1.DeleteOptions{}); err != nil {
		c.Fatal(err)
	}
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		now, err := namespaces.Get(c.bound, c.ns, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return
		}
		if err != nil {
			c.Fatalf("the namespace does not go: %v", err)
		}
		select {
		case <-tick.C:
		case <-c.bound.Done():
			c.Fatalf("the namespace does not go: %+v", now.Status)
		}
	}
}
