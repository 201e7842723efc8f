package workload

import (
	"context"
	"fmt"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
	"sluice.dev/sluice/pkg/workload"
	"sluice.dev/sluice/test/world"
)

// OpenKruise updates a pod in place: the pod has the label of its new revision, and may be Ready, while its container
// still runs the old image. The pod counts when the container runs the new image and serves, and only while its gate is
// open. A slow pod's gate is closed; a flapping pod's gate opens, closes and opens. The test replaces the kubelet,
// which pulls images and probes pods.
func TestAPodThatIsUpdatedInPlaceCountsOnceItRunsItsNewImage(t *testing.T) {
	policies := map[string][]string{
		"cloneset": {"type"}, "advanced-statefulset": {"rollingUpdate", "podUpdatePolicy"}, "advanced-daemonset": {"rollingUpdate", "rollingUpdateType"},
	}
	each(t, func(t *testing.T, kind Kind) {
		policy := policies[kind.Name]
		if policy == nil {
			t.Skip("its pods are never updated in place")
		}
		s := aShop(t, kind, hasty, routed, strategy("InPlaceIfPossible", policy...), func(all objects) {
			set(all["workload"], []any{map[string]any{"conditionType": string(workload.ConditionUpdatedInPlace)}}, "spec", "template", "spec", "readinessGates")
		})
		before := s.pods.now()
		s.takeOver(before)

		s.release(2)
		first := s.updating(nil)
		s.await(upgradingWith(1, 0))
		s.wantWeight(0)
		s.serves(first)
		s.await(pausedIn(1, 1))
		s.wantUpdated(counts[0])
		s.wantWeight(weights[0])

		s.approve(2, 1)
		second := s.updating(first)
		s.kubelet(second, stale(), true) // it is slow
		s.sees(second, false, true)
		s.falls(first)
		s.await(upgradingWith(2, 0))
		s.kubelet(first, stale(), true) // its gate alone is closed
		s.sees(first, false, true)
		s.serves(second)
		s.await(upgradingWith(2, 1))
		s.kubelet(second, pulled(second), false) // it fails
		s.sees(second, true, false)
		s.await(upgradingWith(2, 0))
		s.wantWeight(weights[0])
		s.kubelet(second, pulled(second), true)
		s.serves(first)
		s.await(pausedIn(1, 2))
		s.wantUpdated(counts[1])
		s.wantWeight(weights[1])

		s.approve(2, 2)
		stop := s.pulls()
		defer stop()
		s.finish(1, 2, 3)
		s.settled(image(2))
		for name, pod := range s.pods.now() {
			if was := before[name]; was == nil || was.UID != pod.UID {
				t.Errorf("the pod %s was replaced", name)
			}
		}
	})
}

// upgradingWith is the goal that a step has all its pods and waits for them, and counts a number of them as ready.
func upgradingWith(step, ready int32) world.Goal {
	return func(r *api.Rollout) bool {
		c := r.Status.CanaryStatus
		return r.Status.Sluice.State == string(rollout.StateUpgrade) && r.Status.CurrentStepIndex == step && c.CanaryReplicas == step && c.CanaryReadyReplicas == ready
	}
}

// updated reports whether the containers of a pod that may be updated in place match its labels.
func updated(pod *corev1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == workload.ConditionUpdatedInPlace {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// takeOver makes pods wait for the test to report their images. Otherwise kwok would report them at once.
func (s *shop) takeOver(pods map[string]*corev1.Pod) {
	s.Helper()
	for _, pod := range pods {
		s.patchPod(pod, `{"metadata":{"annotations":{"sluice.dev/ready-after":"3600s"}}}`)
	}
}

// updating returns the other pod whose container shall run the new image, and does not do so yet. Its gate is closed: OpenKruise may open it again by a cache
// from before the update, until its status counts the pod as updated.
func (s *shop) updating(beside *corev1.Pod) (slow *corev1.Pod) {
	s.Helper()
	updates := 0
	s.until("a pod whose image is being pulled", func(pods map[string]*corev1.Pod) bool {
		all := of(pods, image(2))
		updates = len(all)
		for _, pod := range all {
			if beside == nil || pod.Name != beside.Name {
				slow = pod
			}
		}
		return slow != nil
	})
	s.object(s.kind.Resource, "the update counted", func(u *unstructured.Unstructured) bool {
		return number(u, "status", "observedGeneration") == u.GetGeneration() && s.kind.Updated(u) == int64(updates)
	})
	s.falls(slow)
	return slow
}

// sees waits until a pod's gate is open or closed, and the pod is ready or not.
func (s *shop) sees(pod *corev1.Pod, open, serves bool) {
	s.Helper()
	s.until(fmt.Sprintf("the pod %s with its gate open %t and ready %t", pod.Name, open, serves), func(pods map[string]*corev1.Pod) bool {
		return updated(pods[pod.Name]) == open && ready(pods[pod.Name]) == serves
	})
}

// serves makes a pod run its new image. OpenKruise opens its gate, and then the pod is ready.
func (s *shop) serves(pod *corev1.Pod) {
	s.Helper()
	s.kubelet(pod, pulled(pod), false)
	s.sees(pod, true, false)
	s.kubelet(pod, pulled(pod), true)
}

// falls makes an updated pod run its old image, unready, with its gate closed.
func (s *shop) falls(pod *corev1.Pod) {
	s.Helper()
	s.kubelet(pod, stale(), false)
	s.patchPod(pod, fmt.Sprintf(`{"status":{"conditions":[{"type":%q,"status":"False"}]}}`, workload.ConditionUpdatedInPlace), "status")
}

// wantUpdated checks the number of pods whose containers run the new image.
func (s *shop) wantUpdated(want int) {
	s.Helper()
	s.until(fmt.Sprintf("%d pods that run the new image", want), func(pods map[string]*corev1.Pod) bool { return len(of(pods, image(2))) == want })
	for name, pod := range of(s.pods.now(), image(2)) {
		if !updated(pod) || pod.Status.ContainerStatuses[0].Image != image(2) {
			s.Errorf("the step took pod %s for updated, whose container runs %s", name, pod.Status.ContainerStatuses[0].Image)
		}
	}
}

// container has the image and the identifier that the container of a pod runs.
type container struct{ image, id string }

// stale returns the image from before the release, with kwok's identifier.
func stale() container { return container{image: image(1)} }

// pulled returns the image that a pod asks for.
func pulled(pod *corev1.Pod) container { return container{imageOf(pod), "pulled/" + imageOf(pod)} }

// kubelet reports the container of a pod, and whether the pod is ready.
func (s *shop) kubelet(pod *corev1.Pod, runs container, ready bool) {
	s.Helper()
	if err := s.tryKubelet(s.Context(), pod, runs, ready); err != nil {
		s.Fatal(err)
	}
}

func (s *shop) tryKubelet(ctx context.Context, pod *corev1.Pod, runs container, ready bool) error {
	is := map[bool]string{true: "True", false: "False"}[ready]
	return s.tryPatchPod(ctx, pod, fmt.Sprintf(`{"status":{"conditions":[{"type":"ContainersReady","status":%[5]q},{"type":"Ready","status":%[5]q}],
		"containerStatuses":[{"name":%[1]q,"image":%[2]q,"imageID":%[3]q,"ready":%[4]t,"started":true,"restartCount":1}]}}`,
		pod.Spec.Containers[0].Name, runs.image, runs.id, ready, is), "status")
}

// pulls makes every container run its new image from now on, until stop is called.
func (s *shop) pulls() (stop func()) {
	ctx, cancel := context.WithCancel(s.Context())
	var running sync.WaitGroup
	running.Go(func() {
		for {
			s.pods.mu.Lock()
			changed := s.pods.changed
			s.pods.mu.Unlock()
			for _, pod := range s.pods.now() {
				if imageOf(pod) == image(2) && !(updated(pod) && ready(pod)) {
					if err := s.tryKubelet(ctx, pod, pulled(pod), true); err != nil && ctx.Err() == nil {
						s.Error(err)
						return
					}
				}
			}
			select {
			case <-changed:
			case <-ctx.Done():
				return
			}
		}
	})
	return func() { cancel(); running.Wait() }
}

func (s *shop) patchPod(pod *corev1.Pod, patch string, subresource ...string) {
	s.Helper()
	if err := s.tryPatchPod(s.Context(), pod, patch, subresource...); err != nil {
		s.Fatal(err)
	}
}

func (s *shop) tryPatchPod(ctx context.Context, pod *corev1.Pod, patch string, subresource ...string) error {
	client, err := kubernetes.NewForConfig(s.w.Config)
	if err != nil {
		return err
	}
	_, err = client.CoreV1().Pods(s.ns).Patch(ctx, pod.Name, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}, subresource...)
	return err
}
