package workload

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"sluice.dev/sluice/pkg/api"
)

// The test plays the examples unchanged, with the default grace period of three seconds.
func TestTheExamplesRelease(t *testing.T) {
	each(t, func(t *testing.T, kind Kind) { wholeRelease(aShop(t, kind)) })
}

// wholeRelease goes from step to step and checks each. The controller replaces as many pods at once as the owner
// allows: one, in the examples.
func wholeRelease(s *shop) {
	least := s.leastReady()
	s.release(2)
	for n, count := range counts {
		r := s.await(pausedIn(1, n+1))
		s.runs(map[string]int{image(1): replicas - count, image(2): count})
		s.wantLabels(2, n+1)
		s.wantOrdinals(2, count)
		if got := r.Status.CanaryStatus; int(got.CanaryReplicas) != count || int(got.CanaryReadyReplicas) != count {
			s.Errorf("step %d shows %d new pods, %d ready", n+1, got.CanaryReplicas, got.CanaryReadyReplicas)
		}
		if s.routed {
			s.wantWeight(weights[n])
			s.wantPinned(2)
		}
		s.approve(2, n+1)
	}
	s.await(healthyAfter(1))
	s.settled(image(2))
	s.runs(map[string]int{image(2): replicas})
	s.wantBack(true)
	if n := least(); n != replicas-1 {
		s.Errorf("at one time %d pods were ready", n)
	}
}

// wantLabels checks that each new pod has the labels of its release and batch.
func (s *shop) wantLabels(version, step int) {
	s.Helper()
	want, batches, ids := map[string]int{}, map[string]int{}, map[string]bool{}
	for n := range step {
		before := 0
		if n > 0 {
			before = counts[n-1]
		}
		want[fmt.Sprint(n+1)] = counts[n] - before
	}
	s.until("pods with labels", func(now map[string]*corev1.Pod) bool {
		for _, pod := range of(now, image(version)) {
			if pod.Labels[api.LabelRolloutID] == "" {
				return false
			}
		}
		return true
	})
	for _, pod := range of(s.pods.now(), image(version)) {
		batches[pod.Labels[api.LabelRolloutBatchID]]++
		ids[pod.Labels[api.LabelRolloutID]] = true
	}
	if diff := cmp.Diff(want, batches); diff != "" || len(ids) != 1 {
		s.Errorf("at step %d the pods have the ids %v and the batches (-want +got):\n%s", step, ids, diff)
	}
	for _, pod := range of(s.pods.now(), image(1)) {
		if id := pod.Labels[api.LabelRolloutID]; id != "" {
			s.Errorf("the stable pod %s has the id %s", pod.Name, id)
		}
	}
}

// wantOrdinals checks that the new pods have the highest ordinals, if pods have ordinals.
func (s *shop) wantOrdinals(version, count int) {
	s.Helper()
	if !s.kind.Ordinals {
		return
	}
	now := of(s.pods.now(), image(version))
	for n := replicas - count; n < replicas; n++ {
		if pod := fmt.Sprintf("%s-%d", name, n); now[pod] == nil {
			s.Errorf("the pod %s is not new", pod)
		}
	}
}

// wantWeight checks the weight of the canary Service in the VirtualService.
func (s *shop) wantWeight(want int) {
	s.Helper()
	got := int64(0)
	rules, _, _ := unstructured.NestedSlice(s.get(virtualServices).Object, "spec", "http")
	for _, rule := range rules {
		routes, _, _ := unstructured.NestedSlice(rule.(map[string]any), "route")
		for _, route := range routes {
			if host, _, _ := unstructured.NestedString(route.(map[string]any), "destination", "host"); host == name+"-canary" {
				got, _, _ = unstructured.NestedInt64(route.(map[string]any), "weight")
			}
		}
	}
	if got != int64(want) {
		s.Errorf("the VirtualService sends %d%% to the new pods, not %d%%", got, want)
	}
}

// wantPinned checks that each of the two Services selects pods of one version, and all of them.
func (s *shop) wantPinned(version int) {
	s.Helper()
	for service, image := range map[string]string{name: image(1), name + "-canary": image(version)} {
		u := s.w.Get(s, s.ns, "service", service)
		if u == nil {
			s.Errorf("the Service %s is gone", service)
			continue
		}
		selector, _, _ := unstructured.NestedStringMap(u.Object, "spec", "selector")
		now := s.pods.now()
		if got, want := selected(now, selector), of(now, image); len(got) != len(want) || len(of(got, image)) != len(want) {
			s.Errorf("the Service %s selects %v by %v, not the %d pods of %s", service, images(got), selector, len(want), image)
		}
	}
}

func selected(pods map[string]*corev1.Pod, selector map[string]string) map[string]*corev1.Pod {
	found := map[string]*corev1.Pod{}
	for name, pod := range pods {
		matches := true
		for key, value := range selector {
			matches = matches && pod.Labels[key] == value
		}
		if matches {
			found[name] = pod
		}
	}
	return found
}

// An aborted release may be retried. A deleted daemon never comes back in an older version than its template, so for
// daemons the executor restores the template as well.
func TestAnAbortedReleaseIsTakenBack(t *testing.T) {
	each(t, func(t *testing.T, kind Kind) {
		s := aShop(t, kind, hasty)
		s.release(2)
		s.at(1, 2, 1, 2)
		s.command(api.CommandAbort)
		s.runs(map[string]int{image(1): replicas})
		if kind.Daemon {
			s.await(healthyAfter(1))
			s.settled(image(1))
			s.wantBack(true)
			return
		}
		s.await(func(r *api.Rollout) bool { return r.Status.Sluice.GetState() == "Aborted" })
		if s.routed {
			s.wantWeight(0)
		}
		s.command(api.CommandRetry)
		s.await(pausedIn(2, 1))
		s.runs(map[string]int{image(1): replicas - 1, image(2): 1})
		s.pods.allow(image(2), none)
		s.command(api.CommandPromote)
		s.await(healthyAfter(2))
		s.runs(map[string]int{image(2): replicas})
		s.wantBack(true)
	})
}

// Workload and Rollout are written in an older version of the API.
func TestAWorkloadOfAnOlderVersionOfItsKind(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it needs a control plane, which -short leaves out")
	}
	for _, kind := range Kinds() {
		if kind.Name != "advanced-statefulset" {
			continue
		}
		kind.Resource.Version = "v1alpha1"
		s := aShop(t, kind, hasty, func(all objects) {
			set(all["workload"], "apps.kruise.io/v1alpha1", "apiVersion")
			set(all["Rollout"], "apps.kruise.io/v1alpha1", "spec", "workloadRef", "apiVersion")
		})
		s.release(2)
		s.finish(1, 2, 1)
		s.runs(map[string]int{image(2): replicas})
		s.wantBack(true)
	}
}
