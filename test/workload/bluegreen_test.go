package workload

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
	"sluice.dev/sluice/test/world"
)

// The field beside has the number of new pods of each step of a blue-green release, which run in parallel with all the stable
// ones. shares has their share of the traffic.
var beside, shares = []int{1, 2, 5}, []int{20, 40, 100}

var (
	autoscalers   = schema.GroupVersionResource{Group: "autoscaling", Version: "v2", Resource: "horizontalpodautoscalers"}
	scaledObjects = schema.GroupVersionResource{Group: "keda.sh", Version: "v1alpha1", Resource: "scaledobjects"}
)

// blueGreen turns a release of the example into a blue-green one. It comes after the options that know canary style
// only.
func blueGreen(all objects) {
	steps(all, func(n int, step map[string]any) {
		step["traffic"] = fmt.Sprintf("%d%%", shares[n])
		if n == len(beside)-1 {
			step["replicas"] = "100%"
		}
	})
	canary, _, _ := unstructured.NestedMap(all["Rollout"].Object, "spec", "strategy", "canary")
	set(all["Rollout"], map[string]any{"blueGreen": canary}, "spec", "strategy")
}

// cumbersome sets fields of an owner that would each spoil the release if they stayed in force.
func cumbersome(all objects) {
	set(all["workload"], int64(1), "spec", "minReadySeconds")
	set(all["workload"], map[string]any{"maxUnavailable": "20%"}, "spec", "scaleStrategy")
	strategy(map[string]any{"type": "InPlaceIfPossible", "maxUnavailable": int64(2), "maxSurge": int64(1), "inPlaceUpdateStrategy": map[string]any{}})(all)
}

// aCloneSet returns a shop with a blue-green release. No stable pod may go until keep permits it.
func aCloneSet(t *testing.T, options ...option) *shop {
	t.Helper()
	t.Parallel()
	if testing.Short() {
		t.Skip("it needs a control plane, which -short leaves out")
	}
	for _, kind := range Kinds() {
		if kind.Name == "cloneset" {
			s := aShop(t, kind, append([]option{hasty}, append(options, blueGreen)...)...)
			s.pods.keep(image(1), replicas)
			return s
		}
	}
	t.Fatal("there is no such kind")
	return nil
}

// confirm approves a step of a blue-green release of a version.
func (s *shop) confirm(version, step int) {
	s.Helper()
	if step < len(beside) {
		s.pods.allow(image(version), beside[step])
	} else {
		s.pods.keep(image(1), 0)
	}
	s.patch(api.RolloutResource(), `status: {blueGreenStatus: {currentStepState: StepReady}}`, "status")
}

// besideAt brings a blue-green release of a version from one step to the pause of another.
func (s *shop) besideAt(epoch int64, version, from, step int) {
	s.Helper()
	for n := from; n < step; n++ {
		s.await(pausedIn(epoch, n))
		s.confirm(version, n)
	}
	s.await(pausedIn(epoch, step))
	s.runs(map[string]int{image(1): replicas, image(version): beside[step-1]})
}

// complete approves the remaining steps of a blue-green release, from the pause of a step.
func (s *shop) complete(epoch int64, version, from, pods int) {
	s.Helper()
	for n := from; n <= len(beside); n++ {
		s.await(pausedIn(epoch, n))
		s.confirm(version, n)
	}
	s.await(healthyAfter(epoch))
	s.settled(image(version))
	s.runs(map[string]int{image(version): pods})
	if diff := cmp.Diff(owned(s.workload, false)["spec"], owned(s.get(s.kind.Resource), true)["spec"]); diff != "" {
		s.Errorf("the workload (-before +after):\n%s", diff)
	}
	if got := number(s.get(s.kind.Resource), "spec", "replicas"); got != int64(pods) {
		s.Errorf("its owner wants %d pods, and it is told to run %d", pods, got)
	}
}

// autoscaled gives the workload autoscalers of both kinds.
func (s *shop) autoscaled() {
	s.Helper()
	target := map[string]any{"apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet", "name": name}
	s.create(autoscalers, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": map[string]any{"name": name},
		"spec": map[string]any{"maxReplicas": int64(9), "scaleTargetRef": target},
	}})
	s.create(scaledObjects, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject", "metadata": map[string]any{"name": name}, "spec": map[string]any{"scaleTargetRef": target},
	}})
}

func (s *shop) wantScaled(target, paused string) {
	s.Helper()
	got, _, _ := unstructured.NestedString(s.get(autoscalers).Object, "spec", "scaleTargetRef", "name")
	if got != target {
		s.Errorf("the autoscaler scales %s, not %s", got, target)
	}
	if got := s.get(scaledObjects).GetAnnotations()["autoscaling.keda.sh/paused"]; got != paused {
		s.Errorf("whether the ScaledObject is paused is said by %q, not %q", got, paused)
	}
}

func TestACloneSetIsReleasedBesideItsStablePods(t *testing.T) {
	for name, options := range map[string][]option{"as it is": nil, "of a cumbersome owner": {cumbersome}} {
		t.Run(name, func(t *testing.T) {
			s := aCloneSet(t, options...)
			s.autoscaled()
			stable, written := s.pods.now(), s.w.Journal(s.ns)
			s.pods.allow(image(2), beside[0])
			s.change(2, "null")
			for n := range beside {
				s.besideAt(1, 2, max(n, 1), n+1)
				s.wantKept(stable)
				s.wantWeight(shares[n])
				s.wantPinned(2)
				s.wantScaled("shop-DisableByRollout", "TRUE")
			}
			s.complete(1, 2, len(beside), replicas)
			s.wantBack(true)
			s.wantScaled("shop", "")
			s.wantEnding(written, "patch services shop", "patch clonesets shop", "update virtualservices shop", "delete services shop-canary",
				"patch horizontalpodautoscalers shop", "patch scaledobjects shop")
		})
	}
}

// wantEnding compares the executor's writes at the end of a release with its tasks. Each task is carried out once, in
// order.
func (s *shop) wantEnding(written func() ([]world.Write, error), want ...string) {
	s.Helper()
	writes, err := written()
	if err != nil {
		s.Fatal(err)
	}
	ending, _ := world.Ending(writes)
	var got []string
	for _, w := range ending {
		got = append(got, w.String())
	}
	if diff := cmp.Diff(want, got); diff != "" {
		s.Errorf("written at the end (-want +got):\n%s", diff)
	}
}

// A lost pod comes back in its own version, at any step.
func TestPodsThatAreLostBesideOthersComeBack(t *testing.T) {
	s := aCloneSet(t)
	s.pods.keep(image(1), replicas-1)
	s.pods.allow(image(2), none)
	s.change(2, "null")
	for n := range beside {
		s.besideAt(1, 2, max(n, 1), n+1)
		for _, version := range []int{1, 2} {
			for pod := range of(s.pods.now(), image(version)) {
				if err := s.client(pods).Delete(t.Context(), pod, metav1.DeleteOptions{}); err != nil {
					t.Fatal(err)
				}
				s.until("it is gone", func(now map[string]*corev1.Pod) bool { return now[pod] == nil })
				break
			}
			s.runs(map[string]int{image(1): replicas, image(2): beside[n]})
		}
	}
	s.complete(1, 2, len(beside), replicas)
}

func TestACloneSetIsRolledBackToThePodsBeside(t *testing.T) {
	s := aCloneSet(t, cumbersome)
	stable, written := s.pods.now(), s.w.Journal(s.ns)
	s.pods.allow(image(2), beside[0])
	s.change(2, "null")
	s.besideAt(1, 2, 1, len(beside))
	s.back()
	s.await(healthyAfter(1))
	s.settled(image(1))
	s.runs(map[string]int{image(1): replicas})
	s.wantKept(stable)
	s.wantBack(true)
	// The executor stops the creation of new pods, the new ones go, and it releases the workload.
	s.wantEnding(written, "update virtualservices shop", "patch clonesets shop", "patch clonesets shop", "patch services shop", "delete services shop-canary")
}

// The stable pods follow their owner's number, by every way of scaling. New pods never go for it.
func TestACloneSetIsScaledBesideItsStablePods(t *testing.T) {
	s := aCloneSet(t)
	s.pods.allow(image(2), none)
	s.change(2, "null")
	s.besideAt(1, 2, 1, 2)
	s.scale(10)
	s.runs(map[string]int{image(1): 10, image(2): 4})
	s.pods.keep(image(1), 3)
	s.patch(s.kind.Resource, `spec: {replicas: 3}`, "scale")
	s.runs(map[string]int{image(1): 3, image(2): 4})
	s.patch(s.kind.Resource, `spec: {replicas: 6}`, "scale")
	s.runs(map[string]int{image(1): 6, image(2): 4})
	s.complete(1, 2, 2, 6)
}

func TestAGitOpsActorChangesNothingBesideStablePods(t *testing.T) {
	for name, way := range world.Ways() {
		t.Run(name, func(t *testing.T) {
			var manifest *unstructured.Unstructured
			s := aCloneSet(t, cumbersome, func(all objects) { manifest = all["workload"].DeepCopy() })
			manifest.SetNamespace(s.ns)
			epoch := s.await(world.Healthy).Status.Sluice.Epoch + 1
			containers, _, _ := unstructured.NestedSlice(manifest.Object, "spec", "template", "spec", "containers")
			containers[0].(map[string]any)["image"] = image(2)
			set(manifest, containers, "spec", "template", "spec", "containers")
			s.pods.allow(image(2), beside[0])
			a := s.w.Act(s.T, way, s.client(s.kind.Resource), manifest)
			for n := range beside {
				s.besideAt(epoch, 2, max(n, 1), n+1)
				a.Rounds(s.T, 2) // the first one after a write of Sluice may take fields over
				before := s.get(s.kind.Resource)
				a.Rounds(s.T, 2)
				if diff := cmp.Diff(world.Written(before), world.Written(s.get(s.kind.Resource))); diff != "" {
					t.Errorf("at step %d the same manifest again changed the workload (-before +after):\n%s", n+1, diff)
				}
			}
			s.complete(epoch, 2, len(beside), replicas)
		})
	}
}

// The API server refuses a newer version during a release. After an abort it is released.
func TestACloneSetIsAbortedBesideItsStablePods(t *testing.T) {
	s := aCloneSet(t)
	stable := s.pods.now()
	s.pods.allow(image(2), beside[0])
	s.change(2, "null")
	s.besideAt(1, 2, 1, 2)
	s.command(api.CommandAbort)
	s.runs(map[string]int{image(1): replicas})
	s.await(func(r *api.Rollout) bool { return r.Status.Sluice.GetState() == "Aborted" })
	s.wantWeight(0)
	s.wantKept(stable)
	s.command(api.CommandRetry)
	s.besideAt(2, 2, 1, len(beside))
	s.pods.allow(image(3), beside[0])
	s.change(3, "null")
	s.await(func(r *api.Rollout) bool {
		held := world.Condition(r, api.ConditionStalled)
		return held != nil && held.Reason == rollout.ReasonNewVersionRefused
	})
	s.runs(map[string]int{image(1): replicas, image(2): beside[len(beside)-1]})
	s.command(api.CommandAbort)
	s.besideAt(3, 3, 1, 2)
	s.wantKept(stable)
	s.complete(3, 3, 2, replicas)
	s.wantBack(true)
}
