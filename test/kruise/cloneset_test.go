package kruise_test

import "testing"

func TestACloneSetMovesByItsPartition(t *testing.T) {
	t.Parallel()
	w := aWorkload(t, plane(t), cloneSets, 5, "replicas: 5")
	play(t, w, []step{
		{
			sentence: "it starts",
			want:     state{Pods: map[string]int{"shop:1": 5}, All: 5, Updated: 5, Ready: 5, Available: 5, Current: "shop:1", Update: "shop:1"},
		},
		{
			sentence: "100% holds a new template back",
			patch:    `{spec: {updateStrategy: {partition: "100%"}, template: {spec: {containers: [{name: shop, image: "shop:2"}]}}}}`,
			want:     state{Pods: map[string]int{"shop:1": 5}, All: 5, Current: "shop:1", Update: "shop:2"},
		},
		{
			sentence: "a pod that is lost comes back as it was",
			lose:     "shop:1",
			want:     state{Pods: map[string]int{"shop:1": 5}, All: 5, Current: "shop:1", Update: "shop:2"},
		},
		{
			sentence: "a pod more is of the stable revision, for 100% is of all replicas",
			patch:    `{spec: {replicas: 6}}`,
			want:     state{Pods: map[string]int{"shop:1": 6}, All: 6, Current: "shop:1", Update: "shop:2"},
		},
		{
			sentence: "a number is of the replicas that there were: a pod more is new",
			patch:    `{spec: {replicas: 7, updateStrategy: {partition: 6}}}`,
			want:     state{Pods: map[string]int{"shop:1": 6, "shop:2": 1}, All: 7, Updated: 1, Ready: 1, Available: 1, Current: "shop:1", Update: "shop:2"},
		},
		{
			sentence: "60% of 5 stay old",
			patch:    `{spec: {replicas: 5, updateStrategy: {partition: "60%"}}}`,
			want:     state{Pods: map[string]int{"shop:1": 3, "shop:2": 2}, All: 5, Updated: 2, Ready: 2, Available: 2, Current: "shop:1", Update: "shop:2"},
		},
		{
			sentence: "2 stay old",
			patch:    `{spec: {updateStrategy: {partition: 2}}}`,
			want:     state{Pods: map[string]int{"shop:1": 2, "shop:2": 3}, All: 5, Updated: 3, Ready: 3, Available: 3, Current: "shop:1", Update: "shop:2"},
		},
		{
			sentence: "a higher partition takes no pod back, and may be above the replicas",
			patch:    `{spec: {updateStrategy: {partition: 50}}}`,
			want:     state{Pods: map[string]int{"shop:1": 2, "shop:2": 3}, All: 5, Updated: 3, Ready: 3, Available: 3, Current: "shop:1", Update: "shop:2"},
		},
		{
			sentence: "an updated pod that is lost then comes back old",
			lose:     "shop:2",
			want:     state{Pods: map[string]int{"shop:1": 3, "shop:2": 2}, All: 5, Updated: 2, Ready: 2, Available: 2, Current: "shop:1", Update: "shop:2"},
		},
		{
			sentence: "99% is never nothing: one pod is new, and the two that are stay",
			patch:    `{spec: {updateStrategy: {partition: "99%"}}}`,
			want:     state{Pods: map[string]int{"shop:1": 3, "shop:2": 2}, All: 5, Updated: 2, Ready: 2, Available: 2, Current: "shop:1", Update: "shop:2"},
		},
		{
			sentence: "without a partition all are new, and the revision is current",
			patch:    `{spec: {updateStrategy: {partition: null}}}`,
			want:     state{Pods: map[string]int{"shop:2": 5}, All: 5, Updated: 5, Ready: 5, Available: 5, Current: "shop:2", Update: "shop:2"},
		},
	})
}

func TestPausingACloneSetHoldsOnlyPodsThatStand(t *testing.T) {
	t.Parallel()
	w := aWorkload(t, plane(t), cloneSets, 3, "replicas: 3")
	play(t, w, []step{
		{
			sentence: "paused, no pod is replaced",
			patch:    `{spec: {updateStrategy: {paused: true}, template: {spec: {containers: [{name: shop, image: "shop:2"}]}}}}`,
			want:     state{Pods: map[string]int{"shop:1": 3}, All: 3, Current: "shop:1", Update: "shop:2"},
		},
		{
			sentence: "a pod more is new all the same",
			patch:    `{spec: {replicas: 4}}`,
			want:     state{Pods: map[string]int{"shop:1": 3, "shop:2": 1}, All: 4, Updated: 1, Ready: 1, Available: 1, Current: "shop:1", Update: "shop:2"},
		},
		{
			sentence: "a pod that is lost comes back new",
			lose:     "shop:1",
			want:     state{Pods: map[string]int{"shop:1": 2, "shop:2": 2}, All: 4, Updated: 2, Ready: 2, Available: 2, Current: "shop:1", Update: "shop:2"},
		},
		{
			sentence: "resumed, all are new",
			patch:    `{spec: {updateStrategy: {paused: false}}}`,
			want:     state{Pods: map[string]int{"shop:2": 4}, All: 4, Updated: 4, Ready: 4, Available: 4, Current: "shop:2", Update: "shop:2"},
		},
	})
}

func TestTheTemplateOfACloneSetIsTakenBack(t *testing.T) {
	t.Parallel()
	w := aWorkload(t, plane(t), cloneSets, 5, "replicas: 5")
	play(t, w, []step{
		{
			sentence: "two pods are new",
			patch:    `{spec: {updateStrategy: {partition: "60%"}, template: {spec: {containers: [{name: shop, image: "shop:2"}]}}}}`,
			want:     state{Pods: map[string]int{"shop:1": 3, "shop:2": 2}, All: 5, Updated: 2, Ready: 2, Available: 2, Current: "shop:1", Update: "shop:2"},
		},
		{
			sentence: "a third template that 100% holds back counts from nothing",
			patch:    `{spec: {updateStrategy: {partition: "100%"}, template: {spec: {containers: [{name: shop, image: "shop:3"}]}}}}`,
			want:     state{Pods: map[string]int{"shop:1": 3, "shop:2": 2}, All: 5, Current: "shop:1", Update: "shop:3"},
		},
		{
			sentence: "the first template back: enough pods are of it, so the others stay what they are",
			patch:    `{spec: {updateStrategy: {partition: "40%"}, template: {spec: {containers: [{name: shop, image: "shop:1"}]}}}}`,
			want:     state{Pods: map[string]int{"shop:1": 3, "shop:2": 2}, All: 5, Updated: 3, Ready: 3, Available: 3, Current: "shop:1", Update: "shop:1"},
		},
		{
			sentence: "without a partition they go",
			patch:    `{spec: {updateStrategy: {partition: 0}}}`,
			want:     state{Pods: map[string]int{"shop:1": 5}, All: 5, Updated: 5, Ready: 5, Available: 5, Current: "shop:1", Update: "shop:1"},
		},
		{
			sentence: "a broken template stops at maxUnavailable, a fifth",
			patch:    `{spec: {template: {metadata: {annotations: {sluice.dev/never-ready: "true"}}, spec: {containers: [{name: shop, image: "shop:4"}]}}}}`,
			want:     state{Pods: map[string]int{"shop:1": 4, "shop:4?": 1}, All: 5, Updated: 1, Current: "shop:1", Update: "shop:4"},
		},
		{
			sentence: "taken back, the broken pod goes at once",
			patch:    `{spec: {template: {metadata: {annotations: null}, spec: {containers: [{name: shop, image: "shop:1"}]}}}}`,
			want:     state{Pods: map[string]int{"shop:1": 5}, All: 5, Updated: 5, Ready: 5, Available: 5, Current: "shop:1", Update: "shop:1"},
		},
	})
}

func TestACloneSetSurges(t *testing.T) {
	t.Parallel()
	w := aWorkload(t, plane(t), cloneSets, 5, "replicas: 5")
	play(t, w, []step{
		{
			sentence: "new pods stand beside the old ones until they are available",
			patch: `{spec: {minReadySeconds: 3600, updateStrategy: {maxSurge: 2, maxUnavailable: 0, partition: "60%"},
				template: {spec: {containers: [{name: shop, image: "shop:2"}]}}}}`,
			want: state{Pods: map[string]int{"shop:1": 5, "shop:2": 2}, All: 7, Updated: 2, Ready: 2, Current: "shop:1", Update: "shop:2"},
		},
		{
			sentence: "taken back under minReadySeconds, the new pods stay",
			patch:    `{spec: {template: {spec: {containers: [{name: shop, image: "shop:1"}]}}}}`,
			want:     state{Pods: map[string]int{"shop:1": 5, "shop:2": 2}, All: 7, Updated: 5, Ready: 5, Current: "shop:1", Update: "shop:1"},
		},
		{
			sentence: "forward again, and available at once",
			patch:    `{spec: {minReadySeconds: 0, template: {spec: {containers: [{name: shop, image: "shop:2"}]}}}}`,
			want:     state{Pods: map[string]int{"shop:1": 3, "shop:2": 2}, All: 5, Updated: 2, Ready: 2, Available: 2, Current: "shop:1", Update: "shop:2"},
		},
	})
}

func TestUnderMinReadySecondsACloneSetStandsStill(t *testing.T) {
	t.Parallel()
	w := aWorkload(t, plane(t), cloneSets, 5, "replicas: 5")
	play(t, w, []step{
		{
			sentence: "no pod is available that long, so none is replaced",
			patch:    `{spec: {minReadySeconds: 3600, template: {spec: {containers: [{name: shop, image: "shop:2"}]}}}}`,
			want:     state{Pods: map[string]int{"shop:1": 5}, All: 5, Current: "shop:1", Update: "shop:2"},
		},
		{
			sentence: "but one that is lost comes back new",
			lose:     "shop:1",
			want:     state{Pods: map[string]int{"shop:1": 4, "shop:2": 1}, All: 5, Updated: 1, Ready: 1, Current: "shop:1", Update: "shop:2"},
		},
	})
}

func TestNothingHoldsACloneSetOfNoReplicas(t *testing.T) {
	t.Parallel()
	w := aWorkload(t, plane(t), cloneSets, 0, "replicas: 0")
	play(t, w, []step{
		{
			sentence: "a template that 100% holds back is current at once",
			patch:    `{spec: {updateStrategy: {partition: "100%"}, template: {spec: {containers: [{name: shop, image: "shop:2"}]}}}}`,
			want:     state{Pods: map[string]int{}, Current: "shop:2", Update: "shop:2"},
		},
		{
			sentence: "and the first pods are new",
			patch:    `{spec: {replicas: 2}}`,
			want:     state{Pods: map[string]int{"shop:2": 2}, All: 2, Updated: 2, Ready: 2, Available: 2, Current: "shop:2", Update: "shop:2"},
		},
	})
}

// A lost pod of a full surge does not come back. With more than half of the pods new, the controller wants fewer pods
// than there are.
func TestTheSurgeOfACloneSetDoesNotLast(t *testing.T) {
	t.Parallel()
	w := aWorkload(t, plane(t), cloneSets, 5, "replicas: 5")
	play(t, w, []step{
		{
			sentence: "all new pods stand beside the old ones",
			patch: `{spec: {minReadySeconds: 2147483646, updateStrategy: {maxSurge: "100%", maxUnavailable: 0},
				template: {spec: {containers: [{name: shop, image: "shop:2"}]}}}}`,
			want: state{Pods: map[string]int{"shop:1": 5, "shop:2": 5}, All: 10, Updated: 5, Ready: 5, Current: "shop:1", Update: "shop:2"},
		},
		{
			sentence: "an old pod that is lost stays away",
			lose:     "shop:1", forGood: true,
			want: state{Pods: map[string]int{"shop:1": 4, "shop:2": 5}, All: 9, Updated: 5, Ready: 5, Current: "shop:1", Update: "shop:2"},
		},
		{
			sentence: "and so does a new one",
			lose:     "shop:2", forGood: true,
			want: state{Pods: map[string]int{"shop:1": 4, "shop:2": 4}, All: 8, Updated: 4, Ready: 4, Current: "shop:1", Update: "shop:2"},
		},
		{
			sentence: "a pod more is not wanted",
			patch:    `{spec: {replicas: 6}}`,
			want:     state{Pods: map[string]int{"shop:1": 4, "shop:2": 4}, All: 8, Updated: 4, Ready: 4, Current: "shop:1", Update: "shop:2"},
		},
	})
}

func TestACloneSetOfMoreReplicasKeepsBothVersions(t *testing.T) {
	t.Parallel()
	w := aWorkload(t, plane(t), cloneSets, 5, "replicas: 5")
	both := state{Pods: map[string]int{"shop:1": 5, "shop:2": 5}, All: 10, Updated: 5, Ready: 5, Current: "shop:1", Update: "shop:2"}
	play(t, w, []step{
		{
			sentence: "those above the partition are new",
			patch: `{spec: {replicas: 10, minReadySeconds: 2147483646, updateStrategy: {partition: 5},
				template: {spec: {containers: [{name: shop, image: "shop:2"}]}}}}`,
			want: both,
		},
		{sentence: "an old pod that is lost comes back old", lose: "shop:1", want: both},
		{sentence: "a new one new", lose: "shop:2", want: both},
		{sentence: "with fewer replicas none goes that is ready", patch: `{spec: {replicas: 3}}`, want: both},
		{
			sentence: "the first template back: they stand still",
			patch:    `{spec: {replicas: 5, updateStrategy: {partition: null}, template: {spec: {containers: [{name: shop, image: "shop:1"}]}}}}`,
			want:     state{Pods: map[string]int{"shop:1": 5, "shop:2": 5}, All: 10, Updated: 5, Ready: 5, Current: "shop:1", Update: "shop:1"},
		},
		{
			sentence: "available again, those of the other version go",
			patch:    `{spec: {minReadySeconds: 0}}`,
			want:     state{Pods: map[string]int{"shop:1": 5}, All: 5, Updated: 5, Ready: 5, Available: 5, Current: "shop:1", Update: "shop:1"},
		},
	})
}
