package workload_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sluice.dev/sluice/pkg/rollout"
	"sluice.dev/sluice/pkg/workload"
)

func TestPodsCountInTheBatchThatTheirLabelsName(t *testing.T) {
	t.Parallel()
	pod := func(name, id, batch, kept string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
			"rollouts.kruise.io/rollout-id": id, "rollouts.kruise.io/rollout-batch-id": batch, "rollouts.kruise.io/no-need-update": kept,
		}}}
	}
	batches, rest := workload.CountBatches([]*corev1.Pod{
		pod("kept", "", "", "r2"), pod("first", "r2", "1", ""), pod("third", "r2", "3", ""), pod("of an older release", "r1", "1", ""), pod("no number", "r2", "x", ""),
		pod("beyond the steps", "r2", "4", ""), pod("zero", "r2", "0", ""), pod("new", "", "", ""), pod("kept by an older release", "", "", "r1"), pod("kept, in a batch", "r2", "1", "r2"),
	}, "r2", 3)
	if diff := cmp.Diff(rollout.PodBatches{Labelled: []int32{2, 0, 1}, Unlabelled: 7}, batches); diff != "" {
		t.Errorf("the batches differ (-want +got):\n%s", diff)
	}
	want := []string{"of an older release", "no number", "beyond the steps", "zero", "new", "kept by an older release", "kept"}
	if diff := cmp.Diff(want, names(rest)); diff != "" {
		t.Errorf("the pods without a batch differ (-want +got):\n%s", diff)
	}
}
