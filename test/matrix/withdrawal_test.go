package matrix

import (
	"flag"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
)

// withdrawal is a situation in which the hub of a fleet withdraws app:2.
type withdrawal struct {
	name string
	// id is the rollout-id of app:2, "" for none.
	id string
	// completed: all pods run app:2. Otherwise its release is paused at step 2.
	completed bool
}

func withdrawals() []withdrawal {
	return []withdrawal{
		{name: "completed", completed: true},
		{name: "completed with a rollout-id", id: "second", completed: true},
		{name: "under way"},
		{name: "under way with a rollout-id", id: "second"},
	}
}

// TestWithdrawal plays the withdrawal of a version by the hub of a fleet, on every strategy and workload, while a GitOps tool applies that version every
// second. Without -matrix.all, it plays one situation of each column, and the next one of the next column.
func TestWithdrawal(t *testing.T) {
	one := !*all && !strings.Contains(flag.Lookup("test.run").Value.String(), "/")
	for i, col := range columns() {
		if col.governed {
			continue
		}
		for n, s := range withdrawals() {
			if one && n != i%len(withdrawals()) {
				continue
			}
			t.Run(s.name+"/"+col.name, func(t *testing.T) {
				t.Parallel()
				skipWithoutHub(t, governed(col))
				newCell(t, governed(col)).withdrawn(s)
			})
		}
	}
}

// withdrawn plays a withdrawal. In the end, all pods run app:1, and the change that the tool applies stays held.
func (c *cell) withdrawn(s withdrawal) {
	c.Helper()
	var annotations map[string]any
	if s.id != "" {
		annotations = map[string]any{api.AnnotationRolloutID: s.id}
	}
	apply := templatePatch("app:2", annotations)
	c.adopted()
	c.allow("app:2", 1)
	if err := c.patch(c.col.resource, "app", apply); err != nil {
		c.Fatal(err)
	}
	if s.completed {
		c.finish("app:2", 1)
		c.settled("app:2")
	} else {
		c.climb(2)
		c.await("paused at step 2", pausedAt(2, 1))
	}
	report := c.reports(func(r api.FleetReport) bool {
		return len(r.Template.Keys()) > 0 && r.Epoch > 0 && r.Template.Revision != ""
	})
	applied := c.everySecond(apply)
	if err := c.w.Hub.Give(c.Context(), c.name(), api.FleetPermit{Verb: api.FleetVerbWithdraw, Version: report.Template.Keys()[0]}); err != nil {
		c.Fatal(err)
	}
	c.reports(func(r api.FleetReport) bool { return r.Epoch == report.Epoch+1 && r.State == api.FleetReportCompleted })
	if pods := c.seen.running("app:2"); len(pods) > 0 {
		c.Errorf("the withdrawal is answered, and pods run app:2: %v", pods)
	}
	applied(2)
	c.staysHeld()
	c.back()
	c.identifyNone()
	c.rests(end{phase: api.PhaseHealthy, image: "app:1"})
}

// staysHeld waits until the version that a tool applies is held, and no pod runs it.
func (c *cell) staysHeld() {
	c.Helper()
	c.seen.allow("app:2", limit{})
	c.object(c.col.resource, "app", "the version of the tool, held", func(u *unstructured.Unstructured) bool {
		_, held := u.GetAnnotations()[api.AnnotationInProgressing]
		return held && templateImage(u) == "app:2"
	})
	c.await("to hold it", func(r *api.Rollout) bool {
		return r.Status.Sluice.State == string(rollout.StateInitializing) || r.Status.Sluice.State == string(rollout.StateAborted)
	})
	c.quietly()
	c.runsStableOnly()
}

func (c *cell) runsStableOnly() {
	c.Helper()
	c.seen.await(c, "pods of app:1 only", func(pods map[string][]string) bool { return len(pods) == 1 && len(pods["app:1"]) == c.replicas })
}

// TestLocalFailure plays a governed release that a user of the cluster aborts, on every strategy and workload, while a GitOps tool applies the version every second. The
// permit is used up, so the version begins again only after the hub has given a newer one.
func TestLocalFailure(t *testing.T) {
	for _, col := range columns() {
		if col.governed {
			continue
		}
		t.Run(col.name, func(t *testing.T) {
			t.Parallel()
			skipWithoutHub(t, governed(col))
			newCell(t, governed(col)).abortedUnderATool()
		})
	}
}

func (c *cell) abortedUnderATool() {
	c.Helper()
	apply := templatePatch("app:2", nil)
	c.adopted()
	c.allow("app:2", 1)
	if err := c.patch(c.col.resource, "app", apply); err != nil {
		c.Fatal(err)
	}
	c.climb(2)
	c.await("paused at step 2", pausedAt(2, 1))
	c.w.Hub.PermitNone(c.name())
	applied := c.everySecond(apply)
	c.command(api.CommandAbort)
	c.reports(func(r api.FleetReport) bool { return r.State == api.FleetReportFailed })
	c.runsStableOnly() // before that, StateAborted may be a state on the way back
	c.staysHeld()
	applied(2) // after its last request, the way back may still restore app:1, and nothing would be held
	c.allow("app:2", 1)
	c.w.Hub.PermitAll(c.name())
	if err := c.w.Hub.Give(c.Context(), c.name(), api.FleetPermit{Verb: api.FleetVerbRelease, LocalPauses: api.FleetLocalPausesKeep}); err != nil {
		c.Fatal(err)
	}
	c.await("paused at step 1 again", func(r *api.Rollout) bool {
		return r.Status.CurrentStepIndex == 1 && r.Status.CurrentStepState == api.StepPaused
	})
	c.finish("app:2", c.rollout(c.get(api.RolloutResource(), "app")).Status.Sluice.Epoch)
	c.rests(end{phase: api.PhaseHealthy, image: "app:2"})
}

func (c *cell) name() types.NamespacedName { return types.NamespacedName{Namespace: c.ns, Name: "app"} }

// identifyNone takes the rollout-id off the workload.
func (c *cell) identifyNone() {
	c.Helper()
	if err := c.patch(c.col.resource, "app", `{"metadata":{"annotations":{"`+api.AnnotationRolloutID+`":null}}}`); err != nil {
		c.Fatal(err)
	}
}

// reports waits for a report of the executors to the hub.
func (c *cell) reports(reached func(api.FleetReport) bool) api.FleetReport {
	c.Helper()
	r, err := c.w.Hub.Await(c.bound, c.name(), reached)
	if err != nil {
		c.Fatalf("%v; the Rollout is\n%s", err, c.shown(api.RolloutResource(), "app"))
	}
	return r
}

// TestLeavingAFleet plays a release whose owner takes its Rollout out of the fleet. The workload gets its stable version back.
func TestLeavingAFleet(t *testing.T) {
	for _, col := range columns() {
		if !col.governed {
			continue
		}
		for _, m := range []moment{initializing(), upgrading(1), paused(2), stopped()} {
			t.Run(m.name+"/"+col.name, func(t *testing.T) {
				t.Parallel()
				skipWithoutHub(t, col)
				c := newCell(t, col)
				c.adopted()
				m.reach(c)
				c.spec(`{"fleet":null}`)
				c.await("to belong to no fleet", func(r *api.Rollout) bool { return r.Status.Fleet == nil })
				c.unblock(m)
				c.rests(end{phase: api.PhaseHealthy, image: "app:1"})
			})
		}
	}
}
