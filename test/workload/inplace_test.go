package workload

import (
	"context"
	"fmt"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
	"sluice.dev/sluice/pkg/workload"
	"sluice.dev/sluice/test/controlplane"
	"sluice.dev/sluice/test/world"
)

// A pod that OpenKruise updates in place bears the label of its new revision, and is Ready, while its container still runs the old image. It counts
// when the container runs the new one and serves. A stand-in takes the part of the kubelet that pulls images, slowly. Where kwok sees a pod unready for a
// moment it does so first, and at once: then the step must find the pod updated.
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
		s.release(2)
		if slow := s.updating(1); slow != nil {
			s.wantWeight(0)
			s.pull(slow)
		}
		s.await(pausedIn(1, 1))
		s.wantUpdated(counts[0])
		s.wantWeight(weights[0])

		s.approve(2, 1)
		if sick := s.updating(2); sick != nil {
			s.annotate(sick, `"true"`)
			s.until("a pod that fails", func(pods map[string]*corev1.Pod) bool { return !ready(pods[sick.Name]) })
			s.pull(sick)
			s.until("a pod that is updated and fails", func(pods map[string]*corev1.Pod) bool { return updated(pods[sick.Name]) && !ready(pods[sick.Name]) })
			s.await(upgradingWith(2, 1))
			s.wantWeight(weights[0])
			s.annotate(sick, "null")
		}
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

// upgradingWith is the goal that a step waits for its pods, and counts one more than are ready.
func upgradingWith(step, ready int32) world.Goal {
	return func(r *api.Rollout) bool {
		c := r.Status.CanaryStatus
		return r.Status.Sluice.State == string(rollout.StateUpgrade) && r.Status.CurrentStepIndex == step && c.CanaryReplicas == ready+1 && c.CanaryReadyReplicas == ready
	}
}

// updated reports whether a pod that may be updated in place runs what its labels say.
func updated(pod *corev1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == workload.ConditionUpdatedInPlace {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// updating is the new pod of a step whose image is being pulled, while the step counts all but this one as ready; nil when all new pods run their image.
func (s *shop) updating(step int32) (slow *corev1.Pod) {
	s.Helper()
	s.await(func(r *api.Rollout) bool { return upgradingWith(step, step-1)(r) || world.PausedAt(step)(r) })
	for _, pod := range of(s.pods.now(), image(2)) {
		if !updated(pod) {
			slow = pod
		}
	}
	return slow
}

// wantUpdated checks that so many pods run the new image, by their containers.
func (s *shop) wantUpdated(want int) {
	s.Helper()
	s.until(fmt.Sprintf("%d pods that run the new image", want), func(pods map[string]*corev1.Pod) bool { return len(of(pods, image(2))) == want })
	for name, pod := range of(s.pods.now(), image(2)) {
		if !updated(pod) || pod.Status.ContainerStatuses[0].Image != image(2) {
			s.Errorf("the step took pod %s for updated, whose container runs %s", name, pod.Status.ContainerStatuses[0].Image)
		}
	}
}

// pull has the container of a pod run its new image.
func (s *shop) pull(pod *corev1.Pod) {
	s.Helper()
	if err := s.tryPull(s.Context(), pod); err != nil {
		s.Fatal(err)
	}
}

func (s *shop) tryPull(ctx context.Context, pod *corev1.Pod) error {
	client, err := kubernetes.NewForConfig(s.w.Config)
	if err != nil {
		return err
	}
	status := fmt.Sprintf(`{"status":{"containerStatuses":[{"name":%q,"image":%q,"imageID":%q,"ready":true,"started":true,"restartCount":1}]}}`,
		pod.Spec.Containers[0].Name, imageOf(pod), "pulled/"+imageOf(pod))
	_, err = client.CoreV1().Pods(s.ns).Patch(ctx, pod.Name, types.StrategicMergePatchType, []byte(status), metav1.PatchOptions{}, "status")
	return err
}

// pulls has every container run its new image from now on, until stop is called.
func (s *shop) pulls() (stop func()) {
	ctx, cancel := context.WithCancel(s.Context())
	var running sync.WaitGroup
	running.Go(func() {
		for {
			s.pods.mu.Lock()
			changed := s.pods.changed
			s.pods.mu.Unlock()
			for _, pod := range s.pods.now() {
				if !updated(pod) {
					if err := s.tryPull(ctx, pod); err != nil && ctx.Err() == nil {
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

// annotate has a pod never be ready, or lets it.
func (s *shop) annotate(pod *corev1.Pod, never string) {
	s.Helper()
	client, err := kubernetes.NewForConfig(s.w.Config)
	if err != nil {
		s.Fatal(err)
	}
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%s}}}`, controlplane.NeverReady, never)
	if _, err := client.CoreV1().Pods(s.ns).Patch(s.Context(), pod.Name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		s.Fatal(err)
	}
}
