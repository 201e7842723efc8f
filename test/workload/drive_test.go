package workload

import (
	"fmt"
	"strings"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/test/controlplane"
	"sluice.dev/sluice/test/world"
)

// release sets a version of the workload. The new pods of step 1 may run.
func (s *shop) release(version int) {
	s.Helper()
	s.pods.allow(image(version), counts[0])
	s.change(version, "null")
}

// releaseSick releases a version whose pods are never ready.
func (s *shop) releaseSick(version int) {
	s.Helper()
	s.pods.allow(image(version), counts[0])
	s.change(version, `"true"`)
}

// back returns the workload to its first version.
func (s *shop) back() {
	s.Helper()
	s.change(1, "null")
}

// undo returns the workload to its first revision by the patch of `kubectl rollout undo`. OpenKruise sends the same
// one, as a merge patch for its own kinds.
func (s *shop) undo() {
	s.Helper()
	if s.kind.Resource.Group == "apps" {
		s.w.Do(s, "-n", s.ns, "rollout", "undo", strings.ToLower(s.kind.Kind)+"/"+name, "--to-revision=1")
		return
	}
	s.patch(s.kind.Resource, s.w.Do(s, "-n", s.ns, "get", "controllerrevisions", "-o", "jsonpath={.items[?(@.revision==1)].data}"))
}

// change sets the image of the workload's template, and an annotation of its pods.
func (s *shop) change(version int, never string) {
	s.Helper()
	s.patch(s.kind.Resource, fmt.Sprintf(`
spec:
  template:
    metadata: {annotations: {%s: %s}}
    spec: {containers: [{name: shop, image: %q, ports: [{containerPort: 80}]}]}`, controlplane.NeverReady, never, image(version)))
}

// await waits until the Rollout reaches a goal.
func (s *shop) await(goal world.Goal) *api.Rollout {
	s.Helper()
	var r *api.Rollout
	s.object(api.RolloutResource(), "the goal of the test", func(u *unstructured.Unstructured) bool {
		if u == nil {
			return false
		}
		r = &api.Rollout{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, r); err != nil {
			s.Fatal(err)
		}
		return goal(r)
	})
	return r
}

// pausedIn is the goal that a release waits at a step.
func pausedIn(epoch int64, step int) world.Goal {
	return func(r *api.Rollout) bool {
		return world.PausedAt(int32(step))(r) && r.Status.Sluice.Epoch == epoch
	}
}

// healthyAfter is the goal that this release is over; a Rollout is Healthy before it has seen a new version, too.
func healthyAfter(epoch int64) world.Goal {
	return func(r *api.Rollout) bool {
		return world.Healthy(r) && r.Status.Sluice.Epoch >= epoch && r.Status.Sluice.WakeAt == nil
	}
}

// approve approves a step of a version.
func (s *shop) approve(version, step int) {
	s.Helper()
	if step < len(counts) {
		s.pods.allow(image(version), counts[step])
	} else {
		s.pods.allow(image(version), none)
	}
	s.patch(api.RolloutResource(), `status: {canaryStatus: {currentStepState: StepReady}}`, "status")
}

// at brings a release of a version from one step to the pause of another.
func (s *shop) at(epoch int64, version, from, step int) *api.Rollout {
	s.Helper()
	for n := from; n < step; n++ {
		s.await(pausedIn(epoch, n))
		s.approve(version, n)
	}
	return s.await(pausedIn(epoch, step))
}

// finish approves the remaining steps of a release, from the pause of a step.
func (s *shop) finish(epoch int64, version, from int) *api.Rollout {
	s.Helper()
	s.at(epoch, version, from, len(counts))
	s.approve(version, len(counts))
	return s.await(healthyAfter(epoch))
}

// command writes a command for the release under way.
func (s *shop) command(action api.CommandAction) {
	s.Helper()
	m := s.await(func(r *api.Rollout) bool { return r.Status.Sluice != nil }).Status.Sluice
	s.patch(api.RolloutResource(), fmt.Sprintf(`status: {command: {action: %s, epoch: %d, pauseSeq: %d, actor: admin}}`, action, m.Epoch, m.PauseSeq), "status")
}

// scale sets another number of pods.
func (s *shop) scale(n int) {
	s.Helper()
	if !s.kind.Daemon {
		s.patch(s.kind.Resource, fmt.Sprintf(`spec: {replicas: %d}`, n))
		return
	}
	if err := Spread(s.Context(), s.w, s.label(), n); err != nil {
		s.Fatal(err)
	}
}

// settled waits until the workload's own controller runs an image in all pods.
func (s *shop) settled(image string) {
	s.Helper()
	s.object(s.kind.Resource, image+" in all pods", func(u *unstructured.Unstructured) bool {
		return u != nil && templateImage(u) == image && s.kind.Settled(u)
	})
}

func templateImage(u *unstructured.Unstructured) string {
	containers, _, _ := unstructured.NestedSlice(u.Object, "spec", "template", "spec", "containers")
	image, _, _ := unstructured.NestedString(containers[0].(map[string]any), "image")
	return image
}

// deleted deletes the Rollout and returns when it is gone.
func (s *shop) deleted() {
	s.Helper()
	if err := s.client(api.RolloutResource()).Delete(s.Context(), name, metav1.DeleteOptions{}); err != nil {
		s.Fatal(err)
	}
	s.object(api.RolloutResource(), "gone", func(u *unstructured.Unstructured) bool { return u == nil })
}

// wantBack checks that all objects are as their owner had them, except for the template. The marks of adoption are
// the only marks on them.
func (s *shop) wantBack(adopted bool) {
	s.Helper()
	if diff := cmp.Diff(owned(s.workload, false), owned(s.get(s.kind.Resource), adopted)); diff != "" {
		s.Errorf("the workload (-before +after):\n%s", diff)
	}
	if diff := cmp.Diff(owned(s.service, false), owned(s.get(services), false)); diff != "" {
		s.Errorf("the Service (-before +after):\n%s", diff)
	}
	if list, err := s.client(services).List(s.Context(), metav1.ListOptions{}); err != nil || len(list.Items) != 1 {
		s.Errorf("%d Services are left: %v", len(list.Items), err)
	}
	if !s.routed {
		return
	}
	if diff := cmp.Diff(owned(s.route, false), owned(s.get(virtualServices), false)); diff != "" {
		s.Errorf("the VirtualService (-before +after):\n%s", diff)
	}
}

// owned returns the part of an object that its owner decides. It leaves out the template and the number of pods, which
// tests change. A partition of 0 counts as none, and so does the value false of paused, which stays on an Advanced
// DaemonSet.
func owned(u *unstructured.Unstructured, adopted bool) map[string]any {
	u = u.DeepCopy()
	for _, field := range []string{"template", "replicas"} {
		unstructured.RemoveNestedField(u.Object, "spec", field)
	}
	for _, at := range [][]string{{"spec", "updateStrategy"}, {"spec", "updateStrategy", "rollingUpdate"}} {
		if number(u, append(at, "partition")...) == 0 {
			unstructured.RemoveNestedField(u.Object, append(at, "partition")...)
		}
		if paused, _, _ := unstructured.NestedBool(u.Object, append(at, "paused")...); !paused {
			unstructured.RemoveNestedField(u.Object, append(at, "paused")...)
		}
		if m, found, _ := unstructured.NestedMap(u.Object, at...); found && len(m) == 0 {
			unstructured.RemoveNestedField(u.Object, at...)
		}
	}
	labels, annotations := u.GetLabels(), u.GetAnnotations()
	delete(annotations, "deprecated.daemonset.template.generation")
	if adopted {
		delete(labels, api.LabelWorkloadType)
		delete(annotations, api.AnnotationRollout)
	}
	all := map[string]any{"spec": u.Object["spec"], "finalizers": u.GetFinalizers(), "owners": u.GetOwnerReferences()}
	if len(labels) > 0 {
		all["labels"] = labels
	}
	if len(annotations) > 0 {
		all["annotations"] = annotations
	}
	return all
}
