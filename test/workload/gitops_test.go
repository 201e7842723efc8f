package workload

import (
	"context"
	"encoding/json"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/test/world"
)

// often is how often a GitOps tool writes. It is a second in such tools, and less here, so that it writes within each moment of a step.
const often = 500 * time.Millisecond

// actor writes a manifest again and again until it is stopped, as a GitOps tool does.
type actor struct {
	written atomic.Int64
	stop    func()
}

func act(s *shop, write func(context.Context) error) *actor {
	ctx, cancel := context.WithCancel(s.Context())
	a := &actor{}
	var running sync.WaitGroup
	running.Go(func() {
		tick := time.NewTicker(often)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			// A write that lost a race is made again at the next tick, as any such tool does.
			if write(ctx) == nil {
				a.written.Add(1)
			}
		}
	})
	a.stop = sync.OnceFunc(func() { cancel(); running.Wait() })
	s.Cleanup(a.stop)
	return a
}

// rounds waits until the actor has written that many more times.
func (a *actor) rounds(s *shop, n int64) {
	s.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for until := a.written.Load() + n; a.written.Load() < until; {
		select {
		case <-s.Context().Done():
			s.Fatal("the GitOps actor stopped writing")
		case <-tick.C:
		}
	}
}

// ways are how GitOps tools write what they find in their repository.
func ways() map[string]func(*shop, *unstructured.Unstructured) func(context.Context) error {
	return map[string]func(*shop, *unstructured.Unstructured) func(context.Context) error{
		"client side apply": func(s *shop, u *unstructured.Unstructured) func(context.Context) error {
			text, err := json.Marshal(u.Object)
			if err != nil {
				s.Fatal(err)
			}
			return func(ctx context.Context) error {
				_, err := s.w.KubectlStdin(ctx, string(text), "apply", "-n", s.ns, "-f", "-")
				return err
			}
		},
		"server side apply": func(s *shop, u *unstructured.Unstructured) func(context.Context) error {
			text, err := json.Marshal(u.Object)
			if err != nil {
				s.Fatal(err)
			}
			force := true
			client := s.client(s.kind.Resource)
			return func(ctx context.Context) error {
				_, err := client.Patch(ctx, name, types.ApplyPatchType, text, metav1.PatchOptions{FieldManager: "gitops", Force: &force})
				return err
			}
		},
		"replace": func(s *shop, u *unstructured.Unstructured) func(context.Context) error {
			client := s.client(s.kind.Resource)
			return func(ctx context.Context) error {
				// Custom resources are not replaced without the version that is replaced.
				now, err := client.Get(ctx, name, metav1.GetOptions{})
				if err != nil {
					return err
				}
				u := u.DeepCopy()
				u.SetResourceVersion(now.GetResourceVersion())
				_, err = client.Update(ctx, u, metav1.UpdateOptions{FieldManager: "gitops"})
				return err
			}
		},
	}
}

// A manifest that knows nothing of the hold takes nothing of it off, in the middle of a step neither, and changes nothing at rest.
func TestAGitOpsActorChangesNothing(t *testing.T) {
	each(t, func(t *testing.T, kind Kind) {
		for way, writer := range ways() {
			t.Run(way, func(t *testing.T) {
				t.Parallel()
				var manifest *unstructured.Unstructured
				s := aShop(t, kind, hasty, func(all objects) { manifest = all["workload"].DeepCopy() })
				calm := func(a *actor, when string) {
					t.Helper()
					a.rounds(s, 2) // the first one after a write of ours may take fields over
					if when != "at a step" {
						s.free()
					}
					before := s.get(kind.Resource)
					a.rounds(s, 2)
					if diff := cmp.Diff(world.Written(before), world.Written(s.get(kind.Resource))); diff != "" {
						t.Errorf("%s the same manifest again changed the workload (-before +after):\n%s", when, diff)
					}
				}
				a := act(s, writer(s, manifest.DeepCopy()))
				calm(a, "at rest")
				a.stop()
				epoch := s.await(world.Healthy).Status.Sluice.Epoch + 1
				if diff := cmp.Diff(owned(s.workload, false)["spec"], owned(s.get(kind.Resource), true)["spec"]); diff != "" {
					t.Errorf("at rest the same manifest changed the workload (-before +after):\n%s", diff)
				}

				containers, _, _ := unstructured.NestedSlice(manifest.Object, "spec", "template", "spec", "containers")
				containers[0].(map[string]any)["image"] = image(2)
				set(manifest, containers, "spec", "template", "spec", "containers")
				s.pods.allow(image(2), counts[0])
				a = act(s, writer(s, manifest))
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

// free waits until nothing holds the workload: a manifest may have written what its template lacks.
func (s *shop) free() {
	s.Helper()
	s.object(s.kind.Resource, "free", func(u *unstructured.Unstructured) bool { return u.GetAnnotations()[api.AnnotationInProgressing] == "" })
}
