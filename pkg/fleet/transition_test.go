package fleet

import (
	"strings"
	"testing"

	"sluice.dev/sluice/pkg/api"
)

// A program that follows a release learns that another version has taken its place. What happens in each release has its number and its version.
func TestTransitionsBelongToTheirReleases(t *testing.T) {
	t.Parallel()
	g := aFleet(t, 2, everyone()).plan()
	first := g.Status.Epoch
	g.Release = api.FleetRelease{Version: "v3"}
	g.plan()
	seen := map[string]api.FleetTransition{}
	for _, tr := range g.Status.Transitions {
		seen[tr.To+" "+strings.TrimPrefix(tr.Version, "version/")] = tr
	}
	for what, epoch := range map[string]int64{"Begun v2": first, "Superseded v2": first, "Begun v3": g.Status.Epoch} {
		if tr := seen[what]; tr.Epoch != epoch || tr.Began != epoch {
			t.Errorf("%s is in epoch %d, began in %d, want %d; there are %v", what, tr.Epoch, tr.Began, epoch, seen)
		}
	}
	if g.Status.Epoch <= first {
		t.Errorf("the epoch is %d after %d", g.Status.Epoch, first)
	}
}

// A release that has succeeded is not superseded by the next one.
func TestARestingReleaseIsNotSuperseded(t *testing.T) {
	t.Parallel()
	g := aFleet(t, 1, everyone()).plan()
	g.answer(api.FleetReportCompleted, "", memberName(0)).plan()
	if g.Status.Phase != api.FleetPhaseSucceeded {
		t.Fatalf("the release is %s", g.summary())
	}
	g.Release = api.FleetRelease{Version: "v3"}
	g.plan()
	for _, tr := range g.Status.Transitions {
		if tr.To == "Superseded" {
			t.Errorf("there is the transition %+v", tr)
		}
	}
}

// A cluster keeps its state when a new release begins. The hub publishes an event about that state again, for the new release.
func TestAStateBelongsToItsRelease(t *testing.T) {
	t.Parallel()
	g := aFleet(t, 1, everyone()).plan()
	target := g.Targets[memberName(0)]
	if target.Status.Began != g.Status.Began || g.Status.Began == 0 {
		t.Errorf("the state belongs to release %d, want %d", target.Status.Began, g.Status.Began)
	}
}
