package release_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/release"
	"sluice.dev/sluice/pkg/rollout"
)

type change func(*api.Rollout)

// aHealthyRollout returns a Rollout whose last release has succeeded.
func aHealthyRollout(changes ...change) *api.Rollout {
	half := intstr.FromString("50%")
	r := &api.Rollout{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", Generation: 4},
		Spec: api.RolloutSpec{
			WorkloadRef: &api.ObjectRef{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"},
			Strategy:    api.Strategy{Canary: &api.CanaryStrategy{Steps: []api.Step{{Replicas: &half}, {Replicas: &half}}}},
		},
		Status: api.RolloutStatus{
			Phase: api.PhaseHealthy, Message: "the message", ObservedGeneration: 4,
			CanaryStatus: &api.CanaryStatus{CommonStatus: api.CommonStatus{CurrentStepIndex: 2, CurrentStepState: api.StepCompleted, ObservedWorkloadGeneration: 7}},
			Sluice:       &api.SluiceStatus{Epoch: 1, State: "Idle"},
			Conditions:   []api.Condition{{Type: api.ConditionSucceeded, Status: "True", Message: "so it ended"}},
		},
	}
	for _, c := range changes {
		c(r)
	}
	return r
}

func aReleasingRollout(state api.StepState, changes ...change) *api.Rollout {
	return aHealthyRollout(append([]change{func(r *api.Rollout) {
		r.Status.Phase, r.Status.Sluice.State, r.Status.Conditions = api.PhaseProgressing, string(state), nil
		r.Status.CanaryStatus.CurrentStepIndex, r.Status.CanaryStatus.CurrentStepState = 1, state
	}}, changes...)...)
}

func withPhase(p api.Phase) change { return func(r *api.Rollout) { r.Status.Phase = p } }

func withHeld(reason api.Reason) change {
	return func(r *api.Rollout) {
		r.Status.Conditions = append(r.Status.Conditions, api.Condition{Type: api.ConditionStalled, Status: "True", Reason: reason, Message: "mend it."})
	}
}

func withSucceeded(status string) change {
	return func(r *api.Rollout) { r.Status.Conditions[0].Status = "False"; r.Status.Conditions[0].Message = status }
}

func TestWhereAReleaseStands(t *testing.T) {
	t.Parallel()
	deletion := metav1.Now()
	seen := release.WorkloadStatus{Known: true, Generation: 7}
	for name, test := range map[string]struct {
		rollout  *api.Rollout
		workload release.WorkloadStatus
		kind     release.Standing
		text     string
	}{
		"a release that has succeeded is complete":            {aHealthyRollout(), seen, release.Complete, "the release of Rollout shop/web is complete"},
		"so it is for who may not read the workload":          {aHealthyRollout(), release.WorkloadStatus{}, release.Complete, "the release of Rollout shop/web is complete"},
		"without a release there is nothing to wait for":      {aHealthyRollout(func(r *api.Rollout) { r.Status.Conditions = nil }), seen, release.Complete, "Rollout shop/web is healthy, and no release is under way"},
		"one that was taken back has failed":                  {aHealthyRollout(withSucceeded("canceled")), seen, release.Failed, "the release of Rollout shop/web did not succeed: canceled"},
		"a held change is a release that begins":              {aHealthyRollout(), release.WorkloadStatus{Known: true, Generation: 7, Held: true}, release.Unseen, "Deployment web has changed, and Rollout shop/web has not been looked at since; if that lasts, find out why with: sluice check"},
		"so is a change that nobody has seen":                 {aHealthyRollout(withSucceeded("canceled")), release.WorkloadStatus{Known: true, Generation: 8}, release.Unseen, "Deployment web has changed, and Rollout shop/web has not been looked at since; if that lasts, find out why with: sluice check"},
		"a status from before a change of the Rollout is old": {aHealthyRollout(func(r *api.Rollout) { r.Generation = 5 }), seen, release.Unseen, "Rollout shop/web has not been looked at since it was changed; if that lasts, find out why with: sluice check"},
		"nobody has looked at all":                            {aHealthyRollout(withPhase("")), seen, release.Unseen, "Rollout shop/web has not been looked at yet; if that lasts, find out why with: sluice check"},
		"the workload is being adopted":                       {aHealthyRollout(withPhase(api.PhaseInitial)), seen, release.Unseen, "Initial: the message"},
		"there is no workload":                                {aHealthyRollout(withPhase(api.PhaseInitial), withHeld(rollout.ReasonWorkloadMissing)), release.WorkloadStatus{}, release.Stuck, "Rollout shop/web is held: mend it."},
		"a step makes pods":                                   {aReleasingRollout(api.StepUpgrade), seen, release.Progressing, "step 1 of 2, StepUpgrade: the message"},
		"a step waits for approval":                           {aReleasingRollout(api.StepPaused), seen, release.Waiting, "Rollout shop/web is paused at step 1 of 2; approve it with: sluice approve web -n shop"},
		"a step waits for its time": {aReleasingRollout(api.StepPaused, func(r *api.Rollout) {
			r.Spec.Strategy.Canary.Steps[0].Pause.Duration = new(int32)
		}), seen, release.Progressing, "step 1 of 2, StepPaused: the message"},
		"the last step of the older shape passes by itself": {aReleasingRollout(api.StepPaused, func(r *api.Rollout) {
			r.Spec.ObjectRef = &api.LegacyObjectRef{WorkloadRef: r.Spec.WorkloadRef}
			r.Spec.WorkloadRef, r.Spec.Strategy.Canary.Steps = nil, []api.Step{{Weight: new(int32(100))}}
		}), seen, release.Progressing, "step 1 of 1, StepPaused: the message"},
		"a step waits for metrics":             {aReleasingRollout(api.StepMetricsAnalysis), seen, release.Progressing, "step 1 of 2, StepMetricsAnalysis: the message"},
		"metrics ask somebody":                 {aReleasingRollout(api.StepPaused, withHeld(rollout.ReasonAnalysisInconclusive)), seen, release.Stuck, "Rollout shop/web is held: mend it."},
		"something is missing":                 {aReleasingRollout(api.StepUpgrade, withHeld(rollout.ReasonServiceMissing)), seen, release.Stuck, "Rollout shop/web is held: mend it."},
		"policies that are missing stop none":  {aReleasingRollout(api.StepUpgrade, withHeld(rollout.ReasonAdmissionPolicyMissing)), seen, release.Progressing, "step 1 of 2, StepUpgrade: the message"},
		"it is paused as a whole":              {aReleasingRollout(api.StepPaused, func(r *api.Rollout) { r.Spec.Strategy.Paused = true }), seen, release.Stuck, "Rollout shop/web is paused as a whole; let it go on with: sluice resume web -n shop"},
		"it was aborted":                       {aReleasingRollout(api.StepPaused, func(r *api.Rollout) { r.Status.Sluice.State = "Aborted" }), seen, release.Failed, "the release of Rollout shop/web was aborted: the message"},
		"it is coming to its end":              {aReleasingRollout(api.StepCompleted, func(r *api.Rollout) { r.Status.CanaryStatus.FinalisingStep = "END" }), seen, release.Progressing, "Progressing: the message"},
		"the Rollout is disabled":              {aHealthyRollout(withPhase(api.PhaseDisabled)), seen, release.Disabled, "Rollout shop/web is disabled and releases nothing; follow Deployment web itself, or set spec.disabled to false"},
		"the Rollout is being disabled":        {aHealthyRollout(withPhase(api.PhaseDisabling)), seen, release.Progressing, "Disabling: the message"},
		"the Rollout is being deleted":         {aReleasingRollout(api.StepPaused, func(r *api.Rollout) { r.DeletionTimestamp = &deletion }), seen, release.Failed, "Rollout shop/web is being deleted: the message"},
		"a blue-green release stands like one": {aReleasingRollout(api.StepPaused, inBlueGreen), seen, release.Waiting, "Rollout shop/web is paused at step 1 of 1; approve it with: sluice approve web -n shop"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			kind, text := release.StandingOf(test.rollout, test.workload, "sluice")
			if diff := cmp.Diff([]string{string(test.kind), test.text}, []string{string(kind), text}); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// inBlueGreen turns a release into a blue-green release with a single step. The step has all replicas, and still waits.
func inBlueGreen(r *api.Rollout) {
	all := intstr.FromString("100%")
	r.Spec.Strategy = api.Strategy{BlueGreen: &api.BlueGreenStrategy{Steps: []api.Step{{Replicas: &all}}}}
	r.Status.BlueGreenStatus, r.Status.CanaryStatus = &api.BlueGreenStatus{CommonStatus: r.Status.CanaryStatus.CommonStatus}, nil
}
