package workload_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"sluice.dev/sluice/pkg/workload"
)

func TestVictimsAreTheLeastLoss(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		shape shape
		pods  []*corev1.Pod
		want  []string
	}{
		"those that are pending go first, whatever they cost and however old they are": {daemonSet,
			[]*corev1.Pod{podOf("a", "h", born(3)), podOf("b", "h", unready, born(2), cost("-5")), podOf("c", "h", pending, born(1), cost("9"))}, []string{"c", "b", "a"}},
		"of those that are pending, too, the cheap ones and then the newest": {daemonSet,
			[]*corev1.Pod{podOf("a", "h", pending, born(2)), podOf("b", "h", pending, born(1), cost("-1")), podOf("c", "h", pending, born(3))}, []string{"b", "c", "a"}},
		"then those that are not ready, whatever they cost": {cloneSet,
			[]*corev1.Pod{podOf("a", "h", cost("-5")), podOf("b", "h", unready, cost("9")), podOf("c", "h", unready, cost("8"))}, []string{"c", "b", "a"}},
		"then the cheap ones": {cloneSet,
			[]*corev1.Pod{podOf("a", "h"), podOf("b", "h", cost("-1")), podOf("c", "h", cost("1")), podOf("d", "h", cost("much"))}, []string{"b", "a", "d", "c"}},
		"then the newest": {daemonSet,
			[]*corev1.Pod{podOf("a", "h", born(1)), podOf("b", "h", born(3)), podOf("c", "h", born(2))}, []string{"b", "c", "a"}},
		"of a StatefulSet the lowest ordinal, however old": {statefulSet,
			[]*corev1.Pod{podOf("web-10", "h", born(1)), podOf("web-9", "h", born(1)), podOf("web-2", "h", born(3)), podOf("web-x", "h")},
			[]string{"web-2", "web-9", "web-10", "web-x"}},
		"an Advanced DaemonSet has no ordinals": {advancedDaemonSet, []*corev1.Pod{podOf("web-1", "h", born(1)), podOf("web-2", "h", born(2))}, []string{"web-2", "web-1"}},
		"what is like a StatefulSet has":        {likeAStatefulSet, []*corev1.Pod{podOf("web-2", "h"), podOf("web-1", "h")}, []string{"web-1", "web-2"}},
		"those of other revisions, of others, and those that go are none": {advancedStatefulSet,
			[]*corev1.Pod{podOf("web-0", "other"), podOf("web-1", "h", foreign), podOf("web-2", "h", orphan), podOf("web-3", "h", going), podOf("web-4", "h")}, []string{"web-4"}},
		"there are none": {cloneSet, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			backwards := slices.Clone(c.pods)
			slices.Reverse(backwards)
			for _, pods := range [][]*corev1.Pod{c.pods, backwards} {
				o := workload.Object{Live: c.shape.of(), Pods: pods}
				if diff := cmp.Diff(c.want, names(o.DeletionCandidates("h", 9))); diff != "" {
					t.Errorf("the victims differ (-want +got):\n%s", diff)
				}
				first, none := o.DeletionCandidates("h", 1), o.DeletionCandidates("h", -1)
				if !slices.Equal(c.want[:min(1, len(c.want))], names(first)) || len(none) > 0 {
					t.Errorf("the first victim is %v, and less than none are %v", names(first), names(none))
				}
			}
		})
	}
}
