package workload

import (
	"slices"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
)

// CountBatches counts new pods by their batches in the release of that id, whose last batch is batches. It also returns the pods without such a batch. A
// pod that was updated in place may have the id of an older release. The pods that a rollback keeps come last.
func CountBatches[P metav1.Object](pods []P, id string, batches int) (rollout.PodBatches, []P) {
	var b rollout.PodBatches
	var unlabelled []P
	for _, pod := range pods {
		batch, err := strconv.Atoi(pod.GetLabels()[api.LabelRolloutBatchID])
		if pod.GetLabels()[api.LabelRolloutID] == id && err == nil && batch > 0 && batch <= batches {
			b.AddPod(batch)
		} else {
			unlabelled = append(unlabelled, pod)
		}
	}
	slices.SortStableFunc(unlabelled, func(x, y P) int { return keptRank(x, id) - keptRank(y, id) })
	b.Unlabelled = int32(len(unlabelled))
	return b, unlabelled
}

func keptRank(pod metav1.Object, id string) int {
	if IsKeptPod(pod, id) {
		return 1
	}
	return 0
}

// IsKeptPod reports whether the rollback of that id keeps the pod as it is.
func IsKeptPod(pod metav1.Object, id string) bool {
	return pod.GetLabels()[api.LabelNoNeedUpdate] == id
}
