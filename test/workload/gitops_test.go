package workload

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/test/world"
)

// A manifest without the fields of the hold removes no part of it, also in the middle of a step. It changes nothing at
// an idle Rollout.
func TestAGitOpsActorChangesNothing(t *testing.T) {
	each(t, func(t *testing.T, kind Kind) {
		for name, way := range world.Ways() {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				var manifest *unstructured.Unstructured
				s := aShop(t, kind, hasty, func(all objects) { manifest = all["workload"].DeepCopy() })
				manifest.SetNamespace(s.ns)
				calm := func(a *world.Actor, when string) {
					t.Helper()
					a.Rounds(s.T, 2) // the first one after a write of Sluice may take fields over
					if when != "at a step" {
						s.free()
					}
					before := s.get(kind.Resource)
					a.Rounds(s.T, 2)
					if diff := cmp.Diff(world.Written(before), world.Written(s.get(kind.Resource))); diff != "" {
						t.Errorf("%s the same manifest again changed the workload (-before +after):\n%s", when, diff)
					}
				}
				a := s.w.Act(s.T, way, s.client(kind.Resource), manifest.DeepCopy())
				calm(a, "at rest")
				a.Stop()
				epoch := s.await(world.Healthy).Status.Sluice.Epoch + 1
				if diff := cmp.Diff(owned(s.workload, false)["spec"], owned(s.get(kind.Resource), true)["spec"]); diff != "" {
					t.Errorf("at rest the same manifest changed the workload (-before +after):\n%s", diff)
				}

				containers, _, _ := unstructured.NestedSlice(manifest.Object, "spec", "template", "spec", "containers")
				containers[0].(map[string]any)["image"] = image(2)
				set(manifest, containers, "spec", "template", "spec", "containers")
				s.pods.allow(image(2), counts[0])
				a = s.w.Act(s.T, way, s.client(kind.Resource), manifest)
				for n, count := range counts {
					s.await(pausedIn(epoch, n+1))
					calm(a, "at a step")
					s.runs(map[string]int{image(1): replicas - count, image(2): count})
					s.approve(2, n+1)
				}
				s.await(healthyAfter(epoch))
				s.runs(map[string]int{image(2): replicas})
				calm(a, "after the release")
			})
		}
	})
}

// free waits until the workload is not held: a manifest may have written fields that its template lacks.
func (s *shop) free() {
	s.Helper()
	s.object(s.kind.Resource, "free", func(u *unstructured.Unstructured) bool { return u.GetAnnotations()[api.AnnotationInProgressing] == "" })
}
