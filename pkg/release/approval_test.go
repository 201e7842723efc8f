package release_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/release"
	"sluice.dev/sluice/pkg/rollout"
)

// rolloutBuilder builds Rollouts in code that reads as a sentence.
type rolloutBuilder struct{ *api.Rollout }

func aRollout() rolloutBuilder {
	half, all := intstr.FromString("50%"), intstr.FromString("100%")
	r := &api.Rollout{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", ResourceVersion: "7"},
		Spec: api.RolloutSpec{
			WorkloadRef: &api.ObjectRef{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"},
			Strategy:    api.Strategy{Canary: &api.CanaryStrategy{Steps: []api.Step{{Replicas: &half}, {Replicas: &half}, {Replicas: &all}}}},
		},
		Status: api.RolloutStatus{Phase: api.PhaseHealthy, Message: "the message", Sluice: &api.SluiceStatus{Epoch: 1}},
	}
	return rolloutBuilder{r}
}

func (b rolloutBuilder) at(step int32, state api.StepState, pauseSeq int64) rolloutBuilder {
	b.Status.Phase = api.PhaseProgressing
	b.Status.CanaryStatus = &api.CanaryStatus{CommonStatus: api.CommonStatus{CurrentStepIndex: step, CurrentStepState: state}}
	b.Status.Sluice.PauseSeq = pauseSeq
	return b
}

func (b rolloutBuilder) in(phase api.Phase) rolloutBuilder {
	b.Status.Phase = phase
	return b
}

func (b rolloutBuilder) succeeded(status corev1.ConditionStatus) rolloutBuilder {
	b.Status.Conditions = append(b.Status.Conditions, api.Condition{Type: api.ConditionSucceeded, Status: status, Message: "so it ended"})
	return b
}

func (b rolloutBuilder) aborted() rolloutBuilder {
	b.Status.Sluice.State = "Aborted"
	return b
}

func (b rolloutBuilder) held(reason api.Reason) rolloutBuilder {
	b.Status.Conditions = append(b.Status.Conditions, api.Condition{Type: api.ConditionStalled, Status: corev1.ConditionTrue, Reason: reason})
	return b
}

// promotedBy sets AutoPromote on each step and sets the phase of the step's metrics.
func (b rolloutBuilder) promotedBy(phase api.AnalysisPhase) rolloutBuilder {
	for i := range b.Spec.Strategy.Canary.Steps {
		b.Spec.Strategy.Canary.Steps[i].Analysis = &api.Analysis{AutoPromote: true}
	}
	b.Status.Analysis = &api.AnalysisStatus{Step: &api.AnalysisRun{Phase: phase}}
	return b
}

func (b rolloutBuilder) blueGreen() rolloutBuilder {
	b.Spec.Strategy.BlueGreen, b.Spec.Strategy.Canary = &api.BlueGreenStrategy{Steps: b.Spec.Strategy.Canary.Steps}, nil
	b.Status.BlueGreenStatus, b.Status.CanaryStatus = &api.BlueGreenStatus{CommonStatus: b.Status.CanaryStatus.CommonStatus}, nil
	return b
}

func (b rolloutBuilder) underOpenKruise() rolloutBuilder {
	b.Status.Sluice = nil
	return b
}

func TestWhatCanBeApproved(t *testing.T) {
	for name, test := range map[string]struct {
		rollout rolloutBuilder
		step    int32
		want    rollout.Pause
		refused string
	}{
		"a paused step":                        {rollout: aRollout().at(2, api.StepPaused, 5), want: rollout.Pause{Epoch: 1, PauseSeq: 5, Step: 2}},
		"a paused step that is named":          {rollout: aRollout().at(2, api.StepPaused, 5), step: 2, want: rollout.Pause{Epoch: 1, PauseSeq: 5, Step: 2}},
		"a paused step of a blue-green one":    {rollout: aRollout().at(1, api.StepPaused, 5).blueGreen(), want: rollout.Pause{Epoch: 1, PauseSeq: 5, Step: 1}},
		"a paused step under OpenKruise":       {rollout: aRollout().at(1, api.StepPaused, 0).underOpenKruise(), want: rollout.Pause{Step: 1}},
		"not a step that comes later":          {rollout: aRollout().at(1, api.StepPaused, 5), step: 2, refused: "Rollout shop/web is paused at step 1, not at step 2; approve that one with --step 1"},
		"not a step that is over":              {rollout: aRollout().at(2, api.StepPaused, 5), step: 1, refused: "Rollout shop/web has left step 1, it is at step 2 of 3 now (StepPaused)"},
		"not a step that was approved already": {rollout: aRollout().at(2, api.StepReady, 5), refused: "step 2 of Rollout shop/web has been approved already; follow it with: sluice get rollout web -n shop -w"},
		"not a step that is not ready yet":     {rollout: aRollout().at(2, api.StepUpgrade, 5), refused: "step 2 of Rollout shop/web cannot be approved before it is paused, it is in state StepUpgrade: the message. Wait for it with: sluice get rollout web -n shop -w"},
		"not a step that is being measured":    {rollout: aRollout().at(2, api.StepMetricsAnalysis, 5), refused: "step 2 of Rollout shop/web is being measured and cannot be approved yet: the message. See how with: sluice analysis get web -n shop; or go on without the result: sluice approve web -n shop --force"},
		"not a step whose metrics failed":      {rollout: aRollout().at(2, api.StepPaused, 5).held("AnalysisFailed"), refused: "the metrics of Rollout shop/web failed, so that step 2 cannot be approved just so: the message"},
		"a step whose metrics ask a person":    {rollout: aRollout().at(2, api.StepPaused, 5).held("AnalysisInconclusive"), want: rollout.Pause{Epoch: 1, PauseSeq: 5, Step: 2}},
		"nothing of an aborted release":        {rollout: aRollout().at(2, api.StepPaused, 5).aborted(), refused: "the release of Rollout shop/web was aborted, so there is nothing to approve: the message"},
		"nothing without a release":            {rollout: aRollout(), refused: "Rollout shop/web is Healthy: no release is under way, so there is nothing to approve; one starts when the pod template of Deployment web changes"},
		"nothing after a release":              {rollout: aRollout().at(3, api.StepCompleted, 5).in(api.PhaseHealthy), refused: "Rollout shop/web is Healthy: no release is under way, so there is nothing to approve; one starts when the pod template of Deployment web changes"},
		"nothing while it is deleted":          {rollout: aRollout().at(2, api.StepPaused, 5).in(api.PhaseTerminating), refused: "Rollout shop/web is Terminating, so there is nothing to approve: the message"},
		"nothing before it was looked at":      {rollout: aRollout().in(""), refused: "Rollout shop/web has not been looked at yet, so there is nothing to approve; find out why with: sluice check"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := release.PauseToApprove(test.rollout.Rollout, test.step, "sluice")
			refused := ""
			if err != nil {
				refused = err.Error()
			}
			if diff := cmp.Diff(test.refused, refused); diff != "" {
				t.Errorf("refused (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("pause (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTheApprovalIsThePatchOfKubectlKruiseWithAVersion(t *testing.T) {
	for rollout, want := range map[*api.Rollout]string{
		aRollout().at(1, api.StepPaused, 1).Rollout:             `{"metadata":{"resourceVersion":"7"},"status":{"canaryStatus":{"currentStepState":"StepReady"}}}`,
		aRollout().at(1, api.StepPaused, 1).blueGreen().Rollout: `{"metadata":{"resourceVersion":"7"},"status":{"blueGreenStatus":{"currentStepState":"StepReady"}}}`,
	} {
		got, err := release.ApprovalPatch(rollout)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, string(got)); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	}
}

func TestHowFarAnApprovedReleaseHasCome(t *testing.T) {
	since := rollout.Pause{Epoch: 1, PauseSeq: 5, Step: 1}
	timed := aRollout().at(2, api.StepPaused, 6)
	seconds := int32(60)
	timed.Spec.Strategy.Canary.Steps[1].Pause.Duration = &seconds
	next := aRollout().at(1, api.StepPaused, 6)
	next.Status.Sluice.Epoch = 2
	for name, test := range map[string]struct {
		rollout rolloutBuilder
		text    string
		done    bool
		failed  string
	}{
		"it has not begun to move":        {rollout: aRollout().at(1, api.StepReady, 5), text: "step 1 of 3, StepReady: the message"},
		"it is under way":                 {rollout: aRollout().at(2, api.StepUpgrade, 5), text: "step 2 of 3, StepUpgrade: the message"},
		"it is paused for approval":       {rollout: aRollout().at(2, api.StepPaused, 6), done: true, text: "Rollout shop/web is paused at step 2 of 3; approve it with: sluice approve web -n shop"},
		"a timed pause goes on by itself": {rollout: timed, text: "step 2 of 3, StepPaused: the message"},
		"the last full step goes on too":  {rollout: aRollout().at(3, api.StepPaused, 7), text: "step 3 of 3, StepPaused: the message"},
		"metrics are about to promote it": {rollout: aRollout().at(2, api.StepPaused, 6).promotedBy(api.AnalysisPassed), text: "step 2 of 3, StepPaused: the message"},
		"metrics do not promote it":       {rollout: aRollout().at(2, api.StepPaused, 6).promotedBy(api.AnalysisPassing), done: true, text: "Rollout shop/web is paused at step 2 of 3; approve it with: sluice approve web -n shop"},
		"metrics ask a person":            {rollout: aRollout().at(3, api.StepPaused, 6).held("AnalysisInconclusive"), done: true, text: "step 3 of 3, StepPaused: the message", failed: "Rollout shop/web waits for a user to decide at step 3 of 3: the message"},
		"it was aborted":                  {rollout: aRollout().at(2, api.StepMetricsAnalysis, 6).aborted(), done: true, text: "Progressing: the message", failed: "the release of Rollout shop/web was aborted: the message"},
		"it is complete":                  {rollout: aRollout().at(3, api.StepCompleted, 7).in(api.PhaseHealthy).succeeded("True"), done: true, text: "the release of Rollout shop/web is complete"},
		"it was rolled back":              {rollout: aRollout().at(3, api.StepCompleted, 7).in(api.PhaseHealthy).succeeded("False"), done: true, text: "Healthy: the message", failed: "the release of Rollout shop/web did not succeed: so it ended"},
		"it was disabled":                 {rollout: aRollout().at(2, api.StepUpgrade, 5).in(api.PhaseDisabling), done: true, text: "Disabling: the message", failed: "the release of Rollout shop/web has ended: the message"},
		"another one has begun":           {rollout: next, done: true, text: "Progressing: the message", failed: "another release of Rollout shop/web has begun: the message"},
		"nothing is left of it":           {rollout: aRollout(), done: true, text: "Healthy: the message", failed: "Rollout shop/web has no release under way any more: Healthy: the message"},
	} {
		t.Run(name, func(t *testing.T) {
			text, done, err := release.ApprovalProgress(test.rollout.Rollout, since, "sluice")
			failed := ""
			if err != nil {
				failed = err.Error()
			}
			if diff := cmp.Diff([]any{test.text, test.done, test.failed}, []any{text, done, failed}); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}
