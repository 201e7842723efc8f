package rollout_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice.dev/sluice/pkg/rollout"
)

func TestEachBatchGetsThePodsOfItsPlan(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		have       []int // the batches of the pods that have one
		unlabelled int32
		plan, want []int32
	}{
		"the first step":                            {nil, 1, []int32{1}, []int32{1}},
		"a jump from step 1 to step 3":              {[]int{1}, 2, []int32{1, 1, 1}, []int32{2, 3}},
		"a workload that was scaled up":             {[]int{1, 2}, 2, []int32{2, 2}, []int32{1, 2}},
		"a workload that was scaled down":           {[]int{1, 1, 2, 2}, 1, []int32{1, 1}, nil},
		"a lost pod of an older batch":              {[]int{2, 2, 3}, 1, []int32{1, 2, 1}, []int32{1}},
		"pods that come one by one":                 {nil, 1, []int32{2, 2}, []int32{1}},
		"more pods than the plan has":               {[]int{1}, 3, []int32{1, 1}, []int32{2}},
		"a step that has no pods more than another": {[]int{1}, 1, []int32{1, 0, 1}, []int32{3}},
		"no pods left":                              {[]int{1}, 0, []int32{1, 1}, nil},
		"a pod of a later batch, after a jump back": {[]int{1, 3}, 0, []int32{1}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := rollout.PodBatches{Unlabelled: c.unlabelled}
			for _, batch := range c.have {
				b.AddPod(batch)
			}
			if diff := cmp.Diff(c.want, b.AssignBatches(c.plan)); diff != "" {
				t.Errorf("the batches differ (-want +got):\n%s", diff)
			}
		})
	}
}
