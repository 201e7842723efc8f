package executor

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
)

func TestOnlyWhatIsNewIsNoted(t *testing.T) {
	t.Parallel()
	o := newOutbox("default", nil)
	seen := rollout.Seen{UID: "u", Status: api.RolloutStatus{Sluice: &api.SluiceStatus{Transitions: []api.Transition{
		{Seq: 1, Reason: "ReleaseStarted", Message: "old"},
		{Seq: 2, Reason: "PodsReady", Message: "ready"},
		{Seq: 3, Reason: "Routed", Message: "nobody asks for it"},
		{Seq: 4, Reason: "Approved", Message: "approved"},
		{Seq: 5, Reason: string(api.FinaliseRollback), Message: "back"},
		{Seq: 6, To: string(rollout.StateStalled), Reason: string(rollout.ReasonProgressDeadlineExceeded), Message: "has a note of its own"},
		{Seq: 7, To: string(rollout.StateAborted), Reason: string(rollout.ReasonProgressDeadlineExceeded), Message: "late"},
	}}}}
	o.sent.Put("u", 1)
	want := []rollout.KubeEvent{
		{Reason: "Progressing", Message: "ready"}, {Reason: "Approved", Message: "approved"},
		{Reason: "Progressing", Message: "workload has been rollback, then rollout is canceled"},
		{Warning: true, Reason: "ProgressDeadlineExceeded", Message: "late"},
	}
	if diff := cmp.Diff(want, kubeEventsOf(seen, o)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := kubeEventsOf(rollout.Seen{UID: "u"}, o); got != nil {
		t.Errorf("a Rollout without a status is noted: %v", got)
	}
}
