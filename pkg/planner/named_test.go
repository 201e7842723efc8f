package planner

import (
	"maps"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
)

// naming lets the first gateway object name a new object in the second step. The object does not exist yet, or exists since a time.
func (g *given) naming(since *time.Time) *given {
	r := &g.Routes[0]
	rendering := r.Steps[2]
	rendering.Applied, rendering.Accepted, rendering.ChildrenMissing = false, false, since == nil
	if since != nil {
		rendering.Since = *since
	}
	r.Shaped, r.HasChildren, r.Steps[2] = false, since != nil, rendering
	return g
}

func TestWhatARouteNamesIsWaitedFor(t *testing.T) {
	second := func() *given {
		return aRelease().AtStep(2).In(rollout.StateTrafficRouting).With(func(g *given) { g.Status.Sluice.RouteDigest = "" })
	}
	ago := func(g *given, d time.Duration) *time.Time { at := g.now.Add(-d); return &at }
	name := second().Routes[0].Object.String()

	g := second().naming(nil)
	d := Plan(g.Seen, g.now)
	if diff := cmp.Diff([]string{"create the objects that step 2 of " + name + " references"}, g.outcome().Actions); diff != "" || !d.CommitFirst {
		t.Errorf("before it is there, commit first is %t (-want +got):\n%s", d.CommitFirst, diff)
	}

	g = second()
	g.naming(ago(g, time.Second))
	d = Plan(g.Seen, g.now)
	if len(d.Actions) > 0 || !d.WakeAt.Equal(g.now.Add(2*time.Second)) || d.Status.Message != "waiting for the gateway to know the objects created for "+name {
		t.Errorf("a second after it was made %v, to wake at %s: %s", d.Actions, d.WakeAt, d.Status.Message)
	}

	g = second()
	g.naming(ago(g, 3*time.Second))
	if diff := cmp.Diff([]string{"route step 2 on " + name}, g.outcome().Actions); diff != "" {
		t.Errorf("when the gateway knows it (-want +got):\n%s", diff)
	}

	g = second()
	g.naming(ago(g, 0))
	g.Spec.Routing[0].Grace = 0
	if diff := cmp.Diff([]string{"route step 2 on " + name}, g.outcome().Actions); diff != "" {
		t.Errorf("without a grace period (-want +got):\n%s", diff)
	}
}

// The copy of a policy that one route needs also serves the requests of another route.
func TestNoRouteIsWrittenBeforeWhatAnEarlierOneNeedsIsKnown(t *testing.T) {
	second := func() *given {
		return aRelease().AtStep(2).In(rollout.StateTrafficRouting).With(func(g *given) {
			g.Status.Sluice.RouteDigest = ""
			other := g.Routes[0]
			other.Object.Name, other.Steps, other.Shaped = "other", maps.Clone(other.Steps), false
			r := other.Steps[2]
			r.Applied, r.Accepted = false, false
			other.Steps[2] = r
			g.Routes = append(g.Routes, other)
			g.Spec.Routing[0].Objects = append(g.Spec.Routing[0].Objects, other.Object)
		})
	}
	g := second().naming(nil)
	first := g.Routes[0].Object.String()
	if diff := cmp.Diff([]string{"create the objects that step 2 of " + first + " references"}, g.outcome().Actions); diff != "" {
		t.Errorf("before it is there (-want +got):\n%s", diff)
	}
	now := second().now
	if got := second().naming(&now).outcome().Actions; len(got) > 0 {
		t.Errorf("before the gateway knows it: %v", got)
	}
	long := now.Add(-time.Minute)
	want := []string{"route step 2 on " + first, "route step 2 on " + g.Routes[1].Object.String()}
	if diff := cmp.Diff(want, second().naming(&long).outcome().Actions); diff != "" {
		t.Errorf("once it does (-want +got):\n%s", diff)
	}
}

// After every kind of end, the objects of a route go one grace period after the route was restored, and before the canary Service.
func TestWhatARouteNamedGoesAGracePeriodAfterIt(t *testing.T) {
	for reason, given := range map[api.FinaliseReason]*given{
		api.FinaliseSuccess:    aRelease().AtStep(3).Finalising(api.FinaliseSuccess),
		api.FinaliseRollback:   aRelease().AtStep(3).RolledBack().Finalising(api.FinaliseRollback),
		api.FinaliseDisabled:   aRelease().AtStep(3).Disabled().Finalising(api.FinaliseDisabled),
		api.FinaliseDeleting:   aRelease().AtStep(3).Deleted().Finalising(api.FinaliseDeleting),
		api.FinaliseContinuous: aRelease().AtStep(3).HeldAt("v3").Finalising(api.FinaliseContinuous),
	} {
		g := given
		g.Routes[0].HasChildren = true
		var restored, cleared, served time.Time
		for range 60 {
			d := Plan(g.Seen, g.now)
			same := sameStatus(&g.Status, &d.Status)
			g.Status = d.Status
			for _, a := range d.Actions {
				switch a.(type) {
				case rollout.RestoreRoute:
					restored = g.now
				case rollout.ClearRoute:
					cleared = g.now
				case rollout.DeleteCanaryService:
					served = g.now
				}
				g.take(a)
			}
			if len(d.Actions) == 0 && same {
				if d.WakeAt.IsZero() {
					break
				}
				g.now = d.WakeAt
			}
			if !served.IsZero() {
				break
			}
		}
		if cleared.Sub(restored) < 3*time.Second || restored.IsZero() || served.Before(cleared) || g.Routes[0].HasChildren {
			t.Errorf("%s: restored at %s, cleared at %s, the Service went at %s", reason, restored.Format("05.000"), cleared.Format("05.000"), served.Format("05.000"))
		}
	}
}
