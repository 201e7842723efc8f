package kube

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice.dev/sluice/pkg/api"
)

func TestARecordIsCalledWhatTheReleaseIsCalled(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		machine api.SluiceStatus
		want    string
	}{
		"by its owner's id":                     {api.SluiceStatus{RolloutID: "v1.4"}, "v1.4"},
		"else by its revision":                  {api.SluiceStatus{CanaryRevision: "v2"}, "v2"},
		"a rollback in batches says what it is": {api.SluiceStatus{CanaryRevision: "v1", RollbackReplicas: 3}, "rollback-v1"},
		"unless its owner has named it":         {api.SluiceStatus{CanaryRevision: "v1", RollbackReplicas: 3, RolloutID: "back"}, "back"},
		"another one under way says nothing":    {api.SluiceStatus{Epoch: 9, CanaryRevision: "v9", RollbackReplicas: 3, RolloutID: "v9"}, "recorded"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			recorded := c.machine.CanaryRevision
			if c.machine.Epoch != 0 {
				recorded = "recorded"
			}
			of := HistoryObjects{rollout: &api.Rollout{Status: api.RolloutStatus{Sluice: &c.machine}}}
			h := of.buildRecord(api.RolloutHistoryStatus{CanaryRevision: recorded})
			if diff := cmp.Diff([]string{c.want, c.want}, []string{h.Spec.Rollout.RolloutID, h.Labels[api.LabelRolloutID]}); diff != "" {
				t.Errorf("the id and the label (-want +got):\n%s", diff)
			}
		})
	}
}
