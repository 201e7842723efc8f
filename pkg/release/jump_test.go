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
)

// atStep returns a Rollout with four steps, at the given step.
func atStep(step int32, state string, changes ...func(*api.Rollout)) *api.Rollout {
	r := &api.Rollout{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", ResourceVersion: "7"}}
	r.Spec.Strategy.Canary = &api.CanaryStrategy{Steps: make([]api.Step, 4)}
	r.Status.Phase, r.Status.Message = api.PhaseProgressing, "waits"
	r.Status.Sluice = &api.SluiceStatus{Epoch: 3, Step: step, State: state, TransitionSeq: 20}
	r.Status.CanaryStatus = &api.CanaryStatus{CommonStatus: api.CommonStatus{CurrentStepIndex: step, NextStepIndex: step + 1}}
	if step == 4 {
		r.Status.CanaryStatus.NextStepIndex = api.NoNextStep
	}
	for _, change := range changes {
		change(r)
	}
	return r
}

func TestWhereOneCanJump(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		rollout *api.Rollout
		to      int32
		refused string // part of the error; empty if no error is expected
	}{
		"forward":                      {atStep(1, "StepPaused"), 3, ""},
		"back":                         {atStep(3, "StepPaused"), 1, ""},
		"to the same step":             {atStep(2, "StepUpgrade"), 2, ""},
		"from the last step to itself": {atStep(4, "StepPaused"), 4, ""},
		"out of an analysis":           {atStep(2, "StepMetricsAnalysis"), 4, ""},
		"not to the step that is next": {atStep(2, "StepPaused"), 3, "step 3 is the one that follows step 2 in any case, so that there is nothing to jump over; once that is paused, go on with: sluice approve web -n shop"},
		"not past the last step":       {atStep(2, "StepPaused"), 5, "Rollout shop/web has no step 5; choose one from 1 to 4"},
		"not before the first step":    {atStep(2, "StepPaused"), 0, "has no step 0"},
		"not after an abort":           {atStep(2, "Aborted"), 1, "was aborted, so there is nothing to jump in; try it again with: sluice retry web -n shop"},
		"not at the end":               {atStep(4, "Finalising"), 1, "is in state Finalising and in no step: waits."},
		"not before the first step begins": {atStep(1, "Initializing"), 3,
			"is in state Initializing and in no step"},
		"not while all of it is paused": {atStep(2, "StepPaused", func(r *api.Rollout) { r.Spec.Strategy.Paused = true }), 4, "would not follow; let it go on first: sluice resume web -n shop"},
		"not without a release":         {atStep(4, "Idle", func(r *api.Rollout) { r.Status.Phase = api.PhaseHealthy }), 1, "Rollout shop/web is Healthy: no release is under way"},
		"not in what nobody looked at":  {atStep(1, "", func(r *api.Rollout) { r.Status = api.RolloutStatus{} }), 1, "has not been looked at yet, so there is nothing to jump in; find out why with: sluice check"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := release.NewJump(test.rollout, test.to, "sluice")
			if test.refused != "" {
				if err == nil || !strings.Contains(err.Error(), test.refused) {
					t.Errorf("got %v, want %q", err, test.refused)
				}
				return
			}
			want := release.Jump{Epoch: 3, From: test.rollout.Status.Sluice.Step, To: test.to, Seq: 20}
			if diff := cmp.Diff(want, got); err != nil || diff != "" {
				t.Errorf("%v\n%s", err, diff)
			}
		})
	}
}

func TestThePatchIsOpenKruisesButForTheVersion(t *testing.T) {
	t.Parallel()
	green := atStep(1, "StepPaused", func(r *api.Rollout) {
		r.Status.BlueGreenStatus, r.Status.CanaryStatus = &api.BlueGreenStatus{}, nil
	})
	for want, r := range map[string]*api.Rollout{
		`{"metadata":{"resourceVersion":"7"},"status":{"canaryStatus":{"nextStepIndex":3}}}`:    atStep(1, "StepPaused"),
		`{"metadata":{"resourceVersion":"7"},"status":{"blueGreenStatus":{"nextStepIndex":3}}}`: green,
	} {
		patch, err := release.JumpPatch(r, release.Jump{To: 3})
		if err != nil || !json.Valid(patch) || string(patch) != want {
			t.Errorf("got %s, %v, want %s", patch, err, want)
		}
	}
}

func TestWhatComesOfAJump(t *testing.T) {
	t.Parallel()
	made := release.Jump{Epoch: 3, From: 1, To: 3, Seq: 20}
	moved := func(seq int64, step int32, reason string) func(*api.Rollout) {
		return func(r *api.Rollout) {
			r.Status.Sluice.Transitions = append(r.Status.Sluice.Transitions, api.Transition{Seq: seq, Step: step, Reason: reason})
		}
	}
	next := func(step int32) func(*api.Rollout) {
		return func(r *api.Rollout) { r.Status.CanaryStatus.NextStepIndex = step }
	}
	for name, test := range map[string]struct {
		rollout *api.Rollout
		text    string
		done    bool
		refused string
	}{
		"it waits":                          {atStep(1, "StepPaused", next(3), moved(20, 1, "StepStarted")), "", false, ""},
		"it is followed":                    {atStep(3, "BeforeStepUpgrade", moved(21, 3, "Jumped")), "Rollout shop/web has left step 1 and goes on with step 3 of 4", true, ""},
		"it is followed, and more happened": {atStep(3, "StepPaused", moved(21, 3, "Jumped"), moved(22, 3, "PodsReady")), "Rollout shop/web has left step 1 and goes on with step 3 of 4", true, ""},
		"an earlier jump is another one":    {atStep(1, "StepPaused", next(3), moved(20, 3, "Jumped")), "", false, ""},
		"it is taken back":                  {atStep(2, "StepUpgrade", moved(20, 1, "Approved"), moved(21, 2, "StepStarted")), "", true, "the jump to step 3 was taken back; Rollout shop/web is at step 2, in state StepUpgrade, now: waits."},
		"it is taken back where it was":     {atStep(1, "StepPaused"), "", true, "the jump to step 3 was taken back; Rollout shop/web is at step 1"},
		"another release began":             {atStep(1, "StepUpgrade", func(r *api.Rollout) { r.Status.Sluice.Epoch = 4 }), "", true, "another release of Rollout shop/web has begun: waits"},
		"too much has happened since": {atStep(4, "StepPaused", moved(25, 4, "StepStarted")),
			"Rollout shop/web has moved on so far since that the jump to step 3 is no longer told of; it is at step 4, in state StepPaused, now", true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text, done, err := release.JumpResult(test.rollout, made)
			if (test.refused == "") != (err == nil) || err != nil && (!errors.Is(err, release.ErrJumpRefused) || !strings.Contains(err.Error(), test.refused)) {
				t.Errorf("the error is %v, want %q", err, test.refused)
			}
			if text != test.text || done != test.done {
				t.Errorf("got %q, %v", text, done)
			}
		})
	}
}
