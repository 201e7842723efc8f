package executor

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
)

func TestTransitionsInTheWordsOfEvents(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		to     rollout.State
		reason string
		want   string
	}{
		"a release begins":             {rollout.StateInitializing, "ReleaseStarted", "rollout.started"},
		"a step begins":                {rollout.StateBeforeUpgrade, "StepStarted", "step.started"},
		"pods are made":                {rollout.StateUpgrade, "Upgrade", "step.upgrading"},
		"pods are ready":               {rollout.StateTrafficRouting, "PodsReady", "step.upgraded"},
		"traffic is there":             {rollout.StateAnalysis, "Routed", "traffic.routed"},
		"a step waits":                 {rollout.StatePaused, "NoAnalysis", "step.paused"},
		"a step was approved":          {rollout.StateReady, "Approved", "step.ready"},
		"all steps are done":           {rollout.StateCompleted, "StepsDone", "rollout.promoted"},
		"the end begins":               {rollout.StateFinalising, "Success", "rollout.finalising"},
		"a release has ended":          {rollout.StateIdle, "Completed", "rollout.completed"},
		"a release was called off":     {rollout.StateIdle, "Canceled", "rollout.canceled"},
		"the Rollout is disabled":      {rollout.StateDisabled, "Disabled", "rollout.disabled"},
		"the Rollout is being deleted": {rollout.StateTerminated, "Deleted", "rollout.deleted"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			noun, verb := vocabulary(api.Transition{To: string(c.to), Reason: c.reason})
			if diff := cmp.Diff(c.want, noun+"."+verb); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestOnlyWhatIsNewIsNoted(t *testing.T) {
	t.Parallel()
	o := newOutbox("default", nil)
	seen := rollout.Seen{UID: "u", Status: api.RolloutStatus{Sluice: &api.SluiceStatus{Transitions: []api.Transition{
		{Seq: 1, Reason: "ReleaseStarted", Message: "old"},
		{Seq: 2, Reason: "PodsReady", Message: "ready"},
		{Seq: 3, Reason: "Routed", Message: "nobody asks for it"},
		{Seq: 4, Reason: "Approved", Message: "approved"},
		{Seq: 5, Reason: string(api.FinaliseRollback), Message: "back"},
	}}}}
	o.mark("u", 1)
	want := []rollout.Note{
		{Reason: "Progressing", Message: "ready"}, {Reason: "Approved", Message: "approved"},
		{Reason: "Progressing", Message: "workload has been rollback, then rollout is canceled"},
	}
	if diff := cmp.Diff(want, notesOf(seen, o)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := notesOf(rollout.Seen{UID: "u"}, o); got != nil {
		t.Errorf("a Rollout without a status is noted: %v", got)
	}
}
