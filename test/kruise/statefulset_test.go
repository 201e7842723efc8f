package kruise_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// both plays a test with the two kinds of StatefulSet. It leaves out the values that the native kind does not have.
func both(t *testing.T, play func(*testing.T, schema.GroupVersionResource, func(state) state)) {
	t.Helper()
	t.Run("Advanced", func(t *testing.T) {
		t.Parallel()
		play(t, advancedStatefulSets, func(s state) state { return s })
	})
	t.Run("native", func(t *testing.T) {
		t.Parallel()
		play(t, statefulSets, func(s state) state {
			s.Ready, s.Available = 0, 0
			return s
		})
	})
}

const anyOrder = `
replicas: 5
podManagementPolicy: Parallel
`

func TestAStatefulSetMovesByItsPartition(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, resource schema.GroupVersionResource, says func(state) state) {
		w := aWorkload(t, plane(t), resource, 5, anyOrder)
		play(t, w, []step{
			{
				sentence: "a partition above the replicas holds a new template back",
				patch:    `{spec: {updateStrategy: {rollingUpdate: {partition: 32767}}, template: {spec: {containers: [{name: shop, image: "shop:2"}]}}}}`,
				want:     says(state{Pods: map[string]int{"shop:1": 5}, All: 5, Current: "shop:1", Update: "shop:2"}),
			},
			{
				sentence: "a pod that is lost comes back as it was",
				lose:     "shop:1",
				want:     says(state{Pods: map[string]int{"shop:1": 5}, All: 5, Current: "shop:1", Update: "shop:2"}),
			},
			{
				sentence: "a pod more is of the stable revision while the partition is above its ordinal",
				patch:    `{spec: {replicas: 6}}`,
				want:     says(state{Pods: map[string]int{"shop:1": 6}, All: 6, Current: "shop:1", Update: "shop:2"}),
			},
			{
				sentence: "the pods from the partition on are new",
				patch:    `{spec: {replicas: 5, updateStrategy: {rollingUpdate: {partition: 3}}}}`,
				want:     says(state{Pods: map[string]int{"shop:1": 3, "shop:2": 2}, All: 5, Updated: 2, Ready: 2, Available: 2, Current: "shop:1", Update: "shop:2"}),
			},
			{
				sentence: "and so is each pod more",
				patch:    `{spec: {replicas: 7}}`,
				want:     says(state{Pods: map[string]int{"shop:1": 3, "shop:2": 4}, All: 7, Updated: 4, Ready: 4, Available: 4, Current: "shop:1", Update: "shop:2"}),
			},
			{
				sentence: "a higher partition takes no pod back",
				patch:    `{spec: {replicas: 5, updateStrategy: {rollingUpdate: {partition: 32767}}}}`,
				want:     says(state{Pods: map[string]int{"shop:1": 3, "shop:2": 2}, All: 5, Updated: 2, Ready: 2, Available: 2, Current: "shop:1", Update: "shop:2"}),
			},
			{
				sentence: "an updated pod that is lost then comes back old",
				lose:     "shop:2",
				want:     says(state{Pods: map[string]int{"shop:1": 4, "shop:2": 1}, All: 5, Updated: 1, Ready: 1, Available: 1, Current: "shop:1", Update: "shop:2"}),
			},
			{
				sentence: "the first template back, under such a partition the new pods stay",
				patch:    `{spec: {template: {spec: {containers: [{name: shop, image: "shop:1"}]}}}}`,
				want:     says(state{Pods: map[string]int{"shop:1": 4, "shop:2": 1}, All: 5, Updated: 4, Ready: 4, Available: 4, Current: "shop:1", Update: "shop:1"}),
			},
			{
				sentence: "a low one lets them go",
				patch:    `{spec: {updateStrategy: {rollingUpdate: {partition: 3}}}}`,
				want:     says(state{Pods: map[string]int{"shop:1": 5}, All: 5, Updated: 5, Ready: 5, Available: 5, Current: "shop:1", Update: "shop:1"}),
			},
			{
				sentence: "without a partition all are new, and the revision is current",
				patch:    `{spec: {updateStrategy: {rollingUpdate: {partition: null}}, template: {spec: {containers: [{name: shop, image: "shop:3"}]}}}}`,
				want:     says(state{Pods: map[string]int{"shop:3": 5}, All: 5, Updated: 5, Ready: 5, Available: 5, Current: "shop:3", Update: "shop:3"}),
			},
		})
	})
}

func TestABrokenPodOfAnOrderedStatefulSetStaysUntilItIsDeleted(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, resource schema.GroupVersionResource, says func(state) state) {
		w := aWorkload(t, plane(t), resource, 3, "replicas: 3")
		play(t, w, []step{
			{
				sentence: "a broken template stops at its first pod",
				patch:    `{spec: {template: {metadata: {annotations: {sluice.dev/never-ready: "true"}}, spec: {containers: [{name: shop, image: "shop:2"}]}}}}`,
				want:     says(state{Pods: map[string]int{"shop:1": 2, "shop:2?": 1}, All: 3, Updated: 1, Current: "shop:1", Update: "shop:2"}),
			},
			{
				sentence: "taken back, the broken pod stays",
				patch:    `{spec: {template: {metadata: {annotations: null}, spec: {containers: [{name: shop, image: "shop:1"}]}}}}`,
				want:     says(state{Pods: map[string]int{"shop:1": 2, "shop:2?": 1}, All: 3, Updated: 2, Ready: 2, Available: 2, Current: "shop:1", Update: "shop:1"}),
			},
			{
				sentence: "until a user deletes it",
				lose:     "shop:2",
				want:     says(state{Pods: map[string]int{"shop:1": 3}, All: 3, Updated: 3, Ready: 3, Available: 3, Current: "shop:1", Update: "shop:1"}),
			},
		})
	})
}

// A StatefulSet knows its stable revision after its last stable pod is lost. The Advanced one may forget it, because
// that depends on the moment at which its controller writes the status. A release therefore keeps the stable revision
// itself.
func TestAStatefulSetRemembersItsStableRevisionWithoutItsPods(t *testing.T) {
	t.Parallel()
	w := aWorkload(t, plane(t), statefulSets, 5, anyOrder)
	one := state{Pods: map[string]int{"shop:1": 1, "shop:2": 4}, All: 5, Updated: 4, Current: "shop:1", Update: "shop:2"}
	play(t, w, []step{
		{
			sentence: "one pod is old",
			patch:    `{spec: {updateStrategy: {rollingUpdate: {partition: 1}}, template: {spec: {containers: [{name: shop, image: "shop:2"}]}}}}`,
			want:     one,
		},
		{sentence: "it is lost and comes back old", lose: "shop:1", want: one},
		{sentence: "it is lost again", lose: "shop:1", want: one},
	})
}

func TestAnAdvancedStatefulSetPauses(t *testing.T) {
	t.Parallel()
	w := aWorkload(t, plane(t), advancedStatefulSets, 5, anyOrder)
	play(t, w, []step{
		{
			sentence: "paused, no pod is replaced",
			patch: `{spec: {updateStrategy: {rollingUpdate: {paused: true, podUpdatePolicy: ReCreate}},
				template: {spec: {containers: [{name: shop, image: "shop:2"}]}}}}`,
			want: state{Pods: map[string]int{"shop:1": 5}, All: 5, Current: "shop:1", Update: "shop:2"},
		},
		{
			sentence: "a pod more is new all the same",
			patch:    `{spec: {replicas: 6}}`,
			want:     state{Pods: map[string]int{"shop:1": 5, "shop:2": 1}, All: 6, Updated: 1, Ready: 1, Available: 1, Current: "shop:1", Update: "shop:2"},
		},
		{
			sentence: "resumed, all are new",
			patch:    `{spec: {updateStrategy: {rollingUpdate: {paused: false}}}}`,
			want:     state{Pods: map[string]int{"shop:2": 6}, All: 6, Updated: 6, Ready: 6, Available: 6, Current: "shop:2", Update: "shop:2"},
		},
	})
}

// If all pods are younger than minReadySeconds and unavailable, the controller may replace them regardless of
// maxUnavailable.
func TestUnderMinReadySecondsAnAdvancedStatefulSetReplacesAllYoungPodsAtOnce(t *testing.T) {
	t.Parallel()
	w := aWorkload(t, plane(t), advancedStatefulSets, 5, anyOrder)
	play(t, w, []step{{
		sentence: "all are new, and none is available",
		patch:    `{spec: {updateStrategy: {rollingUpdate: {minReadySeconds: 300}}, template: {spec: {containers: [{name: shop, image: "shop:2"}]}}}}`,
		want:     state{Pods: map[string]int{"shop:2": 5}, All: 5, Updated: 5, Ready: 5, Current: "shop:2", Update: "shop:2"},
	}})
}

func TestNothingHoldsAStatefulSetOfNoReplicas(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, resource schema.GroupVersionResource, says func(state) state) {
		w := aWorkload(t, plane(t), resource, 0, "replicas: 0")
		play(t, w, []step{
			{
				sentence: "a template that is held back is current at once",
				patch:    `{spec: {updateStrategy: {rollingUpdate: {partition: 32767}}, template: {spec: {containers: [{name: shop, image: "shop:2"}]}}}}`,
				want:     says(state{Pods: map[string]int{}, Current: "shop:2", Update: "shop:2"}),
			},
			{
				sentence: "and the first pods are new",
				patch:    `{spec: {replicas: 2}}`,
				want:     says(state{Pods: map[string]int{"shop:2": 2}, All: 2, Updated: 2, Ready: 2, Available: 2, Current: "shop:2", Update: "shop:2"}),
			},
		})
	})
}
