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
	"sluice.dev/sluice/test/workload"
	"sluice.dev/sluice/test/world"
)

// app is the name of all objects that a user creates in a run.
const app = "app"

// graceSeconds is the grace period of the Rollout.
const graceSeconds = 1

// size is the number of pods of the workload: one more than any step wants.
const size = 3

func steps() []world.Step {
	return []world.Step{{Replicas: 1, Weight: 20}, {Replicas: 2, Weight: 60}, {Replicas: 2, Weight: 100}}
}

// newVersion needs a moment to be ready, so that the test detects traffic that does not wait for this.
const newVersion = `{"spec":{"template":{"metadata":{"annotations":{"sluice.dev/ready-after":"200ms"}},"spec":{"containers":[{"name":"c","image":"app:2"}]}}}}`

const (
	newerVersion = `{"spec":{"template":{"spec":{"containers":[{"name":"c","image":"app:3"}]}}}}`
	oldVersion   = `{"spec":{"template":{"metadata":{"annotations":{"sluice.dev/ready-after":null}},"spec":{"containers":[{"name":"c","image":"app:1"}]}}}}`
)

// create creates a namespace with the application in its first version.
func (y *yard) create(ctx context.Context, namespace string) error {
	_, err := y.kubernetes.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	if y.measured() {
		return y.createMeasured(ctx, namespace)
	}
	return world.App{Name: app, Replicas: size, Steps: steps(), GraceSeconds: graceSeconds, Kind: y.style, Governed: y.governed()}.Create(ctx, y.objects, namespace)
}

// release releases the second version and approves each pause as soon as it sees it. It returns when no part of the
// release is left.
func (y *yard) release(ctx context.Context, namespace string, h *history, c *crew) error {
	if err := h.await(ctx, "the workload to be adopted", y.adopted); err != nil {
		return err
	}
	c.begin()
	if err := y.change(ctx, namespace, newVersion); err != nil {
		return fmt.Errorf("change the template: %w", err)
	}
	if y.measured() {
		return h.await(ctx, "the end of the release", y.settled)
	}
	if y.turns() {
		if err := y.turn(ctx, namespace, h, c.hub); err != nil {
			return err
		}
		if y.end != continued && y.end != recalled {
			return h.await(ctx, "the end of the release", y.settled)
		}
	}
	for n := range steps() {
		if err := y.paused(ctx, n+1, h); err != nil {
			return err
		}
		if err := y.approve(ctx, namespace); err != nil {
			return fmt.Errorf("approve step %d: %w", n+1, err)
		}
	}
	if y.end == recalled {
		if err := y.recall(ctx, namespace, h, c.hub); err != nil {
			return err
		}
	}
	return h.await(ctx, "the end of the release", y.settled)
}

// change writes a version as the owner of the workload.
func (y *yard) change(ctx context.Context, namespace, version string) error {
	workloads := y.objects.Resource(y.style.Resource()).Namespace(namespace)
	return workload.OnceKnown(ctx, func(ctx context.Context) error {
		_, err := workloads.Patch(ctx, app, types.MergePatchType, []byte(version), metav1.PatchOptions{})
		return err
	})
}

// paused waits for the pause of a step, in the release that the variant ends with.
func (y *yard) paused(ctx context.Context, step int, h *history) error {
	there := world.PausedAt(int32(step))
	return h.await(ctx, fmt.Sprintf("the pause of step %d", step), func(live objects) bool {
		r := live.rollout()
		return there(r) && (y.end != continued || r.Status.Sluice.Epoch == 2)
	})
}

func (y *yard) approve(ctx context.Context, namespace string) error {
	rollouts := y.objects.Resource(api.RolloutResource()).Namespace(namespace)
	status := "canaryStatus"
	if y.blueGreen() {
		status = "blueGreenStatus"
	}
	_, err := rollouts.Patch(ctx, app, types.MergePatchType, fmt.Appendf(nil, `{"status":{%q:{"currentStepState":"StepReady"}}}`, status),
		metav1.PatchOptions{FieldManager: "tester"}, "status")
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("the Rollout is gone: %w", err)
	}
	return err
}

// rollout returns the Rollout of the run, an empty one if it does not exist.
func (o objects) rollout() *api.Rollout {
	r := &api.Rollout{}
	if u := o["rollouts/"+app]; u != nil {
		_ = runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, r) // the API server has validated it
	}
	return r
}

func (v variant) adopted(live objects) bool {
	w := live[v.workload()+"/"+app]
	return w != nil && w.GetAnnotations()[api.AnnotationRollout] == app && available(w) && world.Healthy(live.rollout())
}

// available reports whether all pods of a workload run its template.
func available(d *unstructured.Unstructured) bool {
	number := func(fields ...string) int64 { n, _, _ := unstructured.NestedInt64(d.Object, fields...); return n }
	if d.GetKind() == "DaemonSet" {
		return number("status", "observedGeneration") == d.GetGeneration() && number("status", "desiredNumberScheduled") == size &&
			number("status", "updatedNumberScheduled") == size && number("status", "numberAvailable") == size
	}
	want := number("spec", "replicas")
	return number("status", "observedGeneration") == d.GetGeneration() && number("status", "updatedReplicas") == want &&
		number("status", "availableReplicas") == want && number("status", "replicas") == want
}

// settled reports whether a release has reached the end of its variant and no part of it is left. Then no component has
// a reason to write.
func (v variant) settled(live objects) bool {
	if !v.over(live) {
		return false
	}
	for key, u := range live {
		if strings.HasSuffix(key, "/"+app+api.SuffixCanary) || u.GetDeletionTimestamp() != nil {
			return false
		}
	}
	return available(live[v.workload()+"/"+app]) && live.pods() == size
}

// over reports whether the Rollout's status says that the release has ended.
func (v variant) over(live objects) bool {
	r, w := live.rollout(), live[v.workload()+"/"+app]
	switch v.end {
	case removed:
		return live["rollouts/"+app] == nil && w.GetAnnotations()[api.AnnotationRollout] == ""
	case disabled:
		shown := r.Status.Common()
		return r.Status.Phase == api.PhaseDisabled && w.GetAnnotations()[api.AnnotationRollout] == "" &&
			shown.Message == r.Status.Message && shown.ObservedWorkloadGeneration == w.GetGeneration()
	}
	end := corev1.ConditionTrue
	if v.end == canceled || v.end == undone || v.end == withdrawn || v.end == recalled {
		end = corev1.ConditionFalse
	}
	done := world.Condition(r, api.ConditionSucceeded)
	if !world.Healthy(r) || r.Status.Sluice == nil || r.Status.Sluice.Epoch == 0 || done == nil || done.Status != end {
		return false
	}
	return waitsNoMore(r)
}

// waitsNoMore reports whether the status no longer shows a wait. The executor removes it a moment after the wait.
func waitsNoMore(r *api.Rollout) bool {
	progressing := world.Condition(r, api.ConditionProgressing)
	return progressing != nil && r.Status.Message == progressing.Message
}

func (o objects) pods() (n int) {
	for key := range o {
		if strings.HasPrefix(key, "pods/") {
			n++
		}
	}
	return n
}
