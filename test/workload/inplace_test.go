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
// when the container runs the new one and serves. A stand-in takes the part of the kubelet that pulls images: kwok does not.
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
		s.await(upgradingWith(1, 0))
		slow := s.updating(before)
		if !ready(slow) {
			t.Errorf("the pod %s, whose image is being pulled, is not Ready: the test shows nothing", slow.Name)
		}
		s.wantWeight(0)
		s.pull(slow)
		s.await(pausedIn(1, 1))
		s.wantWeight(weights[0])

		s.approve(2, 1)
		s.await(upgradingWith(2, 1))
		sick := s.updating(before)
		s.annotate(sick, `"true"`)
		s.until("a pod that is updated and fails", func(pods map[string]*corev1.Pod) bool { return updated(pods[sick.Name]) && !ready(pods[sick.Name]) })
		s.await(upgradingWith(2, 1))
		s.wantWeight(weights[0])
		s.annotate(sick, "null")
		s.await(pausedIn(1, 2))
		s.wantWeight(weights[1])

		s.annotate(sick, `"true"`) // it fails again
		s.until("a pod that fails", func(pods map[string]*corev1.Pod) bool { return !ready(pods[sick.Name]) })
		s.approve(2, 2)
		s.await(func(r *api.Rollout) bool {
			return r.Status.CurrentStepIndex == 2 && r.Status.CanaryStatus.CanaryReadyReplicas == 1 && r.Status.CurrentStepState == api.StepReady
		})
		s.annotate(sick, "null")
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

// updating is the pod whose new image is being pulled. It is one of those that were there before.
func (s *shop) updating(before map[string]*corev1.Pod) *corev1.Pod {
	s.Helper()
	var found *corev1.Pod
	s.until("a pod that is being updated in place", func(pods map[string]*corev1.Pod) bool {
		for _, pod := range of(pods, image(2)) {
			if !updated(pod) {
				found = pod
			}
		}
		return found != nil
	})
	if was := before[found.Name]; was == nil || was.UID != found.UID {
		s.Errorf("the pod %s was not updated in place", found.Name)
	}
	return found
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
