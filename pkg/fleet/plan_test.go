package fleet

import (
	gocmp "cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"sluice.dev/sluice/pkg/api"
)

func TestDecisions(t *testing.T) {
	t.Parallel()
	canary := func() api.FleetWave { return api.FleetWave{MaxConcurrency: number(1), Percent: 33, Soak: minutes(10)} }
	c2, all := "c2", []string{"c0", "c1", "c2"}
	for name, c := range map[string]struct {
		g    *given
		want string
	}{
		"the first wave gets the first permit": {aFleet(t, 3, canary(), everyone()).plan(), "Progressing Wave; c1 Permitted"},
		"a cluster that is healthy already is no proof": {
			aFleet(t, 3, everyone()).report(c2, api.FleetReport{State: api.FleetReportIdle, Stable: api.FleetVersion{Version: "v2", Revision: "h2"}}).plan(),
			"Progressing Wave; c0 Permitted, c1 Permitted, c2 Permitted",
		},
		"a change that the version does not show is no delivery": {
			aFleet(t, 1, everyone()).report("c0", api.FleetReport{State: api.FleetReportHeld, Template: api.FleetVersion{Version: "v2", Revision: "h9"},
				Stable: api.FleetVersion{Version: "v2", Revision: "h2"}}).plan(),
			"Waiting Delivery; ",
		},
		"a completed cluster soaks before the next wave": {
			aFleet(t, 3, canary(), everyone()).plan().answer(api.FleetReportCompleted, "", "c1").plan(),
			"Soaking Soak; c1 Soaking",
		},
		"the time in which a cluster is silent is no soak": {
			aFleet(t, 3, canary(), everyone()).plan().answer(api.FleetReportCompleted, "", "c1").plan().after(time.Minute).silence("c1").after(11 * time.Minute).plan("c1"),
			"Soaking Soak; c1 Soaking Unreachable",
		},
		"after the soak the next wave begins": {
			aFleet(t, 3, canary(), everyone()).plan().answer(api.FleetReportCompleted, "", "c1").plan().after(10 * time.Minute).plan(),
			"Progressing Wave; c0 Permitted, c1 Completed, c2 Permitted",
		},
		"failed metrics take the version back everywhere": {
			aFleet(t, 3, everyone()).plan().answer(api.FleetReportCompleted, "", "c0").answer(api.FleetReportProgressing, "", "c1").answer(api.FleetReportFailed, api.FleetReasonMetrics, c2).plan(),
			"Withdrawing AnalysisFailed; c0 Progressing GoingBack, c1 Progressing GoingBack, c2 Progressing GoingBack",
		},
		"a withdrawn version is withdrawn when all have answered": {
			aFleet(t, 3, everyone()).plan().answer(api.FleetReportProgressing, "", all...).command(api.FleetCommand{Action: api.FleetCommandRollback}).plan().answer(api.FleetReportCompleted, "", all...).plan(),
			"Withdrawn RolledBack; c0 Withdrawn, c1 Withdrawn, c2 Withdrawn",
		},
		"an override before the wave uses the slot of the cluster": {
			aFleet(t, 2, api.FleetWave{MaxConcurrency: number(1)}).report("c0", api.FleetReport{State: api.FleetReportProgressing}).overridden("c0").plan(),
			"Progressing Wave; ",
		},
		"a failure of another kind pauses by the budget": {
			aFleet(t, 3, everyone()).plan().answer(api.FleetReportProgressing, "", "c0", "c1").answer(api.FleetReportFailed, "RolledBack", c2).plan(),
			"Paused BudgetExceeded; c0 Permitted, c1 Permitted, c2 Failed RolledBack",
		},
		"a retry takes a failed cluster out of the budget": {
			aFleet(t, 1, everyone()).plan().answer(api.FleetReportFailed, "RolledBack", "c0").plan().command(api.FleetCommand{Action: api.FleetCommandRetry, Clusters: []string{"c0"}}).plan(),
			"Progressing Wave; c0 Permitted",
		},
		"a skipped cluster goes back": {
			aFleet(t, 2, everyone()).plan().answer(api.FleetReportProgressing, "", "c0", "c1").command(api.FleetCommand{Action: api.FleetCommandSkip, Clusters: []string{"c0"}}).plan(),
			"Progressing Wave; c0 Skipped, c1 Progressing",
		},
		"a cluster that takes too long has failed": {
			aFleet(t, 1, everyone()).plan().answer(api.FleetReportProgressing, "", "c0").plan().after(time.Hour).plan(),
			"Paused BudgetExceeded; c0 Failed ProgressDeadlineExceeded",
		},
		"the deadline stands still while a person of the cluster is asked": {
			aFleet(t, 1, everyone()).plan().report("c0", api.FleetReport{Epoch: 1, Seq: 1, State: api.FleetReportProgressing, AwaitsPerson: true}).plan().after(time.Hour).plan(),
			"Progressing Wave; c0 Progressing",
		},
		"a lost cluster under a permit is unknown": {
			aFleet(t, 3, everyone()).plan().silence("c0").after(time.Minute).plan("c0"),
			"Progressing Wave; c0 Unknown Unreachable, c1 Permitted, c2 Permitted",
		},
		"a silent cluster before its permit is deferred": {
			aFleet(t, 11, everyone()).silence("c0").after(2*time.Minute).plan("c0").answer(api.FleetReportCompleted, "", "c1", "c10", "c2", "c3", "c4", "c5", "c6", "c7", "c8", "c9").plan("c0"),
			"Succeeded Completed; c1 Completed, c10 Completed, c2 Completed, c3 Completed, c4 Completed, c5 Completed, c6 Completed, c7 Completed, c8 Completed, c9 Completed",
		},
		"a wave in which all are deferred proves nothing": {
			aFleet(t, 1, api.FleetWave{Budgets: &api.FleetBudgets{Unreachable: number(1)}}).silence("c0").after(2 * time.Minute).plan("c0"),
			"Stalled NothingProven; ",
		},
		"more than half of the members are lost at once": {
			aFleet(t, 3, everyone()).plan().silence("c0", "c1").after(40*time.Second).plan("c0", "c1"),
			"Stalled HubCutOff; c0 Unknown Unreachable, c1 Unknown Unreachable, c2 Permitted",
		},
		"a version without a delivery waits": {
			aFleet(t, 1, everyone()).report("c0", api.FleetReport{State: api.FleetReportIdle, Template: api.FleetVersion{Version: "v1", Revision: "h1"}}).plan(),
			"Waiting Delivery; ",
		},
		"a version that does not arrive in time is deferred": {
			aFleet(t, 1, everyone()).report("c0", api.FleetReport{State: api.FleetReportIdle, Template: api.FleetVersion{Version: "v1", Revision: "h1"}}).plan().after(time.Hour).plan(),
			"Stalled NothingProven; ",
		},
		"a hub that forgot permits gives none": {
			func() *given {
				g := aFleet(t, 1, everyone()).plan().report("c0", api.FleetReport{Epoch: 9, Seq: 3, State: api.FleetReportProgressing})
				return g.plan()
			}(),
			"Stalled HubRestored; c0 Permitted",
		},
		"a cluster that no plan selects cannot stop a release": {
			func() *given {
				g := aFleet(t, 1, everyone())
				g.Spec.Clusters = labels.SelectorFromSet(labels.Set{"n": "0"})
				g.Spec.Written.Clusters = metav1.LabelSelector{MatchLabels: map[string]string{"n": "0"}}
				g.Members["c1"] = Member{Labels: labels.Set{"n": "1"}}
				return g.report("c1", api.FleetReport{Epoch: g.now.Unix() + 9, Seq: 3, State: api.FleetReportProgressing, Blocked: []api.FleetBlock{{Version: "version/v2", Epoch: g.now.Unix()}}}).plan()
			}(),
			"Progressing Wave; c0 Permitted",
		},
		"a person lets a hub that forgot permits go on": {
			aFleet(t, 1, everyone()).plan().report("c0", api.FleetReport{Epoch: 9, Seq: 3, State: api.FleetReportProgressing}).plan().
				command(api.FleetCommand{Action: api.FleetCommandResume}).plan().answer(api.FleetReportCompleted, "", "c0").plan(),
			"Succeeded Completed; c0 Completed",
		},
		"a rejection pauses the release": {
			aFleet(t, 1, api.FleetWave{HoldAt: &api.FleetHoldAt{Step: 1, Pause: &api.Pause{}}}).plan().answer(api.FleetReportAtHold, "", "c0").plan().
				command(api.FleetCommand{Action: api.FleetCommandReject}).plan(),
			"Paused Rejected; c0 AtHold",
		},
		"an approval lets the wave go on": {
			aFleet(t, 1, api.FleetWave{HoldAt: &api.FleetHoldAt{Step: 1, Pause: &api.Pause{}}}).plan().answer(api.FleetReportAtHold, "", "c0").plan().
				command(api.FleetCommand{Action: api.FleetCommandApprove}).plan(),
			"Progressing Wave; c0 Permitted",
		},
		"an approval of an older pause counts for nothing": {
			aFleet(t, 1, api.FleetWave{HoldAt: &api.FleetHoldAt{Step: 1, Pause: &api.Pause{}}}).plan().answer(api.FleetReportAtHold, "", "c0").plan().
				command(api.FleetCommand{Action: api.FleetCommandApprove, PauseSeq: 7}).plan(),
			"Waiting Approval; c0 AtHold",
		},
		"a newer version takes clusters under way back first": {
			func() *given {
				g := aFleet(t, 2, everyone()).plan().answer(api.FleetReportProgressing, "", "c0").answer(api.FleetReportCompleted, "", "c1").plan()
				g.Release = api.FleetRelease{Version: "v3"}
				return g.plan()
			}(),
			"Progressing Wave; c0 Progressing GoingBack, c1 AwaitingDelivery",
		},
		"a blocked version that is named again gets no permit": {
			func() *given {
				g := aFleet(t, 1, everyone()).plan().command(api.FleetCommand{Action: api.FleetCommandRollback}).plan()
				g.Release = api.FleetRelease{Version: "v3"}
				g.plan().Release = api.FleetRelease{Version: "v2"}
				return g.plan()
			}(),
			"Stalled Blocked; c0 Pending GoingBack",
		},
		"an unblocked version is released again": {
			aFleet(t, 1, everyone()).plan().command(api.FleetCommand{Action: api.FleetCommandRollback}).plan().answer(api.FleetReportCompleted, "", "c0").plan().
				command(api.FleetCommand{Action: api.FleetCommandUnblock, Version: "version/v2"}).plan(),
			"Progressing Wave; c0 Permitted",
		},
		"an aborted release keeps what has completed": {
			aFleet(t, 2, everyone()).plan().answer(api.FleetReportCompleted, "", "c0").answer(api.FleetReportProgressing, "", "c1").plan().command(api.FleetCommand{Action: api.FleetCommandAbort}).plan(),
			"Aborted Aborted; c0 Completed, c1 Progressing GoingBack",
		},
		"a cluster that left does not count": {
			func() *given {
				g := aFleet(t, 2, everyone()).plan().answer(api.FleetReportCompleted, "", "c1")
				delete(g.Members, "c0")
				return g.plan()
			}(),
			"Succeeded Completed; c0 Left, c1 Completed",
		},
		"a cluster that joins goes into the wave under way": {
			func() *given {
				g := aFleet(t, 1, everyone()).plan()
				g.Members["c1"] = Member{}
				return g.report("c1", api.FleetReport{State: api.FleetReportHeld}).plan()
			}(),
			"Progressing Wave; c0 Permitted, c1 Permitted",
		},
		"steps that were changed in a cluster wait for a retry": {
			aFleet(t, 1, everyone()).plan().answer(api.FleetReportAtHold, api.FleetReasonPlanChanged, "c0").plan().after(time.Minute).plan(),
			"Progressing Wave; c0 Progressing PlanChanged",
		},
		"a retry permits the changed steps": {
			aFleet(t, 1, everyone()).plan().answer(api.FleetReportAtHold, api.FleetReasonPlanChanged, "c0").plan().
				command(api.FleetCommand{Action: api.FleetCommandRetry, Clusters: []string{"c0"}}).plan(),
			"Progressing Wave; c0 Permitted",
		},
		"a first install gets its permit by its wave": {
			aFleet(t, 1, everyone()).report("c0", api.FleetReport{State: api.FleetReportIdle, Unpermitted: api.FleetUnpermittedFirstInstall,
				Stable: api.FleetVersion{Version: "v2", Revision: "h2"}}).plan(),
			"Progressing Wave; c0 Permitted",
		},
		"a version that runs without a permit has failed": {
			aFleet(t, 1, everyone()).report("c0", api.FleetReport{State: api.FleetReportIdle, Unpermitted: api.FleetUnpermittedNotHeld,
				Stable: api.FleetVersion{Version: "v2", Revision: "h2"}}).plan(),
			"Paused BudgetExceeded; ",
		},
		"a withdrawal goes on without a valid plan": {
			func() *given {
				g := aFleet(t, 2, everyone()).plan().answer(api.FleetReportCompleted, "", "c0", "c1").command(api.FleetCommand{Action: api.FleetCommandRollback}).plan()
				g.Status.Plan = &api.FleetStrategy{}
				return g.answer(api.FleetReportCompleted, "", "c0", "c1").plan()
			}(),
			"Withdrawn RolledBack; c0 Withdrawn, c1 Withdrawn",
		},
		"a cluster that could not go back gets no permit": {
			func() *given {
				g := aFleet(t, 1, api.FleetWave{Budgets: &api.FleetBudgets{Failed: number(1)}})
				r := g.Reports["c0"]
				r.CanGoBack = false
				g.Reports["c0"] = r
				return g.plan()
			}(),
			"Stalled NothingProven; ",
		},
		"a cluster that runs another version than its permit has diverged": {
			func() *given {
				g := aFleet(t, 1, everyone()).plan()
				p := g.Targets["c0"].Permit
				return g.report("c0", api.FleetReport{Epoch: p.Epoch, Seq: p.Seq, State: api.FleetReportHeld, Template: api.FleetVersion{Version: "v9", Revision: "h9"}}).plan()
			}(),
			"Paused BudgetExceeded; c0 Diverged",
		},
		"a member cannot unblock a version": {
			aFleet(t, 1, everyone()).plan().command(api.FleetCommand{Action: api.FleetCommandRollback}).plan().answer(api.FleetReportCompleted, "", "c0").
				claims(api.FleetBlock{Version: "version/v2", Epoch: 500, Unblocked: true}).plan(),
			"Withdrawn RolledBack; c0 Withdrawn",
		},
		"a version that was withdrawn by its images gets no permit by its name": {
			func() *given {
				g := aFleet(t, 1, everyone()).claims(api.FleetBlock{Version: "images/sha256:2", Epoch: 1})
				r := g.Reports["c0"]
				r.Template.Images = "sha256:2"
				g.Reports["c0"] = r
				return g.plan()
			}(),
			"Waiting Delivery; ",
		},
		"a retry of a cluster that has not failed hides no later failure": {
			aFleet(t, 1, everyone()).plan().answer(api.FleetReportProgressing, "", "c0").command(api.FleetCommand{Action: api.FleetCommandRetry, Clusters: []string{"c0"}}).plan().
				answer(api.FleetReportFailed, api.FleetReasonMetrics, "c0").plan(),
			"Withdrawing AnalysisFailed; c0 Progressing GoingBack",
		},
		"a completed cluster must run the template of its permit": {
			func() *given {
				g := aFleet(t, 1, everyone()).plan().answer(api.FleetReportCompleted, "", "c0")
				r := g.Reports["c0"]
				r.Stable = api.FleetVersion{Version: "v1", Revision: "h1"}
				g.Reports["c0"] = r
				return g.plan()
			}(),
			"Progressing Wave; c0 Permitted",
		},
		"a cluster that is unhealthy long after the success does not count": {
			func() *given {
				g := aFleet(t, 1, everyone()).plan().answer(api.FleetReportCompleted, "", "c0").plan().after(1000 * time.Hour)
				r := g.Reports["c0"]
				r.Unhealthy = true
				g.Reports["c0"] = r
				return g.plan()
			}(),
			"Succeeded Completed; c0 Completed Unhealthy",
		},
		"a cluster that joins late waits for its delivery": {
			func() *given {
				g := aFleet(t, 1, api.FleetWave{MaxConcurrency: number(5), Soak: minutes(120)}).plan().answer(api.FleetReportCompleted, "", "c0").plan().after(61 * time.Minute)
				g.Members["c1"] = Member{}
				return g.report("c1", api.FleetReport{State: api.FleetReportIdle, Template: api.FleetVersion{Version: "v1", Revision: "h1"}}).plan()
			}(),
			"Waiting Delivery; c0 Soaking",
		},
		"the deadline stands still in a pause": {
			aFleet(t, 1, everyone()).plan().answer(api.FleetReportProgressing, "", "c0").command(api.FleetCommand{Action: api.FleetCommandPause}).plan().after(2 * time.Hour).plan(),
			"Paused Paused; c0 Permitted",
		},
		"a version without a plan keeps no cluster from going back": {
			func() *given {
				g := aFleet(t, 1, everyone()).plan().answer(api.FleetReportProgressing, "", "c0").plan()
				g.Release, g.SpecProblem = api.FleetRelease{Version: "v3"}, "The FleetPlan does not exist; create it"
				return g.plan().command(api.FleetCommand{Action: api.FleetCommandRollback}).plan()
			}(),
			"Withdrawing RolledBack; c0 Progressing GoingBack",
		},
		"a newer version does not end a withdrawal": {
			func() *given {
				g := aFleet(t, 1, everyone()).plan().answer(api.FleetReportCompleted, "", "c0").plan()
				g.command(api.FleetCommand{Action: api.FleetCommandRollback})
				g.Release = api.FleetRelease{Version: "v3"}
				return g.plan()
			}(),
			"Progressing Wave; c0 Progressing GoingBack",
		},
		"a cluster whose Rollout is gone is absent": {
			aFleet(t, 1, everyone()).plan().report("c0", api.FleetReport{State: api.FleetReportAbsent}).plan(),
			"Stalled NothingProven; c0 Absent",
		},
		"a cluster that sets the images needs no delivery": {
			func() *given {
				g := aFleet(t, 2, everyone())
				g.Delivery, g.Release.Images = DeliveryPatch, map[string]string{"app": "app:2"}
				old := api.FleetVersion{Version: "v1", Revision: "h1", Images: "sha256:1"}
				g.report("c0", api.FleetReport{State: api.FleetReportIdle, Template: old, Stable: old})
				return g.report("c1", api.FleetReport{State: api.FleetReportIdle, Reason: "WorkloadMissing", Template: api.FleetVersion{Version: "none"}, Stable: old}).plan()
			}(),
			"Progressing Wave; c0 Permitted",
		},
		"a cluster that turns unhealthy in a later wave counts as failed": {
			aFleet(t, 2, api.FleetWave{Percent: 50}, everyone()).plan().answer(api.FleetReportCompleted, "", "c1").plan().ill(true, "c1").plan(),
			"Paused BudgetExceeded; c0 Permitted, c1 Completed Unhealthy",
		},
		"failures within each wave may be too many for the release": {
			aFleet(t, 4, api.FleetWave{Percent: 50, MaxConcurrency: number(9), Budgets: &api.FleetBudgets{Failed: number(1)}}, api.FleetWave{MaxConcurrency: number(9), Budgets: &api.FleetBudgets{Failed: number(1)}}).
				with(func(g *given) { g.Spec.Written.MaxFailed, g.Spec.MaxFailed = new(int32(1)), 1 }).plan().
				answer(api.FleetReportFailed, "RolledBack", "c3").answer(api.FleetReportCompleted, "", "c1").plan().answer(api.FleetReportFailed, "RolledBack", "c2").plan(),
			"Paused BudgetExceeded; c0 Permitted, c1 Completed, c2 Failed RolledBack, c3 Failed RolledBack",
		},
		"a rejection takes the version back if the plan says so": {
			aFleet(t, 1, api.FleetWave{Pause: &api.Pause{}}).with(func(g *given) {
				g.Spec.Written.OnFailure, g.Spec.OnRejection = &api.FleetOnFailure{Rejection: api.FleetFailureWithdraw}, api.FleetFailureWithdraw
			}).plan().answer(api.FleetReportCompleted, "", "c0").plan().command(api.FleetCommand{Action: api.FleetCommandReject}).plan(),
			"Withdrawing Rejected; c0 Progressing GoingBack",
		},
		"failed metrics pause the release if the plan says so": {
			aFleet(t, 2, everyone()).with(func(g *given) {
				g.Spec.Written.OnFailure, g.Spec.OnMetrics = &api.FleetOnFailure{Metrics: api.FleetFailurePause}, api.FleetFailurePause
			}).plan().answer(api.FleetReportFailed, api.FleetReasonMetrics, "c0").plan(),
			"Paused AnalysisFailed; c0 Failed AnalysisFailed, c1 Permitted",
		},
		"a cluster that cannot go back gets no permit": {
			aFleet(t, 2, everyone()).amend(cannotGoBack, "c0").plan(), "Paused BudgetExceeded; c1 Permitted",
		},
		"a cluster that cannot go back gets a permit if the plan allows it": {
			aFleet(t, 2, everyone()).amend(cannotGoBack, "c0").with(func(g *given) {
				g.Spec.Written.AllowNoWayBack, g.Spec.AllowNoWayBack = true, true
			}).plan(), "Progressing Wave; c0 Permitted, c1 Permitted",
		},
		"a cordoned cluster gets no permit, and uses no budget": {
			aFleet(t, 2, api.FleetWave{MaxConcurrency: number(9), Budgets: &api.FleetBudgets{Unreachable: number(0)}}).
				with(func(g *given) { g.Members["c0"] = Member{Cordoned: true} }).plan().answer(api.FleetReportCompleted, "", "c1").plan(),
			"Succeeded Completed; c1 Completed",
		},
		"a cluster that is no longer cordoned follows": {
			aFleet(t, 2, everyone()).with(func(g *given) { g.Members["c0"] = Member{Cordoned: true} }).plan().answer(api.FleetReportCompleted, "", "c1").plan().
				with(func(g *given) { g.Members["c0"] = Member{} }).plan(),
			"Succeeded Completed; c0 Permitted, c1 Completed",
		},
		"a person's pause outlasts a new version": {
			aFleet(t, 1, everyone()).plan().answer(api.FleetReportCompleted, "", "c0").command(api.FleetCommand{Action: api.FleetCommandPause}).plan().version("v3").plan().
				report("c0", api.FleetReport{Epoch: 1, Seq: 1, State: api.FleetReportCompleted, Template: api.FleetVersion{Version: "v3", Revision: "h3"}, Stable: api.FleetVersion{Version: "v2", Revision: "h2"}}).plan(),
			"Paused Paused; c0 Pending Eligible",
		},
		"a pause in the spec gives a version more time to arrive": {
			aFleet(t, 1, everyone()).with(func(g *given) { g.Paused = true }).report("c0", api.FleetReport{State: api.FleetReportIdle, Template: api.FleetVersion{Version: "v1", Revision: "h1"}}).
				plan().after(2 * time.Hour).plan().with(func(g *given) { g.Paused = false }).plan().after(59 * time.Minute).plan(),
			"Waiting Delivery; ",
		},
		"a paused release holds its clusters": {
			aFleet(t, 1, everyone()).plan().answer(api.FleetReportProgressing, "", "c0").command(api.FleetCommand{Action: api.FleetCommandPause}).plan(),
			"Paused Paused; c0 Permitted",
		},
		"a resumed release gives the permit again": {
			aFleet(t, 1, everyone()).plan().answer(api.FleetReportProgressing, "", "c0").command(api.FleetCommand{Action: api.FleetCommandPause}).plan().
				answer(api.FleetReportAtHold, "", "c0").command(api.FleetCommand{Action: api.FleetCommandResume}).plan(),
			"Progressing Wave; c0 Permitted",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(c.want, c.g.summary()); diff != "" {
				t.Errorf("(-want +got):\n%s\n%s", diff, c.g.Status.Message)
			}
		})
	}
}

// After a withdrawal each cluster is back at its own version before, which may differ.
func TestAMixedFleetIsNamed(t *testing.T) {
	t.Parallel()
	back := func(stable string) string {
		g := aFleet(t, 2, everyone()).plan().command(api.FleetCommand{Action: api.FleetCommandRollback}).plan().answer(api.FleetReportCompleted, "", "c0", "c1")
		return g.amend(func(r *api.FleetReport) { r.Stable = api.FleetVersion{Version: stable, Revision: "h9"} }, "c1").plan().Status.Message
	}
	const text = "; the clusters run different versions now: v0 (c1), v1 (c0); release another version"
	if message := back("v0"); !strings.Contains(message, text) {
		t.Errorf("the message is %q, want it to say %q", message, text)
	}
	if message := back("v1"); strings.Contains(message, "different") {
		t.Errorf("all run one version, and the message is %q", message)
	}
}

func TestAPermitNamesTheTemplateAndTheEnd(t *testing.T) {
	t.Parallel()
	g := aFleet(t, 1, api.FleetWave{HoldAt: &api.FleetHoldAt{Step: 2, Pause: &api.Pause{}}})
	g.Members["c0"] = Member{NoTraffic: true}
	r := g.Reports["c0"]
	r.PlanHash = "p1"
	g.Reports["c0"] = r
	end := metav1.NewMicroTime(start.Add(45 * time.Minute))
	want := api.FleetPermit{Epoch: 1, Seq: 1, Verb: api.FleetVerbRelease, Version: "version/v2", Revision: "h2", HoldAt: 2, PlanHash: "p1", NotAfter: &end, NoTraffic: true, Clusters: 1, Wave: "w1"}
	got := g.plan().Targets["c0"].Permit
	want.Epoch = g.Status.Epoch
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the permit (-want +got):\n%s", diff)
	}
	if later := g.answer(api.FleetReportProgressing, "", "c0").plan().after(25 * time.Minute).plan().Targets["c0"].Permit; !later.NotAfter.Equal(&end) {
		t.Errorf("a cluster under way gets more time: %+v", later)
	}
	if later := g.answer(api.FleetReportAtHold, "", "c0").plan().after(30 * time.Minute).plan().Targets["c0"].Permit; later.Seq != 1 || !later.NotAfter.Time.Equal(g.now.Add(20*time.Minute)) {
		t.Errorf("at the hold it gets no new time: %+v", later)
	}
}

// Clusters under way get a newer permit when a person passes over analyses. Clusters of later waves get theirs without.
func TestAPromotionPassesOverAnalyses(t *testing.T) {
	t.Parallel()
	g := aFleet(t, 2, api.FleetWave{Percent: 50}, everyone()).plan()
	first := g.drawn(t)
	before := g.Targets[first].Permit
	g.answer(api.FleetReportProgressing, "", first).command(api.FleetCommand{Action: api.FleetCommandPromote, SkipAnalyses: []string{"errors"}}).plan()
	after := g.Targets[first].Permit
	if !before.Number().Before(after.Number()) || !slices.Equal(after.SkipAnalyses, []string{"errors"}) || after.Verb != api.FleetVerbRelease {
		t.Errorf("the permit of the cluster under way is %+v", after)
	}
	g.answer(api.FleetReportCompleted, "", first).plan()
	for name, target := range g.Targets {
		if name != first && target.Permit.SkipAnalyses != nil {
			t.Errorf("%s of the next wave skips %v", name, target.Permit.SkipAnalyses)
		}
	}
	if len(g.Targets) != 2 {
		t.Errorf("%d clusters have permits, want 2", len(g.Targets))
	}
}

// drawn returns the cluster that has a permit.
func (g *given) drawn(t *testing.T) string {
	t.Helper()
	names := sortedNames(g.Targets)
	if len(names) != 1 {
		t.Fatalf("%v have permits, want one cluster", names)
	}
	return names[0]
}

// A cluster that answers Completed without the images of its permit has not carried it out.
func TestACompletionUnderImages(t *testing.T) {
	t.Parallel()
	g := aFleet(t, 1, everyone())
	g.Delivery, g.Release.Images = DeliveryPatch, map[string]string{"app": "app:2"}
	old := api.FleetVersion{Version: "v1", Revision: "h1", Images: "sha256:1"}
	g.report("c0", api.FleetReport{State: api.FleetReportIdle, Template: old, Stable: old}).plan()
	permit := g.Targets["c0"].Permit
	if permit.Revision != "" || permit.Images["app"] != "app:2" {
		t.Fatalf("the permit is %+v, want one with images and without a revision", permit)
	}
	runs := func(v api.FleetVersion) api.FleetReport {
		return api.FleetReport{Epoch: permit.Epoch, Seq: permit.Seq, State: api.FleetReportCompleted, Template: v, Stable: v}
	}
	if got, want := g.report("c0", runs(old)).plan().summary(), "Progressing Wave; c0 Permitted"; got != want {
		t.Errorf("with the old images it is %s, want %s", got, want)
	}
	now := api.FleetVersion{Version: "v2", Revision: "h2", Images: api.FleetImagesDigest(permit.Images)}
	if got, want := g.report("c0", runs(now)).plan().summary(), "Succeeded Completed; c0 Completed"; got != want {
		t.Errorf("with its images it is %s, want %s", got, want)
	}
}

func TestEpochsGrowOverAllThatIsKnown(t *testing.T) {
	t.Parallel()
	g := aFleet(t, 1, everyone()).report("c0", api.FleetReport{Epoch: 7, Seq: 2, State: api.FleetReportHeld}).plan()
	if g.Status.Epoch != 8 {
		t.Errorf("after a member that knows epoch 7 it is %d", g.Status.Epoch)
	}
	late := aFleet(t, 1, everyone())
	late.now = time.Date(2026, 11, 28, 0, 0, 0, 0, time.UTC)
	if got := late.plan().Status.Epoch; got != late.now.Unix() {
		t.Errorf("a hub that was made again begins with %d, want the time %d", got, late.now.Unix())
	}
}

func TestACommandForAnotherReleaseIsRefused(t *testing.T) {
	t.Parallel()
	g := aFleet(t, 1, everyone()).plan()
	g.Status.Command = &api.FleetCommand{Action: api.FleetCommandRollback, Epoch: g.Status.Epoch - 1, Actor: "kim"}
	g.plan()
	last := g.Status.Transitions[len(g.Status.Transitions)-1]
	if g.Status.Verb != api.FleetVerbRelease || g.Status.Command != nil || last.Reason != "CommandRefused" || last.Actor != "kim" {
		t.Errorf("verb %s, command %v, transition %+v", g.Status.Verb, g.Status.Command, last)
	}
}

func TestReportsAreComparedByEachField(t *testing.T) {
	t.Parallel()
	for field := range reflect.TypeFor[api.FleetReport]().Fields() {
		var other api.FleetReport
		switch v := reflect.ValueOf(&other).Elem().FieldByIndex(field.Index); v.Kind() {
		case reflect.String:
			v.SetString("x")
		case reflect.Bool:
			v.SetBool(true)
		case reflect.Int32, reflect.Int64:
			v.SetInt(1)
		case reflect.Slice:
			v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		case reflect.Struct:
			v.Field(0).SetString("x")
		default:
			t.Fatalf("%s has a kind that this test does not know", field.Name)
		}
		if sameReport(api.FleetReport{}, other) {
			t.Errorf("two reports that differ in %s are the same", field.Name)
		}
	}
}

func TestOneApprovalOnePause(t *testing.T) {
	t.Parallel()
	waits := func() api.FleetWave { return api.FleetWave{Percent: 50, Pause: &api.Pause{}} }
	g := aFleet(t, 4, waits(), waits(), everyone())
	for wave := range 2 {
		for range 2 {
			g.plan()
			for _, name := range sortedNames(g.Targets) {
				g.answer(api.FleetReportCompleted, "", name)
			}
		}
		if g.plan(); g.Status.Reason != "Approval" || g.Status.Wave != int32(wave+1) {
			t.Fatalf("wave %d: %s", wave+1, g.summary())
		}
		g.command(api.FleetCommand{Action: api.FleetCommandApprove}).plan()
	}
	if len(g.Status.Approvals) != 2 || g.Status.Wave != 3 {
		t.Errorf("%d approvals, wave %d", len(g.Status.Approvals), g.Status.Wave)
	}
}

// Another executor may be writing the permits of the last grant while this one withdraws the version.
func TestAWithdrawalTakesBackTheClustersOfTheLastGrant(t *testing.T) {
	t.Parallel()
	g := aFleet(t, 2, everyone()).plan("c0", "c1") // commits the epoch only: the members are silent
	g.Targets = map[string]Target{}
	g.Status.Grant = &api.FleetGrant{Epoch: g.Status.Epoch, Seq: 1, Verb: api.FleetVerbRelease, Wave: 1, Time: metav1.NewMicroTime(g.now), Clusters: []string{"c1"}}
	g.command(api.FleetCommand{Action: api.FleetCommandRollback})
	d := Plan(g.Seen, g.now)
	if got := d.Status.Grant; got.Verb != api.FleetVerbWithdraw || !slices.Equal(got.Clusters, []string{"c1"}) {
		t.Errorf("the next grant is %+v", got)
	}
	if len(d.Targets) != 0 {
		t.Errorf("it still writes permits of the grant before: %+v", d.Targets)
	}
}

// The executor may end after it has committed the withdrawal, and before it has written the FleetTargets.
func TestAFailureIsKeptWhenTheRunThatFoundItDies(t *testing.T) {
	t.Parallel()
	g := aFleet(t, 2, everyone())
	g.Spec.Written.OnFailure = &api.FleetOnFailure{Budget: api.FleetFailureWithdraw}
	g.plan().answer(api.FleetReportFailed, "Aborted", "c1")
	for range 50 {
		d := Plan(g.Seen, g.now)
		if g.Status = d.Status; g.Status.Verb == api.FleetVerbWithdraw {
			break
		}
		maps.Copy(g.Targets, d.Targets)
	}
	if g.plan(); g.Status.Verb != api.FleetVerbWithdraw || g.Targets["c1"].Status.Failure != "Aborted" || g.Targets["c0"].Status.Failure != "" {
		t.Errorf("after a withdrawal because of c1: %s, failures %q and %q", g.summary(), g.Targets["c0"].Status.Failure, g.Targets["c1"].Status.Failure)
	}
}

func TestNoGrantBeforeTheLastOneIsSeen(t *testing.T) {
	t.Parallel()
	g := aFleet(t, 3, api.FleetWave{MaxConcurrency: number(1)}).plan()
	first := g.Targets["c1"]
	g.answer(api.FleetReportCompleted, "", "c1")
	delete(g.Targets, "c1") // a late cache
	d := Plan(g.Seen, g.now)
	if d.Status.Grant.Seq != 1 || d.Targets["c1"].Permit.Seq != first.Permit.Seq {
		t.Errorf("without the permits of grant 1 it decides on grant %d and writes %+v", d.Status.Grant.Seq, d.Targets)
	}
}

func TestAStatusThatIsNotValidIsReported(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(*given){
		"without a plan":               func(g *given) { g.Status.Plan = nil },
		"with a plan of another kind":  func(g *given) { g.Status.Plan.Waves = nil },
		"with a wave that never began": func(g *given) { g.Status.Wave = 7 },
		"with more waves than planned": func(g *given) { g.Status.Waves = append(g.Status.Waves, g.Status.Waves...); g.Status.Wave = 2 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := aFleet(t, 2, everyone()).plan()
			spoil(g)
			g.Status.Grant, g.Targets = nil, map[string]Target{}
			for _, action := range []api.FleetCommandAction{api.FleetCommandApprove, api.FleetCommandSkip, api.FleetCommandPromote, "Unknown"} {
				g.command(api.FleetCommand{Action: action}).plan()
			}
			if g.Status.Reason != "InvalidStatus" || g.Status.Grant != nil {
				t.Errorf("%s: %s, grant %v", g.Status.Reason, g.Status.Message, g.Status.Grant)
			}
		})
	}
	g := aFleet(t, 1, everyone())
	g.SpecProblem = "The FleetPlan prod does not exist; create it, or name another one in spec.plan"
	if g.plan(); g.Status.Reason != "InvalidPlan" || g.Status.Epoch != 0 || g.Status.Message != g.SpecProblem {
		t.Errorf("without a plan: %+v", g.Status)
	}
}

// A wave whose clusters are all deferred has not passed its hold: a cluster that comes back stops there.
func TestAHoldWaitsForClustersThatComeBack(t *testing.T) {
	t.Parallel()
	g := aFleet(t, 1, api.FleetWave{HoldAt: &api.FleetHoldAt{Step: 1, Pause: &api.Pause{}}}).silence("c0").after(30 * time.Second).plan("c0")
	if g.Status.Reason != "NothingProven" || g.Status.Waves[0].Stage != api.FleetWaveToHold {
		t.Errorf("while the cluster is lost: %s, %s", g.summary(), g.Status.Waves[0].Stage)
	}
	g.plan()
	if permit := g.Targets["c0"].Permit; permit.Verb != api.FleetVerbRelease || permit.HoldAt != 1 {
		t.Errorf("the permit of the cluster that came back is %+v", permit)
	}
	if g.answer(api.FleetReportAtHold, "", "c0").plan(); g.Status.Phase != api.FleetPhaseWaiting || g.Status.Reason != "Approval" {
		t.Errorf("at the hold: %s", g.summary())
	}
}

// overridden lets the release of a cluster go on without permits.
func (g *given) overridden(name string) *given {
	return g.amend(func(r *api.FleetReport) { r.Overridden = "kim: the hub is lost" }, name)
}

// version names another version in spec.release.
func (g *given) version(version string) *given {
	g.Release.Version = version
	return g
}

// Only people at the hub, and a withdrawal, take back a release that goes on without permits.
func TestWhoTakesAnOverriddenReleaseBack(t *testing.T) {
	t.Parallel()
	under := func() *given {
		return aFleet(t, 1, everyone()).plan().answer(api.FleetReportProgressing, "", "c0").overridden("c0").plan()
	}
	for name, test := range map[string]struct {
		g    *given
		want api.FleetVerb
	}{
		"a newer version does not":         {under().version("v3").plan(), api.FleetVerbRelease},
		"the clock of the hub neither":     {under().after(2 * time.Hour).plan(), api.FleetVerbRelease},
		"an abort does":                    {under().command(api.FleetCommand{Action: api.FleetCommandAbort}).plan(), api.FleetVerbAbort},
		"a withdrawal does":                {under().command(api.FleetCommand{Action: api.FleetCommandRollback}).plan(), api.FleetVerbWithdraw},
		"who passes over the cluster does": {under().command(api.FleetCommand{Action: api.FleetCommandSkip, Clusters: []string{"c0"}}).plan(), api.FleetVerbAbort},
		"a withdrawal does after an abort": {
			aFleet(t, 1, everyone()).plan().answer(api.FleetReportProgressing, "", "c0").command(api.FleetCommand{Action: api.FleetCommandAbort}).plan().
				answer(api.FleetReportCompleted, "", "c0").overridden("c0").command(api.FleetCommand{Action: api.FleetCommandRollback}).plan(),
			api.FleetVerbWithdraw,
		},
	} {
		if got := test.g.Targets["c0"].Permit.Verb; got != test.want {
			t.Errorf("%s: the last order is %s, want %s; %s", name, got, test.want, test.g.summary())
		}
	}
}

// startedNow makes the executor start at this moment. It has heard no member, and the status of these members says that another one has.
func (g *given) startedNow(ready ...string) *given {
	g.Started = g.now
	for name, m := range g.Members {
		m.LastSeen, m.Ready = time.Time{}, slices.Contains(ready, name)
		g.Members[name] = m
	}
	return g
}

func TestAHubThatHasJustStartedWaitsForItsReadyMembers(t *testing.T) {
	t.Parallel()
	all := []string{"c0", "c1", "c2", "c3"}
	one := func() *given { // c3 comes first, and then c1
		return aFleet(t, 4, api.FleetWave{MaxConcurrency: number(1), Budgets: &api.FleetBudgets{Unreachable: number(1)}})
	}
	for name, c := range map[string]struct {
		g       *given
		want    string
		granted int64 // the number of the last grant
	}{
		"a ready member that it has not heard": {one().startedNow("c2").plan("c2"), "Progressing Starting; ", 0},
		"a member that was not ready":          {one().startedNow("c0", "c1", "c3").plan("c2"), "Progressing Wave; c3 Permitted", 1},
		"all members are heard":                {one().startedNow(all...).plan(), "Progressing Wave; c3 Permitted", 1},
		"the member is heard later":            {one().startedNow("c2").plan("c2").after(time.Minute).plan(), "Progressing Wave; c3 Permitted", 1},
		"4 minutes and 59 seconds have passed": {one().startedNow("c2").plan("c2").after(5*time.Minute - time.Second).plan("c2"), "Progressing Starting; ", 0},
		"5 minutes have passed": {
			one().startedNow("c2").plan("c2").after(5*time.Minute - time.Second).plan("c2").after(time.Second).plan("c2"), "Progressing Wave; c3 Permitted", 1,
		},
		"a cluster under a permit that it has not heard is not lost": {
			one().plan().answer(api.FleetReportProgressing, "", "c3").plan().after(time.Minute).startedNow(all...).plan("c3"), "Progressing Starting; c3 Permitted Unreachable", 1,
		},
		"a completed cluster gives its slot to no other one": {
			one().plan().answer(api.FleetReportCompleted, "", "c3").startedNow(all...).plan("c2"), "Progressing Starting; c3 Completed", 1,
		},
		"a cluster under a permit whose report it has not read": {
			func() *given {
				g := one().plan().answer(api.FleetReportCompleted, "", "c3").startedNow(all...)
				delete(g.Reports, "c3")
				return g.plan()
			}(), "Progressing Starting; c3 Permitted", 1,
		},
		"a command to go back does not wait": {
			one().plan().answer(api.FleetReportProgressing, "", "c3").startedNow(all...).command(api.FleetCommand{Action: api.FleetCommandRollback}).plan("c2"),
			"Withdrawing RolledBack; c3 Progressing GoingBack", 2,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(c.want, c.g.summary()); diff != "" {
				t.Errorf("(-want +got):\n%s\n%s", diff, c.g.Status.Message)
			}
			if seq := c.g.Status.Grant; seq == nil && c.granted != 0 || seq != nil && seq.Seq != c.granted {
				t.Errorf("the last grant is %+v, want number %d", seq, c.granted)
			}
		})
	}
	if wake := Plan(one().startedNow("c2").plan("c2").Seen, start).WakeAt; !wake.Equal(start.Add(5 * time.Minute)) {
		t.Errorf("it plans again at %s", wake)
	}
}

// The orders in NATS are newer than the status after a restore of the hub's etcd.
func TestAHubThatForgotItsOwnOrdersGivesNoPermit(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		last func(known api.PermitNumber) api.PermitNumber
		want string
	}{
		"the last order is the last permit": {func(n api.PermitNumber) api.PermitNumber { return n }, "Progressing Wave"},
		"an older order":                    {func(n api.PermitNumber) api.PermitNumber { n.Seq--; return n }, "Progressing Wave"},
		"a later grant of the epoch":        {func(n api.PermitNumber) api.PermitNumber { n.Seq++; return n }, "Stalled HubRestored"},
		"a later epoch":                     {func(n api.PermitNumber) api.PermitNumber { return api.PermitNumber{Epoch: n.Epoch + 3} }, "Stalled HubRestored"},
		"an epoch that no hub gives":        {func(n api.PermitNumber) api.PermitNumber { return api.PermitNumber{Epoch: n.Epoch + 2*maxEpochLead} }, "Progressing Wave"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := aFleet(t, 2, api.FleetWave{MaxConcurrency: number(1)}).plan()
			before := g.Status.Epoch
			g.LastOrder = c.last(api.PermitNumber{Epoch: before, Seq: g.Status.Grant.Seq})
			g.answer(api.FleetReportProgressing, "", sortedNames(g.Targets)...).plan()
			if got := fmt.Sprint(g.Status.Phase, " ", g.Status.Reason); got != c.want || len(g.Targets) != 1 {
				t.Errorf("it is %s with %d permits, want %s: %s", got, len(g.Targets), c.want, g.Status.Message)
			}
			restored := c.want == "Stalled HubRestored"
			if epoch := g.Status.Epoch; restored && epoch <= g.LastOrder.Epoch || !restored && epoch != before {
				t.Errorf("the epoch is %d after %d, and the last order has %d", epoch, before, g.LastOrder.Epoch)
			}
			if !restored {
				return
			}
			if g.answer(api.FleetReportCompleted, "", sortedNames(g.Targets)...).plan(); len(g.Targets) != 1 {
				t.Errorf("it gives %d permits before a person resumes", len(g.Targets))
			}
			if g.command(api.FleetCommand{Action: api.FleetCommandResume}).plan(); g.Status.Restored || len(g.Targets) != 2 {
				t.Errorf("after a person resumes it is %s", g.summary())
			}
		})
	}
	g := aFleet(t, 1, everyone())
	g.LastOrder = api.PermitNumber{Epoch: 41, Seq: 3}
	if g.plan(); g.Status.Epoch != 42 || g.Status.Restored {
		t.Errorf("a FleetRollout that was made again begins with the epoch %d: %s", g.Status.Epoch, g.summary())
	}
}

// attention describes status.attention: who needs a person, why, and how long after the start it began.
func (g *given) attention() string {
	var list []string
	for _, a := range g.Status.Attention {
		list = append(list, fmt.Sprintf("%s %s +%s", gocmp.Or(a.Cluster, "release"), a.Reason, a.Since.Sub(start)))
	}
	return strings.Join(list, ", ")
}

func TestWhatNeedsAPerson(t *testing.T) {
	t.Parallel()
	waits := func() *given {
		return aFleet(t, 1, api.FleetWave{Pause: &api.Pause{}}).plan().after(time.Minute).answer(api.FleetReportCompleted, "", "c0").plan()
	}
	budgets := &api.FleetBudgets{Failed: number(5), Unknown: number(5), Unreachable: number(5)}
	three := func() *given { return aFleet(t, 3, api.FleetWave{MaxConcurrency: number(10), Budgets: budgets}) }
	delayed := func() *given { return three().after(time.Minute).plan("c1").after(time.Minute).plan("c1") }
	for name, c := range map[string]struct {
		g    *given
		want string
	}{
		"a release under way":                          {three().plan(), ""},
		"an approval":                                  {waits(), "release Approval +1m0s"},
		"an approval, an hour later":                   {waits().after(time.Hour).plan(), "release Approval +1m0s"},
		"an approval that was given":                   {waits().command(api.FleetCommand{Action: api.FleetCommandApprove}).plan(), ""},
		"a release that a person has paused":           {three().plan().after(time.Second).command(api.FleetCommand{Action: api.FleetCommandPause}).plan(), "release Paused +1s"},
		"a pause that ends by itself":                  {aFleet(t, 1, api.FleetWave{Pause: &api.Pause{Duration: new(int32(600))}}).plan().answer(api.FleetReportCompleted, "", "c0").plan(), ""},
		"a version that was taken back":                {aFleet(t, 1, everyone()).plan().command(api.FleetCommand{Action: api.FleetCommandRollback}).plan().answer(api.FleetReportCompleted, "", "c0").plan(), "release RolledBack +0s"},
		"a cluster that has failed":                    {three().plan().after(time.Minute).answer(api.FleetReportFailed, "RolledBack", "c2").plan(), "c2 RolledBack +1m0s"},
		"a cluster that has failed, an hour ago":       {three().plan().after(time.Minute).answer(api.FleetReportFailed, "RolledBack", "c2").answer(api.FleetReportCompleted, "", "c0", "c1").plan().after(time.Hour).plan(), "c2 RolledBack +1m0s"},
		"a cluster that was lost under its permit":     {three().plan().silence("c0").after(30 * time.Second).plan("c0"), "c0 Unreachable +30s"},
		"a cluster that comes back":                    {three().plan().silence("c0").after(30 * time.Second).plan("c0").after(time.Minute).plan(), ""},
		"a cluster that was never heard":               {delayed(), "c1 Unreachable +1m0s"},
		"a cluster that was never heard, and failures": {delayed().answer(api.FleetReportFailed, "RolledBack", "c0").plan("c1"), "c1 Unreachable +1m0s, c0 RolledBack +2m0s"},
		"a cluster with a person of its own": {
			three().plan().report("c0", api.FleetReport{Epoch: 1, Seq: 1, State: api.FleetReportProgressing, AwaitsPerson: true}).plan(), "c0 AwaitsPerson +0s",
		},
		"an override that goes on after an answered withdrawal": {
			aFleet(t, 1, everyone()).plan().command(api.FleetCommand{Action: api.FleetCommandRollback}).plan().answer(api.FleetReportCompleted, "", "c0").overridden("c0").plan(),
			"release RolledBack +0s, c0 Overridden +0s",
		},
		"a budget that is exceeded": {
			aFleet(t, 2, everyone()).plan().after(time.Minute).answer(api.FleetReportFailed, "RolledBack", "c1").plan(), "release BudgetExceeded +1m0s, c1 RolledBack +1m0s",
		},
		"a completed cluster that turns unhealthy": {
			aFleet(t, 2, api.FleetWave{Percent: 50, Budgets: budgets}, everyone()).plan().answer(api.FleetReportCompleted, "", "c1").plan().after(time.Minute).ill(true, "c1").plan(), "c1 Unhealthy +1m0s",
		},
		"a cluster that goes back for too long": {
			aFleet(t, 1, everyone()).plan().command(api.FleetCommand{Action: api.FleetCommandRollback}).plan().after(45 * time.Minute).plan(), "c0 GoingBack +0s",
		},
		"a client that has applied a withdrawn version again": {
			aFleet(t, 1, everyone()).plan().command(api.FleetCommand{Action: api.FleetCommandRollback}).plan().answer(api.FleetReportCompleted, api.FleetReasonContested, "c0").plan(),
			"release RolledBack +0s, c0 Contested +0s",
		},
		"a cordon of its own": {
			func() *given {
				g := three()
				g.Members["c0"] = Member{Cordoned: true}
				return g.plan()
			}(), "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(c.want, c.g.attention()); diff != "" {
				t.Errorf("(-want +got):\n%s\n%s: %s", diff, c.g.summary(), c.g.Status.Message)
			}
		})
	}
	if a := waits().Status.Attention[0]; !strings.Contains(a.Message, "sluice fleet approve checkout -n shop") {
		t.Errorf("the message about the approval is %q", a.Message)
	}
	g := three().plan()
	p := g.Targets["c2"].Permit
	g.report("c2", api.FleetReport{Epoch: p.Epoch, Seq: p.Seq, State: api.FleetReportFailed, Reason: "RolledBack", Message: "kim rolled it back"}).plan()
	if a := g.Status.Attention[0]; a.Message != "kim rolled it back" {
		t.Errorf("the message about the cluster is %q", a.Message)
	}
}

func TestAttentionHasTheReleaseAndTheOldestClusters(t *testing.T) {
	t.Parallel()
	const n = 25
	g := aFleet(t, n, api.FleetWave{MaxConcurrency: number(n), Budgets: &api.FleetBudgets{Failed: number(n)}})
	g.plan()
	var want []string
	for i := range n {
		name := memberName((i * 7) % n) // in an order of its own
		g.after(time.Minute).answer(api.FleetReportFailed, "RolledBack", name).plan()
		if i < 19 {
			want = append(want, fmt.Sprintf("%s RolledBack +%s", name, time.Duration(i+1)*time.Minute))
		}
	}
	want = append(want, "release NothingProven +25m0s")
	if diff := cmp.Diff(strings.Join(want, ", "), g.attention()); diff != "" {
		t.Errorf("(-want +got):\n%s\n%s", diff, g.Status.Message)
	}
}

func TestClustersAreCountedByPhase(t *testing.T) {
	t.Parallel()
	g := aFleet(t, 4, api.FleetWave{MaxConcurrency: number(10), Budgets: &api.FleetBudgets{Failed: number(4), Unreachable: number(4)}}).plan("c3").after(time.Minute).plan("c3")
	g.answer(api.FleetReportFailed, "RolledBack", "c0").answer(api.FleetReportCompleted, "", "c1").plan("c3")
	want := map[api.FleetTargetPhase]int32{api.FleetTargetFailed: 1, api.FleetTargetCompleted: 1, api.FleetTargetPermitted: 1, api.FleetTargetDeferred: 1}
	if diff := cmp.Diff(want, g.Status.Counts); diff != "" {
		t.Errorf("(-want +got):\n%s\n%s", diff, g.summary())
	}
	none := aFleet(t, 2, everyone())
	none.Release = api.FleetRelease{}
	if none.plan(); none.Status.Counts != nil || len(none.Status.Attention) > 0 {
		t.Errorf("without a release the counts are %v, and %v needs a person", none.Status.Counts, none.Status.Attention)
	}
}
