package workload_test

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
	"sluice.dev/sluice/pkg/workload"
)

// typed is the digest of a template of a test, computed like the digest of a Deployment's template.
func typed(image string) string {
	return workload.TemplateRevision(template(image, map[string]string{"app": "web"}))
}

func TestAWorkloadIsSeenWhole(t *testing.T) {
	t.Parallel()
	replicas := `{observedGeneration: 3, replicas: 11, updatedReplicas: 4, availableReplicas: 9, currentRevision: web-z, updateRevision: web-b}`
	nodes := `{observedGeneration: 3, desiredNumberScheduled: 10, currentNumberScheduled: 11, updatedNumberScheduled: 4, numberAvailable: 9}`
	for name, c := range map[string]struct {
		shape     shape
		status    string
		old, new  string // hashes
		strategy  string
		held      string // annotation with the recorded values
		lever     rollout.UpdateMechanism
		partition rollout.Amount
		shares    bool
		revertsTo string
	}{
		"StatefulSet":          {statefulSet, replicas, "web-z", "web-b", `{rollingUpdate: {partition: 6}}`, "partition", rollout.MechanismPartition, rollout.Amount{Value: 6}, false, "web-z"},
		"Advanced StatefulSet": {advancedStatefulSet, replicas, "web-z", "web-b", `{rollingUpdate: {partition: 6}}`, "partition", rollout.MechanismPartition, rollout.Amount{Value: 6}, false, "web-z"},
		"CloneSet":             {cloneSet, replicas, "z", "b", `{maxUnavailable: 1, partition: "60%"}`, "partition", rollout.MechanismPartition, rollout.Amount{Value: 60, Percent: true}, true, "z"},
		"DaemonSet":            {daemonSet, nodes, "z", "b", `{type: RollingUpdate}`, "type", rollout.MechanismOnDelete, rollout.Amount{}, false, ""},
		"Advanced DaemonSet":   {advancedDaemonSet, nodes, "z", "b", `{rollingUpdate: {partition: 6}}`, "partition", rollout.MechanismPartition, rollout.Amount{Value: 6}, false, ""},
		"like a StatefulSet":   {likeAStatefulSet, replicas, "web-z", "web-b", `{rollingUpdate: {partition: 6}}`, "partition", rollout.MechanismPartition, rollout.Amount{Value: 6}, false, "web-z"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := c.shape.object(c.shape.owned, underWay, image("web:2"), set(c.status, "status"), strategy(c.strategy), original(c.held, ""), label("rollouts.kruise.io/rollout-id", "v2"))
			o.Revisions = []*appsv1.ControllerRevision{revisionOf("web-b", 10, "web:2"), revisionOf("web-z", 9, "web:1")}
			o.Pods = []*corev1.Pod{
				podOf("web-0", c.old), podOf("web-1", c.old, unready), podOf("web-2", c.new), podOf("web-3", c.new, going), podOf("web-4", c.new, foreign),
				podOf("web-5", "lost"), podOf("web-6", "astray", unready),
			}
			want := rollout.Workload{
				UID: "u1", Observed: true, DesiredReplicas: 10, Revision: typed("web:2"), Images: []string{"web:2"}, Containers: []string{"web"}, Adopted: true, Held: true, HasMarks: true, RolloutID: "v2",
				Generation: 3, Updated: 4, Available: 9, Total: 11, MaxUnavailable: 1, UpdateMechanism: c.lever, Partition: c.partition, PercentPartition: c.shares, RevertsTo: c.revertsTo,
				TakenOver: true, HasOrdinals: c.shape.workloadType == "statefulset", HistoryLimit: 10,
				Version: api.FleetVersion{Version: "v2", Images: api.FleetImagesDigest(map[string]string{"web": "web:2"}), Revision: typed("web:2")},
				Revisions: []rollout.Revision{
					{Hash: "astray", Replicas: 1, Unavailable: true},
					{Hash: "lost", Replicas: 1, Ready: 1, Unavailable: true},
					{Hash: c.old, Revision: typed("web:1"), Replicas: 2, Ready: 1, Unavailable: true},
					{Hash: c.new, Revision: typed("web:2"), Replicas: 1, Ready: 1, Unavailable: true},
				},
			}
			if want.HasOrdinals {
				for i, places := range [][]int32{{6}, {5}, {0, 1}, {2}} {
					want.Revisions[i].Ordinals = places
				}
			}
			if diff := cmp.Diff(want, o.ObserveWorkload("web")); diff != "" {
				t.Errorf("what is seen differs (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPlacesAreCountedFromTheFirstPod(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		object workload.Object
		want   []int32
	}{
		"in any order":           {statefulSet.object(), []int32{3, 10}},
		"of ordinals that begin": {statefulSet.object(set("3", "spec", "ordinals", "start")), []int32{0, 7}},
		"without those that stay free": {
			advancedStatefulSet.object(set(`[1, "4-6", 5, "8-", odd, 9]`, "spec", "reserveOrdinals")), []int32{2, 5},
		},
		"and with the first one free":   {advancedStatefulSet.object(set(`[2, 1]`, "spec", "reserveOrdinals"), set("2", "spec", "ordinals", "start")), []int32{0, 7}},
		"none where its own stays free": {advancedStatefulSet.object(set(`["3-4"]`, "spec", "reserveOrdinals")), []int32{8, math.MaxInt32 - 1}},
		"not where there is none":       {cloneSet.object(), nil},
		"nor where another one is":      {advancedStatefulSet.object(strategy(`{rollingUpdate: {unorderedUpdate: {}}}`)), nil},
		"of an Advanced one":            {advancedStatefulSet.object(), []int32{3, 10}},
		"like those of StatefulSet":     {likeAStatefulSet.object(), []int32{3, 10}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.object.Pods = []*corev1.Pod{podOf("web-10", "a"), podOf("web-3", "a"), podOf("web-1", "a", going)}
			w := c.object.ObserveWorkload("web")
			if diff := cmp.Diff(c.want, w.Revisions[0].Ordinals); diff != "" || w.HasOrdinals != (c.want != nil) {
				t.Errorf("the places differ, and it is ordered: %t (-want +got):\n%s", w.HasOrdinals, diff)
			}
		})
	}
	unnamed := likeAStatefulSet.object()
	unnamed.Pods = []*corev1.Pod{podOf("web-x", "a")}
	if got := unnamed.ObserveWorkload("web").Revisions[0].Ordinals[0]; got < 1<<30 {
		t.Errorf("a pod without a number is at place %d", got)
	}
}

func TestMarksOfAWorkload(t *testing.T) {
	t.Parallel()
	type marks struct {
		Adopted, Held, HasMarks, Deleting bool
		AdoptedBy, RolloutID              string
	}
	for shape, s := range shapes() {
		for name, c := range map[string]struct {
			changes []change
			want    marks
		}{
			"without marks":      {nil, marks{}},
			"adopted":            {[]change{s.owned}, marks{Adopted: true, HasMarks: true}},
			"of another Rollout": {[]change{s.owned, note("sluice.dev/rollout", "other")}, marks{AdoptedBy: "other"}},
			"held":               {[]change{s.owned, underWay}, marks{Adopted: true, Held: true, HasMarks: true}},
			"with an id":         {[]change{note("rollouts.kruise.io/rollout-id", "v3"), label("rollouts.kruise.io/rollout-id", "v2")}, marks{RolloutID: "v3"}},
			"being deleted":      {[]change{set(`"2026-01-01T00:00:00Z"`, "metadata", "deletionTimestamp")}, marks{Deleting: true}},
		} {
			t.Run(shape+" "+name, func(t *testing.T) {
				t.Parallel()
				w := s.object(c.changes...).ObserveWorkload("web")
				if diff := cmp.Diff(c.want, marks{w.Adopted, w.Held, w.HasMarks, w.Deleting, w.AdoptedBy, w.RolloutID}); diff != "" {
					t.Errorf("what is seen differs (-want +got):\n%s", diff)
				}
			})
		}
	}
	if cloneSet.object(statefulSet.owned).ObserveWorkload("web").Adopted {
		t.Error("a CloneSet with the label of a StatefulSet is seen as adopted")
	}
}

func TestHowManyPodsMayBeMissing(t *testing.T) {
	t.Parallel()
	rolling := func(text string) change { return strategy(`{rollingUpdate: {maxUnavailable: ` + text + `}}`) }
	pods := func(n string) change { return set(n, "spec", "replicas") }
	for name, c := range map[string]struct {
		shape   shape
		changes []change
		want    int32
	}{
		"one of a StatefulSet":                    {statefulSet, nil, 1},
		"as many as a StatefulSet says":           {statefulSet, []change{rolling("3")}, 3},
		"as many as an Advanced StatefulSet says": {advancedStatefulSet, []change{rolling("4")}, 4},
		"a share rounds down":                     {advancedStatefulSet, []change{rolling(`"39%"`)}, 3},
		"a share is never none":                   {advancedStatefulSet, []change{rolling(`"5%"`)}, 1},
		"none is one, for it must be deleted":     {daemonSet, []change{rolling("0")}, 1},
		"one of a DaemonSet":                      {daemonSet, nil, 1},
		"a share of the nodes":                    {daemonSet, []change{rolling(`"20%"`)}, 2},
		"a share of the nodes, Advanced":          {advancedDaemonSet, []change{rolling(`"20%"`)}, 2},
		"a fifth of a CloneSet":                   {cloneSet, []change{pods("14")}, 2},
		"one at least of a small CloneSet":        {cloneSet, []change{pods("3")}, 1},
		"as many as a CloneSet says":              {cloneSet, []change{strategy(`{maxUnavailable: 5}`)}, 5},
		"more than there are":                     {cloneSet, []change{strategy(`{maxUnavailable: 50}`)}, 10},
		"what nobody can read":                    {cloneSet, []change{strategy(`{maxUnavailable: many}`)}, 2},
		"none where there are none":               {cloneSet, []change{pods("0")}, 0},
		"of a single one":                         {statefulSet, []change{func(u *unstructured.Unstructured) { unstructured.RemoveNestedField(u.Object, "spec", "replicas") }}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := c.shape.object(c.changes...).ObserveWorkload("web").MaxUnavailable; got != c.want {
				t.Errorf("%d may be unavailable, want %d", got, c.want)
			}
		})
	}
}

func TestWhenASpecHasBeenSeen(t *testing.T) {
	t.Parallel()
	of := []*appsv1.ControllerRevision{revisionOf("web-a", 1, "web:1")}
	current := set("{observedGeneration: 3}", "status")
	for name, c := range map[string]struct {
		object    workload.Object
		revisions []*appsv1.ControllerRevision
		want      bool
	}{
		"with a revision of its template":    {statefulSet.object(current), of, true},
		"not yet":                            {statefulSet.object(set("{observedGeneration: 2}", "status")), of, false},
		"without a status":                   {statefulSet.object(), of, false},
		"before there is a revision of it":   {statefulSet.object(current, image("web:2")), of, false},
		"without pods no revision is needed": {statefulSet.object(current, image("web:2"), set("0", "spec", "replicas")), nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.object.Revisions = c.revisions
			if got := c.object.ObserveWorkload("web").Observed; got != c.want {
				t.Errorf("it has been observed: %t", got)
			}
		})
	}
}

func TestPodsOfTheTemplateAreKnownWithoutAControllerRevision(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		object workload.Object
		hash   string
		want   bool
	}{
		"a StatefulSet":                {statefulSet.object(set("{observedGeneration: 3, updateRevision: web-a}", "status")), "web-a", true},
		"a CloneSet":                   {cloneSet.object(set("{observedGeneration: 3, updateRevision: web-a}", "status")), "a", true},
		"an Advanced DaemonSet":        {advancedDaemonSet.object(set("{observedGeneration: 3, daemonSetHash: a, desiredNumberScheduled: 1}", "status")), "a", true},
		"not those of another version": {statefulSet.object(set("{observedGeneration: 3, updateRevision: web-b}", "status")), "web-a", false},
		"not by an old status":         {statefulSet.object(set("{observedGeneration: 2, updateRevision: web-a}", "status")), "web-a", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.object.Pods = []*corev1.Pod{podOf("web-0", c.hash)}
			w := c.object.ObserveWorkload("web")
			if got := w.Revisions[0].Revision == w.Revision; got != c.want || w.Observed != c.want {
				t.Errorf("they are of the template: %t; it has been observed: %t", got, w.Observed)
			}
		})
	}
}

func TestWhatALostPodComesBackAs(t *testing.T) {
	t.Parallel()
	at := func(revision string) change { return set("{currentRevision: "+revision+"}", "status") }
	for name, c := range map[string]struct {
		object workload.Object
		want   string
	}{
		"as the current revision":               {statefulSet.object(image("web:2"), at("web-a")), "web-a"},
		"as the current revision, by its hash":  {cloneSet.object(image("web:2"), at("web-a")), "a"},
		"as the template where that is current": {statefulSet.object(image("web:2"), at("web-b")), ""},
		"as what is gone":                       {statefulSet.object(image("web:2"), at("web-c")), "web-c"},
		"as nobody knows":                       {statefulSet.object(image("web:2")), ""},
		"of a DaemonSet as the template":        {daemonSet.object(image("web:2"), at("web-a")), ""},
		"of an Advanced one as the template":    {advancedDaemonSet.object(image("web:2"), at("web-a")), ""},
		"like a StatefulSet":                    {likeAStatefulSet.object(image("web:2"), at("web-a")), "web-a"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.object.Revisions = []*appsv1.ControllerRevision{revisionOf("web-a", 1, "web:1"), revisionOf("web-b", 2, "web:2")}
			if got := c.object.ObserveWorkload("web").RevertsTo; got != c.want {
				t.Errorf("it comes back as %q, want %q", got, c.want)
			}
		})
	}
}

// Neither is the template of the other, so that such a workload waits instead of taking one for the other.
func TestWhatCannotBeReadIsNoRevisionOfTheTemplate(t *testing.T) {
	t.Parallel()
	o := statefulSet.object(set("[]", "spec", "template", "spec"), set("{observedGeneration: 3}", "status"))
	broken := revisionOf("web-a", 1, "web:1")
	broken.Data.Raw = []byte("{")
	o.Revisions, o.Pods = []*appsv1.ControllerRevision{broken}, []*corev1.Pod{podOf("web-0", "web-a")}
	w := o.ObserveWorkload("web")
	if w.Observed || len(w.Revisions) != 1 || w.Revisions[0].Revision == w.Revision || len(o.NewPods()) > 0 {
		t.Errorf("it is seen as %+v", w)
	}
}

func TestPodsThatAreUpdatedInPlaceCountWhenTheyServe(t *testing.T) {
	t.Parallel()
	gate := func(is corev1.ConditionStatus) func(*corev1.Pod) {
		return func(pod *corev1.Pod) {
			pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: workload.ConditionUpdatedInPlace, Status: is})
		}
	}
	for what, c := range map[string]struct {
		status string
		pods   []*corev1.Pod
		ready  int32
	}{
		"one whose image is being pulled":         {`observedGeneration: 3, updatedReadyReplicas: 1`, []*corev1.Pod{podOf("web-0", "b", gate(corev1.ConditionFalse))}, 0},
		"one that runs its image and is unready":  {`observedGeneration: 3, updatedReadyReplicas: 1`, []*corev1.Pod{podOf("web-0", "b", gate(corev1.ConditionTrue), unready)}, 0},
		"one that serves":                         {`observedGeneration: 3, updatedReadyReplicas: 1`, []*corev1.Pod{podOf("web-0", "b", gate(corev1.ConditionTrue))}, 1},
		"one that was made anew":                  {`observedGeneration: 3, updatedReadyReplicas: 1`, []*corev1.Pod{podOf("web-0", "b")}, 1},
		"no more than its controller says":        {`observedGeneration: 3, updatedReadyReplicas: 1`, []*corev1.Pod{podOf("web-0", "b"), podOf("web-1", "b")}, 1},
		"a controller that does not say":          {`observedGeneration: 3`, []*corev1.Pod{podOf("web-0", "b"), podOf("web-1", "b")}, 2},
		"a controller that speaks of an old spec": {`observedGeneration: 2, updatedReadyReplicas: 0`, []*corev1.Pod{podOf("web-0", "b"), podOf("web-1", "b")}, 2},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			o := cloneSet.object(cloneSet.owned, underWay, image("web:2"), set(`{updateRevision: web-b, `+c.status+`}`, "status"))
			o.Revisions, o.Pods = []*appsv1.ControllerRevision{revisionOf("web-b", 10, "web:2"), revisionOf("web-z", 9, "web:1")}, c.pods
			for _, got := range o.ObserveWorkload("web").Revisions {
				if got.Hash == "b" && got.Ready != c.ready {
					t.Errorf("%d of %d pods are ready, not %d", got.Ready, got.Replicas, c.ready)
				}
			}
		})
	}
}
