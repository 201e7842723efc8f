package rollout

import "slices"

// PodBatches has the numbers of new pods by the batch that their labels name. A batch is what a step adds to the pods of the steps before it.
type PodBatches struct {
	// Labelled has the pods of each batch, from batch 1 on. The last batches may be missing.
	Labelled []int32
	// Unlabelled is the number of pods without a batch of the release. A rollback in batches gives the pods that it keeps their batches last.
	Unlabelled int32
}

// AssignBatches returns the batch of each unlabelled pod that the plan has room for, lowest batch first. The plan has the pods of each batch, from
// batch 1 on. As in OpenKruise, each batch gets as many pods as the plan says, and pods above the plan get no batch.
func (b PodBatches) AssignBatches(plan []int32) []int32 {
	var batches []int32
	left := b.Unlabelled
	for i, want := range plan {
		if i < len(b.Labelled) {
			want -= b.Labelled[i]
		}
		for ; want > 0 && left > 0; want, left = want-1, left-1 {
			batches = append(batches, int32(i)+1)
		}
	}
	return batches
}

// WithAssigned returns the batches after as many unlabelled pods have got a batch each.
func (b PodBatches) WithAssigned(assigned []int32) PodBatches {
	after := PodBatches{Labelled: slices.Clone(b.Labelled), Unlabelled: b.Unlabelled - int32(len(assigned))}
	for _, batch := range assigned {
		after.AddPod(int(batch))
	}
	return after
}

// AddPod counts a pod of a batch, from 1 on.
func (b *PodBatches) AddPod(batch int) {
	for len(b.Labelled) < batch {
		b.Labelled = append(b.Labelled, 0)
	}
	b.Labelled[batch-1]++
}
