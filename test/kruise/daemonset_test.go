package kruise_test

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestAnAdvancedDaemonSetMovesByItsPartition(t *testing.T) {
	t.Parallel()
	w := aWorkload(t, plane(t), advancedDaemonSets, nodes, "")
	play(t, w, []step{
		{
			sentence: "a partition above the pods holds a new template back",
			patch:    `{spec: {updateStrategy: {rollingUpdate: {partition: 32767}}, template: {spec: {containers: [{name: shop, image: "shop:2"}]}}}}`,
			want:     state{Pods: map[string]int{"shop:1": 5}, All: 5, Update: "shop:2"},
		},
		{
			sentence: "a pod that is lost comes back new all the same",
			lose:     "shop:1",
			want:     state{Pods: map[string]int{"shop:1": 4, "shop:2": 1}, All: 5, Updated: 1, Update: "shop:2"},
		},
		{
			sentence: "3 stay old",
			patch:    `{spec: {updateStrategy: {rollingUpdate: {partition: 3}}}}`,
			want:     state{Pods: map[string]int{"shop:1": 3, "shop:2": 2}, All: 5, Updated: 2, Update: "shop:2"},
		},
		{
			sentence: "a higher partition takes no pod back",
			patch:    `{spec: {updateStrategy: {rollingUpdate: {partition: 5}}}}`,
			want:     state{Pods: map[string]int{"shop:1": 3, "shop:2": 2}, All: 5, Updated: 2, Update: "shop:2"},
		},
		{
			sentence: "the first template back: enough pods are of it, so the others stay what they are",
			patch:    `{spec: {updateStrategy: {rollingUpdate: {partition: 2}}, template: {spec: {containers: [{name: shop, image: "shop:1"}]}}}}`,
			want:     state{Pods: map[string]int{"shop:1": 3, "shop:2": 2}, All: 5, Updated: 3, Update: "shop:1"},
		},
		{
			sentence: "without a partition they go",
			patch:    `{spec: {updateStrategy: {rollingUpdate: {partition: null}}}}`,
			want:     state{Pods: map[string]int{"shop:1": 5}, All: 5, Updated: 5, Update: "shop:1"},
		},
		{
			sentence: "paused, no pod is replaced",
			patch:    `{spec: {updateStrategy: {rollingUpdate: {paused: true}}, template: {spec: {containers: [{name: shop, image: "shop:3"}]}}}}`,
			want:     state{Pods: map[string]int{"shop:1": 5}, All: 5, Update: "shop:3"},
		},
		{
			sentence: "but one that is lost comes back new",
			lose:     "shop:1",
			want:     state{Pods: map[string]int{"shop:1": 4, "shop:3": 1}, All: 5, Updated: 1, Update: "shop:3"},
		},
		{
			sentence: "resumed, all are new",
			patch:    `{spec: {updateStrategy: {rollingUpdate: {paused: false}}}}`,
			want:     state{Pods: map[string]int{"shop:3": 5}, All: 5, Updated: 5, Update: "shop:3"},
		},
		{
			sentence: "under minReadySeconds no pod is available, and all are replaced at once",
			patch:    `{spec: {minReadySeconds: 3600, template: {spec: {containers: [{name: shop, image: "shop:4"}]}}}}`,
			want:     state{Pods: map[string]int{"shop:4": 5}, All: 5, Updated: 5, Update: "shop:4"},
		},
	})
}

func TestADaemonSetMovesByThePodsThatAreDeleted(t *testing.T) {
	t.Parallel()
	w := aWorkload(t, plane(t), daemonSets, nodes, "updateStrategy: {type: RollingUpdate, rollingUpdate: {maxUnavailable: 2}}")
	play(t, w, []step{
		{
			sentence: "OnDelete in the same patch holds a new template back",
			patch:    `{spec: {updateStrategy: {type: OnDelete}, template: {spec: {containers: [{name: shop, image: "shop:2"}]}}}}`,
			want:     state{Pods: map[string]int{"shop:1": 5}, All: 5},
		},
		{
			sentence: "a pod that is lost comes back new",
			lose:     "shop:1",
			want:     state{Pods: map[string]int{"shop:1": 4, "shop:2": 1}, All: 5, Updated: 1},
		},
		{
			sentence: "the first template back, nothing moves",
			patch:    `{spec: {template: {spec: {containers: [{name: shop, image: "shop:1"}]}}}}`,
			want:     state{Pods: map[string]int{"shop:1": 4, "shop:2": 1}, All: 5, Updated: 4},
		},
		{
			sentence: "and the pod that is deleted is old again",
			lose:     "shop:2",
			want:     state{Pods: map[string]int{"shop:1": 5}, All: 5, Updated: 5},
		},
		{
			sentence: "RollingUpdate lets all go",
			patch:    `{spec: {updateStrategy: {type: RollingUpdate}, template: {spec: {containers: [{name: shop, image: "shop:3"}]}}}}`,
			want:     state{Pods: map[string]int{"shop:3": 5}, All: 5, Updated: 5},
		},
	})
	object, err := w.typed.AppsV1().DaemonSets(w.namespace).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got := object.Spec.UpdateStrategy.RollingUpdate; got == nil || got.MaxUnavailable.IntValue() != 2 {
		t.Errorf("OnDelete and back, the owner's parameters are %v", got)
	}
}

// The new revision is the one with the highest number: the status of a native DaemonSet does not name it.
func TestTheNewestRevisionOfADaemonSetIsThatOfItsTemplate(t *testing.T) {
	t.Parallel()
	w := aWorkload(t, plane(t), daemonSets, nodes, "updateStrategy: {type: OnDelete}")
	for _, image := range []string{"shop:2", "shop:1"} {
		w.patch(t, `{spec: {template: {spec: {containers: [{name: shop, image: "`+image+`"}]}}}}`)
		w.until(t, func(ctx context.Context) (string, error) {
			_, observed, err := w.state(ctx)
			if err != nil || !observed {
				return "the spec is not observed", err
			}
			list, err := w.typed.AppsV1().ControllerRevisions(w.namespace).List(ctx, metav1.ListOptions{})
			if err != nil {
				return "", err
			}
			newest := list.Items[0]
			for _, revision := range list.Items {
				if revision.Revision > newest.Revision {
					newest = revision
				}
			}
			images, err := w.images(ctx)
			if err != nil {
				return "", err
			}
			hash := newest.Labels["controller-revision-hash"]
			if images[hash] != image {
				return "the newest revision is of " + images[hash] + ", not " + image, nil
			}
			return "", nil
		})
	}
}

// A release counts pods by these labels.
func TestTheLabelsThatNameTheRevisionOfAPod(t *testing.T) {
	t.Parallel()
	hash := func(pod corev1.Pod, label string) string { return pod.Labels[label] }
	for sentence, test := range map[string]struct {
		w              *workload
		field          string // the field of the status that names the revision, if any
		full, template bool   // full: the label holds the revision's whole name; template: the pod also has pod-template-hash
	}{
		"CloneSet":             {aWorkload(t, plane(t), cloneSets, 1, "replicas: 1"), "updateRevision", true, true},
		"Advanced StatefulSet": {aWorkload(t, plane(t), advancedStatefulSets, 1, "replicas: 1"), "updateRevision", true, false},
		"StatefulSet":          {aWorkload(t, plane(t), statefulSets, 1, "replicas: 1"), "updateRevision", true, false},
		"Advanced DaemonSet":   {aWorkload(t, plane(t), advancedDaemonSets, nodes, ""), "daemonSetHash", false, false},
		"DaemonSet":            {aWorkload(t, plane(t), daemonSets, nodes, ""), "", false, false},
	} {
		t.Run(sentence, func(t *testing.T) {
			object := must(test.w.dynamic.Get(t.Context(), name, metav1.GetOptions{}))(t)
			pod := must(test.w.pods(t.Context()))(t)[0]
			revision := must(test.w.typed.AppsV1().ControllerRevisions(test.w.namespace).List(t.Context(), metav1.ListOptions{}))(t).Items[0]
			want := revision.Name
			if !test.full {
				want = revision.Name[len(name+"-"):]
			}
			if got := hash(pod, "controller-revision-hash"); got != want {
				t.Errorf("controller-revision-hash is %q, not %q", got, want)
			}
			if test.field != "" {
				if got := object.Object["status"].(map[string]any)[test.field]; got != want {
					t.Errorf("status.%s is %q, not %q", test.field, got, want)
				}
			}
			want = ""
			if test.template {
				want = revision.Name[len(name+"-"):]
			}
			if got := hash(pod, "pod-template-hash"); got != want {
				t.Errorf("pod-template-hash is %q, not %q", got, want)
			}
		})
	}
}
