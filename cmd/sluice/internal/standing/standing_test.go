package standing_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"sluice.dev/sluice/cmd/sluice/internal/standing"
	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
)

type change func(*api.Rollout)

// healthy is a Rollout whose last release has succeeded.
func healthy(changes ...change) *api.Rollout {
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

func releasing(state api.StepState, changes ...change) *api.Rollout {
	return healthy(append([]change{func(r *api.Rollout) {
		r.Status.Phase, r.Status.Sluice.State, r.Status.Conditions = api.PhaseProgressing, string(state), nil
		r.Status.CanaryStatus.CurrentStepIndex, r.Status.CanaryStatus.CurrentStepState = 1, state
	}}, changes...)...)
}

func phase(p api.Phase) change { return func(r *api.Rollout) { r.Status.Phase = p } }

func heldFor(reason api.Reason) change {
	return func(r *api.Rollout) {
		r.Status.Conditions = append(r.Status.Conditions, api.Condition{Type: api.ConditionHeld, Status: "True", Reason: reason, Message: "mend it."})
	}
}

func succeeded(status string) change {
	return func(r *api.Rollout) { r.Status.Conditions[0].Status = "False"; r.Status.Conditions[0].Message = status }
}

func TestWhereAReleaseStands(t *testing.T) {
	t.Parallel()
	deletion := metav1.Now()
	seen := standing.Workload{Known: true, Generation: 7}
	for name, test := range map[string]struct {
		rollout  *api.Rollout
		workload standing.Workload
		kind     standing.Kind
		text     string
	}{
		"a release that has succeeded is complete":            {healthy(), seen, standing.Complete, "the release of Rollout shop/web is complete"},
		"so it is for who may not read the workload":          {healthy(), standing.Workload{}, standing.Complete, "the release of Rollout shop/web is complete"},
		"without a release there is nothing to wait for":      {healthy(func(r *api.Rollout) { r.Status.Conditions = nil }), seen, standing.Complete, "Rollout shop/web is healthy, and no release is under way"},
		"one that was taken back has failed":                  {healthy(succeeded("canceled")), seen, standing.Failed, "the release of Rollout shop/web did not succeed: canceled"},
		"a held change is a release that begins":              {healthy(), standing.Workload{Known: true, Generation: 7, Held: true}, standing.Unseen, "Deployment web has changed, and Rollout shop/web has not been looked at since; if that lasts, find out why with: sluice check"},
		"so is a change that nobody has seen":                 {healthy(succeeded("canceled")), standing.Workload{Known: true, Generation: 8}, standing.Unseen, "Deployment web has changed, and Rollout shop/web has not been looked at since; if that lasts, find out why with: sluice check"},
		"a status from before a change of the Rollout is old": {healthy(func(r *api.Rollout) { r.Generation = 5 }), seen, standing.Unseen, "Rollout shop/web has not been looked at since it was changed; if that lasts, find out why with: sluice check"},
		"nobody has looked at all":                            {healthy(phase("")), seen, standing.Unseen, "Rollout shop/web has not been looked at yet; if that lasts, find out why with: sluice check"},
		"the workload is being adopted":                       {healthy(phase(api.PhaseInitial)), seen, standing.Unseen, "Initial: the message"},
		"there is no workload":                                {healthy(phase(api.PhaseInitial), heldFor(rollout.HoldWorkloadMissing)), standing.Workload{}, standing.Stuck, "Rollout shop/web is held: mend it."},
		"a step makes pods":                                   {releasing(api.StepUpgrade), seen, standing.Progressing, "step 1 of 2, StepUpgrade: the message"},
		"a step waits for approval":                           {releasing(api.StepPaused), seen, standing.Waiting, "Rollout shop/web is paused at step 1 of 2; approve it with: sluice approve web -n shop"},
		"a step waits for its time": {releasing(api.StepPaused, func(r *api.Rollout) {
			r.Spec.Strategy.Canary.Steps[0].Pause.Duration = new(int32)
		}), seen, standing.Progressing, "step 1 of 2, StepPaused: the message"},
		"a step waits for metrics":             {releasing(api.StepMetricsAnalysis), seen, standing.Progressing, "step 1 of 2, StepMetricsAnalysis: the message"},
		"metrics ask somebody":                 {releasing(api.StepPaused, heldFor(rollout.HoldAnalysisInconclusive)), seen, standing.Stuck, "Rollout shop/web is held: mend it."},
		"something is missing":                 {releasing(api.StepUpgrade, heldFor(rollout.HoldServiceMissing)), seen, standing.Stuck, "Rollout shop/web is held: mend it."},
		"policies that are missing stop none":  {releasing(api.StepUpgrade, heldFor(rollout.HoldPolicyMissing)), seen, standing.Progressing, "step 1 of 2, StepUpgrade: the message"},
		"it is paused as a whole":              {releasing(api.StepPaused, func(r *api.Rollout) { r.Spec.Strategy.Paused = true }), seen, standing.Stuck, "Rollout shop/web is paused as a whole; let it go on with: sluice resume web -n shop"},
		"it was aborted":                       {releasing(api.StepPaused, func(r *api.Rollout) { r.Status.Sluice.State = "Aborted" }), seen, standing.Failed, "the release of Rollout shop/web was aborted: the message"},
		"it is coming to its end":              {releasing(api.StepCompleted, func(r *api.Rollout) { r.Status.CanaryStatus.FinalisingStep = "END" }), seen, standing.Progressing, "Progressing: the message"},
		"the Rollout is disabled":              {healthy(phase(api.PhaseDisabled)), seen, standing.Disabled, "Rollout shop/web is disabled and releases nothing; follow Deployment web itself, or set spec.disabled to false"},
		"the Rollout is being disabled":        {healthy(phase(api.PhaseDisabling)), seen, standing.Progressing, "Disabling: the message"},
		"the Rollout is being deleted":         {releasing(api.StepPaused, func(r *api.Rollout) { r.DeletionTimestamp = &deletion }), seen, standing.Failed, "Rollout shop/web is being deleted: the message"},
		"a blue-green release stands like one": {releasing(api.StepPaused, blueGreen), seen, standing.Waiting, "Rollout shop/web is paused at step 1 of 1; approve it with: sluice approve web -n shop"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			kind, text := standing.Of(test.rollout, test.workload, "sluice")
			if diff := cmp.Diff([]string{string(test.kind), test.text}, []string{string(kind), text}); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// blueGreen makes a release one with a single step that has all replicas, which waits all the same.
func blueGreen(r *api.Rollout) {
	all := intstr.FromString("100%")
	r.Spec.Strategy = api.Strategy{BlueGreen: &api.BlueGreenStrategy{Steps: []api.Step{{Replicas: &all}}}}
	r.Status.BlueGreenStatus, r.Status.CanaryStatus = &api.BlueGreenStatus{CommonStatus: r.Status.CanaryStatus.CommonStatus}, nil
}
