package release_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/release"
	"sluice.dev/sluice/pkg/rollout"
)

// inState returns a Rollout in this state, in its third release and its fifth pause.
func inState(state string, change ...func(*api.Rollout)) *api.Rollout {
	r := &api.Rollout{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "checkout", ResourceVersion: "7"}}
	r.Spec.WorkloadRef = &api.ObjectRef{Kind: "Deployment", Name: "checkout"}
	r.Status.Phase, r.Status.Message = api.PhaseProgressing, "waits"
	r.Status.Sluice = &api.SluiceStatus{Epoch: 3, Step: 2, PauseSeq: 5, State: state}
	for _, c := range change {
		c(r)
	}
	return r
}

func isHealthy(r *api.Rollout) { r.Status.Phase, r.Status.Message = api.PhaseHealthy, "all is well" }

func rollingBack(r *api.Rollout) { r.Status.Sluice.FinaliseReason = api.FinaliseRollback }

func succeeding(r *api.Rollout) { r.Status.Sluice.FinaliseReason = api.FinaliseSuccess }

func stableGone(r *api.Rollout) {
	r.Status.Conditions = []api.Condition{{Type: api.ConditionStalled, Status: "True", Reason: rollout.ReasonStableMissing}}
}

// governed puts a release of v2 under FleetRollout shop/checkout.
func governed(r *api.Rollout) {
	r.Spec.Fleet = &api.FleetReference{Namespace: "shop", Name: "checkout"}
	r.Status.Fleet = &api.RolloutFleetStatus{FleetRollout: *r.Spec.Fleet, Releasing: api.FleetVersion{Version: "v2", Revision: "h2"}}
}

func overridden(epoch int64, actor string) func(*api.Rollout) {
	return func(r *api.Rollout) {
		r.Status.Fleet.Override = &api.FleetOverride{Release: epoch, Actor: actor, Reason: "the hub is lost"}
	}
}

func TestWhatCanBeCommanded(t *testing.T) {
	t.Parallel()
	kim := release.Sender{User: "kim", Comment: "slow", Program: "sluice"}
	abort := api.Command{Action: api.CommandAbort, Epoch: 3, Actor: "kim", Comment: "slow"}
	retry := api.Command{Action: api.CommandRetry, Epoch: 3, Actor: "kim", Comment: "slow"}
	approve := api.Command{Action: api.CommandApprove, Epoch: 3, PauseSeq: 5, Actor: "kim", Comment: "slow"}
	promote := api.Command{Action: api.CommandPromote, Epoch: 3, Actor: "kim", Comment: "slow"}
	override := api.Command{Action: api.CommandOverride, Epoch: 3, Actor: "kim", Comment: "slow"}
	for name, test := range map[string]struct {
		rollout *api.Rollout
		want    map[api.CommandAction]string // part of the error; empty if no error is expected
	}{
		"a step that is measured can be aborted and approved": {inState("StepMetricsAnalysis"), map[api.CommandAction]string{
			api.CommandAbort: "", api.CommandPromote: "", api.CommandApprove: "", api.CommandRetry: "was not aborted, so there is nothing to retry: waits; follow it with: sluice get rollout checkout -n shop -w"}},
		"a paused step can be aborted and approved": {inState("StepPaused"), map[api.CommandAction]string{
			api.CommandAbort: "", api.CommandApprove: "", api.CommandRetry: "was not aborted"}},
		"a step whose pods come up can be aborted": {inState("StepUpgrade"), map[api.CommandAction]string{
			api.CommandAbort: "", api.CommandPromote: "", api.CommandApprove: "step 2 of Rollout shop/checkout can be approved with --force while it is analysed or paused, and it is in state StepUpgrade: waits.", api.CommandRetry: "was not aborted"}},
		"a release that begins can be aborted": {inState("Initializing"), map[api.CommandAction]string{
			api.CommandAbort: "", api.CommandPromote: "has no step under way yet, so there is nothing to promote: waits. Wait for it with: sluice get rollout checkout -n shop -w", api.CommandApprove: "in state Initializing", api.CommandRetry: "was not aborted"}},
		"an aborted release can be retried": {inState("Aborted"), map[api.CommandAction]string{
			api.CommandPromote: "was aborted, so there is nothing to promote; try it again with: sluice retry checkout -n shop",
			api.CommandAbort:   "is aborted already: waits", api.CommandApprove: "try it again with: sluice retry checkout -n shop", api.CommandRetry: ""}},
		"one that is rolled back can not": {inState("Aborted", rollingBack), map[api.CommandAction]string{
			api.CommandAbort: "is aborted already", api.CommandApprove: "was aborted", api.CommandRetry: "gets its stable version back, so there is nothing to retry"}},
		"one that cannot be rolled back can": {inState("Aborted", rollingBack, stableGone), map[api.CommandAction]string{
			api.CommandAbort: "is aborted already", api.CommandApprove: "was aborted", api.CommandRetry: ""}},
		"nothing of an end": {inState("Finalising"), map[api.CommandAction]string{
			api.CommandPromote: "is ending already, so there is nothing to promote: waits",
			api.CommandAbort:   "is ending already, so there is nothing to abort: waits", api.CommandApprove: "in state Finalising", api.CommandRetry: "was not aborted"}},
		"nothing of a success that is ending, but it can be undone": {inState("Finalising", succeeding), map[api.CommandAction]string{
			api.CommandPromote: "is ending already, so there is nothing to promote: waits",
			api.CommandAbort:   "has all its approvals, or was promoted, so there is nothing to abort: waits; go back with: sluice undo checkout -n shop"}},
		"nothing without a release": {inState("Idle", isHealthy), map[api.CommandAction]string{
			api.CommandPromote: "Rollout shop/checkout is Healthy: no release is under way, so there is nothing to promote",
			api.CommandAbort:   "Rollout shop/checkout is Healthy: no release is under way, so there is nothing to abort", api.CommandApprove: "so there is nothing to approve",
			api.CommandRetry: "Rollout shop/checkout is Healthy: no release was aborted, so there is nothing to retry; a release starts when the pod template of Deployment checkout changes"}},
		"a release that waits for a permit can be overridden": {inState("Initializing", governed), map[api.CommandAction]string{api.CommandOverride: ""}},
		"and one at a step":          {inState("StepUpgrade", governed), map[api.CommandAction]string{api.CommandOverride: ""}},
		"one without a fleet cannot": {inState("StepUpgrade"), map[api.CommandAction]string{api.CommandOverride: "Rollout shop/checkout has no spec.fleet"}},
		"one whose fleet no executor knows can not": {inState("StepUpgrade", governed, func(r *api.Rollout) { r.Status.Fleet = nil }), map[api.CommandAction]string{
			api.CommandOverride: "no executor has read spec.fleet of Rollout shop/checkout yet"}},
		"an overridden one cannot": {inState("StepUpgrade", governed, overridden(3, "alex")), map[api.CommandAction]string{
			api.CommandOverride: "goes on without permits already (alex: the hub is lost)"}},
		"one after it can": {inState("StepUpgrade", governed, overridden(2, "alex")), map[api.CommandAction]string{api.CommandOverride: ""}},
		"a withdrawn version can not": {inState("Initializing", governed, func(r *api.Rollout) { r.Status.Fleet.Blocked = []api.FleetBlock{{Version: "version/v2"}} }), map[api.CommandAction]string{
			api.CommandOverride: "the fleet has withdrawn version/v2, and an override does not release it; release another version, or type at the hub: sluice fleet unblock checkout version/v2 -n shop"}},
		"an unblocked version can": {inState("Initializing", governed, func(r *api.Rollout) {
			r.Status.Fleet.Blocked = []api.FleetBlock{{Version: "version/v2", Unblocked: true}}
		}), map[api.CommandAction]string{api.CommandOverride: ""}},
		"there is nothing to override at rest": {inState("Idle", isHealthy, governed), map[api.CommandAction]string{
			api.CommandOverride: "Rollout shop/checkout is Healthy: no release is under way, so there is nothing to override"}},
		"nothing that no executor has seen": {inState("", func(r *api.Rollout) { r.Status = api.RolloutStatus{} }), map[api.CommandAction]string{
			api.CommandAbort: "has not been looked at yet, so there is nothing to abort; find out why with: sluice check", api.CommandRetry: "nothing to retry", api.CommandApprove: "nothing to approve"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for action, want := range test.want {
				got, err := release.NewCommand(test.rollout, action, kim)
				switch {
				case want == "" && err != nil:
					t.Errorf("%s: %v", action, err)
				case want == "":
					made := map[api.CommandAction]api.Command{api.CommandAbort: abort, api.CommandRetry: retry, api.CommandApprove: approve, api.CommandPromote: promote, api.CommandOverride: override}[action]
					if diff := cmp.Diff(made, got); diff != "" {
						t.Error(diff)
					}
				case err == nil || !strings.Contains(err.Error(), want):
					t.Errorf("%s: got %v, want %q", action, err, want)
				}
			}
		})
	}
	if _, err := release.NewCommand(inState("StepPaused"), api.CommandAbort, release.Sender{Comment: strings.Repeat("x", 1025)}); err == nil {
		t.Error("a reason is accepted that the schema refuses")
	}
}

func TestThePatchLeavesNothingOfAnotherCommand(t *testing.T) {
	t.Parallel()
	patch, err := release.CommandPatch(inState("StepPaused"), api.Command{Action: api.CommandAbort, Epoch: 3, Actor: "kim"})
	if err != nil {
		t.Fatal(err)
	}
	var got, want any
	if err := errors.Join(json.Unmarshal(patch, &got), json.Unmarshal([]byte(`{"metadata": {"resourceVersion": "7"},
		"status": {"command": {"action": "Abort", "epoch": 3, "actor": "kim", "pauseSeq": null, "comment": null}}}`), &want)); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestWhatComesOfACommand(t *testing.T) {
	t.Parallel()
	abort := api.Command{Action: api.CommandAbort, Epoch: 3, Actor: "kim"}
	retry := api.Command{Action: api.CommandRetry, Epoch: 3, Actor: "kim"}
	approve := api.Command{Action: api.CommandApprove, Epoch: 3, PauseSeq: 5, Actor: "kim"}
	promote := api.Command{Action: api.CommandPromote, Epoch: 3, Actor: "kim"}
	override := api.Command{Action: api.CommandOverride, Epoch: 3, Actor: "kim"}
	because := func(reason api.FinaliseReason) func(*api.Rollout) {
		return func(r *api.Rollout) { r.Status.Sluice.FinaliseReason = reason }
	}
	given := func(c api.Command) func(*api.Rollout) { return func(r *api.Rollout) { r.Status.Command = &c } }
	reason := func(reason api.Reason, message string) func(*api.Rollout) {
		return func(r *api.Rollout) {
			r.Status.Conditions = []api.Condition{{Type: api.ConditionProgressing, Status: "True", Reason: reason, Message: message}}
		}
	}
	forced := func(r *api.Rollout) {
		r.Status.Approvals = []api.Approval{{Epoch: 3, PauseSeq: 4, Forced: true}, {Epoch: 3, PauseSeq: 5, Step: 2, Forced: true, Actor: "kim"}}
	}
	plain := func(r *api.Rollout) {
		r.Status.Approvals = []api.Approval{{Epoch: 3, PauseSeq: 5, Step: 2, Actor: "kim"}}
	}
	for name, test := range map[string]struct {
		rollout *api.Rollout
		command api.Command
		text    string
		done    bool
		refused string
	}{
		"it waits":                   {inState("StepPaused", given(abort)), abort, "", false, ""},
		"the release is aborted":     {inState("Aborted", reason(api.ReasonAborted, "Stopped by kim.")), abort, "the release of Rollout shop/checkout is aborted: Stopped by kim.", true, ""},
		"the release was ending":     {inState("Finalising"), abort, "", true, "has moved on meanwhile and is in state Finalising now: waits"},
		"another release began":      {inState("Aborted", func(r *api.Rollout) { r.Status.Sluice.Epoch = 4 }), abort, "", true, "has moved on meanwhile"},
		"somebody else was faster":   {inState("StepPaused", given(api.Command{Action: api.CommandApprove, Epoch: 3, PauseSeq: 5, Actor: "alex"})), abort, "", true, "alex has told Rollout shop/checkout something else meanwhile (Approve)"},
		"the Rollout is a new one":   {inState("", func(r *api.Rollout) { r.Status = api.RolloutStatus{} }), abort, "", true, "a user has deleted and created Rollout"},
		"it is cleared away first":   {inState("Finalising", func(r *api.Rollout) { r.Status.Sluice.FinaliseReason = api.FinaliseRetry }), retry, "the release of Rollout shop/checkout begins again", true, ""},
		"it has begun anew":          {inState("StepUpgrade", func(r *api.Rollout) { r.Status.Sluice.Epoch = 4 }), retry, "the release of Rollout shop/checkout begins again", true, ""},
		"it is still aborted":        {inState("Aborted"), retry, "", true, "is in state Aborted now"},
		"the step is approved":       {inState("StepReady", forced), approve, "step 2 of Rollout shop/checkout is approved by kim against its metrics", true, ""},
		"the rest is skipped":        {inState("Finalising", because(api.FinaliseSuccess)), promote, "the release of Rollout shop/checkout skips its remaining steps", true, ""},
		"it has ended by then":       {inState("Idle", isHealthy, because(api.FinaliseSuccess)), promote, "the release of Rollout shop/checkout skips its remaining steps", true, ""},
		"it was rolled back":         {inState("Finalising", rollingBack), promote, "", true, "is in state Finalising now"},
		"it goes on step by step":    {inState("StepUpgrade"), promote, "", true, "is in state StepUpgrade now"},
		"it goes on without permits": {inState("BeforeStepUpgrade", governed, overridden(3, "kim")), override, "the release of Rollout shop/checkout goes on without permits of its fleet", true, ""},
		"another one did":            {inState("BeforeStepUpgrade", governed, overridden(2, "kim")), override, "", true, "has moved on meanwhile"},
		"it was approved anyway":     {inState("StepReady", plain), approve, "", true, "has moved on meanwhile"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text, done, err := release.CommandResult(test.rollout, test.command, "sluice")
			if (test.refused == "") != (err == nil) || err != nil && (!errors.Is(err, release.ErrCommandRefused) || !strings.Contains(err.Error(), test.refused)) {
				t.Errorf("the error is %v, want %q", err, test.refused)
			}
			if err == nil && text != test.text || done != test.done {
				t.Errorf("got %q, %v", text, done)
			}
		})
	}
}

func TestWhatIsForetold(t *testing.T) {
	t.Parallel()
	r := inState("StepMetricsAnalysis", func(r *api.Rollout) {
		r.Status.Analysis = &api.AnalysisStatus{
			Step:    &api.AnalysisRun{Epoch: 3, Phase: api.AnalysisPassed, Message: "All is well."},
			Release: &api.AnalysisRun{Epoch: 3, Phase: api.AnalysisFailed, Message: "The canary is worse."},
		}
	})
	got := release.PredictCommand(r, api.Command{Action: api.CommandApprove, Actor: "kim"})
	if want := "step 2 goes on regardless of its metrics (by kim): Failed: The canary is worse."; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	got = release.PredictCommand(inState("Initializing", governed), api.Command{Action: api.CommandOverride, Actor: "kim"})
	if want := "the release goes on without permits of FleetRollout shop/checkout; its pauses and its metrics count (by kim)"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestWhenNothingIsLeftOfAnAbortedRelease(t *testing.T) {
	t.Parallel()
	abort := api.Command{Action: api.CommandAbort, Epoch: 3}
	pods := func(n int32) func(*api.Rollout) {
		return func(r *api.Rollout) { r.Status.CanaryStatus = &api.CanaryStatus{CanaryReplicas: n} }
	}
	for name, test := range map[string]struct {
		rollout *api.Rollout
		text    string
		done    bool
		wrong   bool
	}{
		"pods are left":         {inState("Aborted", pods(2)), "2 pods of the canary are left", false, false},
		"none are":              {inState("Aborted", pods(0)), "nothing of the canary of Rollout shop/checkout is left", true, false},
		"it was rolled back":    {inState("Idle", isHealthy), "Rollout shop/checkout is Healthy: all is well", true, false},
		"another release began": {inState("StepUpgrade", func(r *api.Rollout) { r.Status.Sluice.Epoch = 4 }), "", true, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text, done, err := release.CommandAfterDeletion(test.rollout, abort)
			if text != test.text || done != test.done || (err != nil) != test.wrong {
				t.Errorf("got %q, %v, %v", text, done, err)
			}
		})
	}
}
