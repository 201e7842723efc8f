package workload

import (
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
	"sluice.dev/sluice/test/world"
)

// The executor restores an owner's own partition at the end. The partition keeps the same pods as without Sluice.
func TestAnOwnersPartitionIsKept(t *testing.T) {
	each(t, func(t *testing.T, kind Kind) {
		if kind.Partition == nil {
			t.Skip("it has no partition of its own")
		}
		const keeps = 2
		s := aShop(t, kind, hasty, strategy(int64(keeps), kind.Partition...))
		s.release(2)
		s.finish(1, 2, 1)
		s.runs(map[string]int{image(1): keeps, image(2): replicas - keeps})
		s.wantBack(true)
	})
}

// A partition that its owner sets during a release counts from its end on.
func TestAPartitionAskedForDuringARelease(t *testing.T) {
	each(t, func(t *testing.T, kind Kind) {
		if kind.Partition == nil {
			t.Skip("it has no partition of its own")
		}
		const keeps = 1
		s := aShop(t, kind, hasty)
		set(s.workload, int64(keeps), append([]string{"spec", "updateStrategy"}, kind.Partition...)...)
		s.release(2)
		s.at(1, 2, 1, 2)
		if len(kind.Partition) == 1 {
			s.patch(kind.Resource, `spec: {updateStrategy: {partition: 1}}`)
		} else {
			s.patch(kind.Resource, `spec: {updateStrategy: {rollingUpdate: {partition: 1}}}`)
		}
		s.finish(1, 2, 2)
		s.runs(map[string]int{image(1): keeps, image(2): replicas - keeps})
		s.wantBack(true)
	})
}

// An owner sets a field while a release has it. The workload gets the value at the end of the release, and not before.
// The release goes through its steps unchanged. If the value then keeps the last pods from coming, the owner ends that.
func TestWhatAnOwnerAsksForDuringARelease(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it needs a control plane, which -short leaves out")
	}
	for sentence, c := range map[string]struct {
		kind   string
		patch  string
		fields []string // the path in the spec that has the value in the end
		value  any
		ends   func(*shop)
	}{
		"a StatefulSet waits for deletions":           {"statefulset", `spec: {updateStrategy: {type: OnDelete, rollingUpdate: null}}`, []string{"updateStrategy"}, map[string]any{"type": "OnDelete"}, deletesTheRest},
		"an Advanced StatefulSet waits for deletions": {"advanced-statefulset", `spec: {updateStrategy: {type: OnDelete, rollingUpdate: null}}`, []string{"updateStrategy"}, map[string]any{"type": "OnDelete"}, deletesTheRest},
		"an Advanced DaemonSet waits for deletions":   {"advanced-daemonset", `spec: {updateStrategy: {type: OnDelete}}`, []string{"updateStrategy", "type"}, "OnDelete", deletesTheRest},
		"a CloneSet is paused":                        {"cloneset", `spec: {updateStrategy: {paused: true}}`, []string{"updateStrategy", "paused"}, false, resumes},
	} {
		t.Run(sentence, func(t *testing.T) {
			t.Parallel()
			all := Kinds()
			kind := all[slices.IndexFunc(all, func(k Kind) bool { return k.Name == c.kind })]
			s := aShop(t, kind, hasty)
			set(s.workload, c.value, append([]string{"spec"}, c.fields...)...)
			s.release(2)
			s.at(1, 2, 1, 2)
			s.patch(kind.Resource, c.patch)
			s.at(1, 2, 2, 3)
			s.runs(map[string]int{image(1): replicas - counts[2], image(2): counts[2]})
			s.approve(2, 3)
			c.ends(s)
			s.await(healthyAfter(1))
			s.settled(image(2))
			s.runs(map[string]int{image(2): replicas})
			s.wantBack(true)
		})
	}
}

// deletesTheRest deletes the remaining old pods as the owner, once the workload waits for that.
func deletesTheRest(s *shop) {
	s.Helper()
	s.object(s.kind.Resource, "given back", func(u *unstructured.Unstructured) bool {
		wants, _, _ := unstructured.NestedString(u.Object, "spec", "updateStrategy", "type")
		return wants == "OnDelete" && u.GetAnnotations()[api.AnnotationInProgressing] == "" && number(u, "status", "observedGeneration") == u.GetGeneration()
	})
	r := s.await(world.HeldFor(rollout.ReasonInvalidSpec))
	if !strings.Contains(r.Status.Message, "delete the others") {
		s.Errorf("it says %q", r.Status.Message)
	}
	s.runs(map[string]int{image(1): replicas - counts[2], image(2): counts[2]})
	for pod := range of(s.pods.now(), image(1)) {
		if err := s.client(pods).Delete(s.Context(), pod, metav1.DeleteOptions{}); err != nil {
			s.Fatal(err)
		}
	}
}

// resumes follows the message of the Rollout as the owner.
func resumes(s *shop) {
	s.Helper()
	r := s.await(world.HeldFor(rollout.ReasonWorkloadPaused))
	if !strings.Contains(r.Status.Message, "set its spec.updateStrategy.paused to false") {
		s.Errorf("it says %q", r.Status.Message)
	}
	s.runs(map[string]int{image(1): replicas - counts[2], image(2): counts[2]})
	s.patch(s.kind.Resource, `spec: {updateStrategy: {paused: false}}`)
}

// In blue-green style, the executor takes over other fields of a CloneSet.
func TestHowLongPodsAreToBeReadyIsAskedForBesideStablePods(t *testing.T) {
	s := aCloneSet(t)
	set(s.workload, int64(2), "spec", "minReadySeconds")
	s.pods.allow(image(2), beside[0])
	s.change(2, "null")
	s.besideAt(1, 2, 1, 2)
	held := number(s.get(s.kind.Resource), "spec", "minReadySeconds")
	s.patch(s.kind.Resource, `spec: {minReadySeconds: 2}`)
	if now := number(s.get(s.kind.Resource), "spec", "minReadySeconds"); now != held {
		t.Errorf("during the release minReadySeconds went from %d to %d", held, now)
	}
	s.complete(1, 2, 2, replicas)
	s.wantBack(true)
}

// leastReady starts to record the number of ready pods. The returned function returns the least number.
func (s *shop) leastReady() func() int {
	s.pods.mu.Lock()
	defer s.pods.mu.Unlock()
	s.pods.least = none
	return func() int {
		s.pods.mu.Lock()
		defer s.pods.mu.Unlock()
		return s.pods.least
	}
}

// A workload whose owner deletes its pods by hand cannot be released: no pod of it is touched, and the Rollout shows
// why.
func TestAWorkloadWhoseOwnerDeletesItsPodsIsLeftAlone(t *testing.T) {
	each(t, func(t *testing.T, kind Kind) {
		if kind.Name == "cloneset" {
			t.Skip("it has no such update type")
		}
		s := aShop(t, kind, hasty, strategy("OnDelete", "type"))
		before := s.pods.now()
		s.change(2, "null")
		s.await(world.HeldFor(rollout.ReasonInvalidSpec))
		s.object(kind.Resource, "seen and free", func(u *unstructured.Unstructured) bool {
			return number(u, "status", "observedGeneration") == u.GetGeneration() && u.GetAnnotations()[api.AnnotationInProgressing] == ""
		})
		s.wantKept(before)
		s.wantBack(true)
		s.pods.allow(image(2), 1)
		for pod := range before {
			if err := s.client(pods).Delete(t.Context(), pod, metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			break
		}
		s.runs(map[string]int{image(1): replicas - 1, image(2): 1})
	})
}
