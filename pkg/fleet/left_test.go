package fleet

import (
	"testing"
	"time"

	"sluice.dev/sluice/pkg/api"
)

// A Rollout that is deleted under its permit, and created again, would begin a second time by that permit. So the hub takes the permit back, and gives another one.
func TestARolloutThatComesBackGetsAnotherPermit(t *testing.T) {
	t.Parallel()
	for _, gone := range []api.FleetReportState{api.FleetReportAbsent, api.FleetReportUngoverned} {
		g := aFleet(t, 1, everyone()).plan()
		first := g.Targets["c0"].Permit
		before := g.Reports["c0"]
		g.report("c0", api.FleetReport{State: gone}).plan()
		taken := g.Targets["c0"].Permit
		if taken.Verb != api.FleetVerbAbort || !first.Number().Before(taken.Number()) {
			t.Fatalf("%s: the permit is %+v, want it taken back", gone, taken)
		}
		if failure := g.Targets["c0"].Status.Failure; failure != "" {
			t.Errorf("%s: the cluster has failed: %s", gone, failure)
		}
		before.Epoch, before.Seq, before.State = taken.Epoch, taken.Seq, api.FleetReportCompleted
		g.report("c0", before).plan()
		if again := g.Targets["c0"].Permit; again.Verb != api.FleetVerbRelease || !taken.Number().Before(again.Number()) {
			t.Errorf("%s: the permit of the Rollout that came back is %+v", gone, again)
		}
	}
	for _, completed := range []bool{false, true} {
		g := aFleet(t, 1, everyone())
		r := g.Reports["c0"]
		r.RolloutUID = "first"
		g.report("c0", r).plan()
		first := g.Targets["c0"].Permit
		if first.RolloutUID != "first" {
			t.Fatalf("the permit is for the Rollout %q", first.RolloutUID)
		}
		if completed {
			g.answer(api.FleetReportCompleted, "", "c0").plan()
		}
		r.RolloutUID, r.Epoch, r.Seq = "second", first.Epoch, first.Seq
		g.report("c0", r).plan()
		if verb := g.Targets["c0"].Permit.Verb; (verb == api.FleetVerbAbort) == completed {
			t.Errorf("a Rollout that was created again, completed before is %t: the permit says %s", completed, verb)
		}
	}
	g := aFleet(t, 1, everyone()).plan().answer(api.FleetReportCompleted, "", "c0").plan()
	g.report("c0", api.FleetReport{State: api.FleetReportAbsent}).plan()
	if verb := g.Targets["c0"].Permit.Verb; verb != api.FleetVerbRelease {
		t.Errorf("the cluster has completed before, and its permit says %s: a withdrawal must wait for it", verb)
	}
}

// A cluster that leaves during a release is shown until the end of the release, and not in the next one.
func TestAClusterThatHasLeftIsShownUntilTheReleaseEnds(t *testing.T) {
	t.Parallel()
	g := aFleet(t, 2, everyone()).plan().answer(api.FleetReportCompleted, "", "c0", "c1").plan()
	delete(g.Members, "c1")
	if n := g.plan().Status.Counts[api.FleetTargetLeft]; n != 1 {
		t.Errorf("%d clusters have left, want 1", n)
	}
	if n := g.after(time.Minute).version("v3").plan().Status.Counts[api.FleetTargetLeft]; n != 0 {
		t.Errorf("in the next release, %d clusters have left", n)
	}
}
