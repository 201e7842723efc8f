package crash

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/test/world"
)

// app is the name of everything that a user makes in a run.
const app = "app"

// graceSeconds is the grace period of the Rollout.
const graceSeconds = 1

func steps() []world.Step {
	return []world.Step{{Replicas: 1, Weight: 20}, {Replicas: 2, Weight: 60}, {Replicas: 2, Weight: 100}}
}

// newVersion takes a moment to be ready, so that traffic which does not wait for that is seen.
const newVersion = `{"spec":{"template":{"metadata":{"annotations":{"sluice.dev/ready-after":"200ms"}},"spec":{"containers":[{"name":"c","image":"app:2"}]}}}}`

// create makes a namespace with the application in its first version.
func (y *yard) create(ctx context.Context, namespace string) error {
	_, err := y.kubernetes.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	if y.variant != approved {
		return y.measured(ctx, namespace)
	}
	return world.App{Name: app, Replicas: 2, Steps: steps(), GraceSeconds: graceSeconds}.Create(ctx, y.objects, namespace)
}

// release brings the second version out, approving each pause in the moment it is seen, and returns when nothing of it is left.
func (y *yard) release(ctx context.Context, namespace string, h *history, j *journal) error {
	if err := h.await(ctx, "the workload to be adopted", adopted); err != nil {
		return err
	}
	j.begin()
	_, err := y.kubernetes.AppsV1().Deployments(namespace).Patch(ctx, app, types.StrategicMergePatchType, []byte(newVersion), metav1.PatchOptions{})
	if err != nil {
		return fmt.Errorf("change the template: %w", err)
	}
	if y.variant != approved {
		return h.await(ctx, "the end of the release", y.settled)
	}
	for n := range steps() {
		paused := world.PausedAt(int32(n + 1))
		if err := h.await(ctx, fmt.Sprintf("the pause of step %d", n+1), func(live objects) bool { return paused(live.rollout()) }); err != nil {
			return err
		}
		if err := y.approve(ctx, namespace); err != nil {
			return fmt.Errorf("approve step %d: %w", n+1, err)
		}
	}
	return h.await(ctx, "the end of the release", y.settled)
}

func (y *yard) approve(ctx context.Context, namespace string) error {
	rollouts := y.objects.Resource(api.RolloutResource()).Namespace(namespace)
	_, err := rollouts.Patch(ctx, app, types.MergePatchType, []byte(`{"status":{"canaryStatus":{"currentStepState":"StepReady"}}}`),
		metav1.PatchOptions{FieldManager: "tester"}, "status")
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("the Rollout is gone: %w", err)
	}
	return err
}

// rollout is the Rollout of the run, an empty one when there is none.
func (o objects) rollout() *api.Rollout {
	r := &api.Rollout{}
	if u := o["rollouts/"+app]; u != nil {
		_ = runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, r) // what the API server took can be read
	}
	return r
}

func adopted(live objects) bool {
	d := live["deployments/"+app]
	return d != nil && d.GetAnnotations()[api.AnnotationRollout] == app && available(d) && world.Healthy(live.rollout())
}

// available reports whether a Deployment runs its template everywhere.
func available(d *unstructured.Unstructured) bool {
	number := func(fields ...string) int64 { n, _, _ := unstructured.NestedInt64(d.Object, fields...); return n }
	want := number("spec", "replicas")
	return number("status", "observedGeneration") == d.GetGeneration() && number("status", "updatedReplicas") == want &&
		number("status", "availableReplicas") == want && number("status", "replicas") == want
}

// settled reports whether a release has succeeded and nothing of it is left, so that nobody has a reason to write any more.
func settled(live objects) bool {
	r := live.rollout()
	done := world.Condition(r, api.ConditionSucceeded)
	if !world.Healthy(r) || r.Status.Sluice == nil || r.Status.Sluice.Epoch == 0 || done == nil || done.Status != "True" {
		return false
	}
	// What it says of a wait that is over is still to be written.
	if progressing := world.Condition(r, api.ConditionProgressing); progressing == nil || r.Status.Message != progressing.Message {
		return false
	}
	for key, u := range live {
		if strings.HasSuffix(key, "/"+app+api.SuffixCanary) || u.GetDeletionTimestamp() != nil {
			return false
		}
	}
	return available(live["deployments/"+app]) && live.pods() == 2
}

func (o objects) pods() (n int) {
	for key := range o {
		if strings.HasPrefix(key, "pods/") {
			n++
		}
	}
	return n
}
