package simulate

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
	"sluice.dev/sluice/pkg/workload"
)

// nodes is the number of nodes of a DaemonSet whose status does not report one.
const nodes = 3

// settleObjects runs the controllers of all workloads except Deployments: StatefulSets, DaemonSets, and OpenKruise's kinds.
func (s *store) settleObjects(namespace string) error {
	for _, k := range s.allKeys() {
		o := s.objects[k]
		if k.namespace != namespace || k.GroupResource == deployments {
			continue
		}
		if kind, ok := workload.KindOfObject(o); ok && o.GetDeletionTimestamp() == nil {
			if err := (&podController{store: s, key: k, kind: kind}).reconcilePods(); err != nil {
				return err
			}
		}
	}
	return nil
}

// podController is the controller of a workload other than a Deployment.
type podController struct {
	*store
	key
	kind workload.Kind
}

func (c *podController) workloadObject() *unstructured.Unstructured { return c.objects[c.key] }

func (c *podController) isDaemonSet() bool { return c.kind.Type == api.WorkloadTypeDaemonSet }

// desiredPods returns the number of pods that the workload should have.
func (c *podController) desiredPods() int64 {
	if c.isDaemonSet() {
		if n, ok, _ := unstructured.NestedInt64(c.workloadObject().Object, "status", "desiredNumberScheduled"); ok {
			return n
		}
		return nodes
	}
	if n, ok, _ := unstructured.NestedInt64(c.workloadObject().Object, "spec", "replicas"); ok {
		return n
	}
	return 1
}

// oldPodsKept returns the number of pods that may keep an older version. paused means that all of them do, regardless of the partition.
func (c *podController) oldPodsKept() (n int64, paused bool) {
	strategy, _, _ := unstructured.NestedMap(c.workloadObject().Object, "spec", "updateStrategy")
	rolling, _ := strategy["rollingUpdate"].(map[string]any)
	if c.kind.Type == api.WorkloadTypeCloneSet {
		rolling = strategy
	}
	paused, _ = rolling["paused"].(bool)
	kind, _ := strategy["type"].(string)
	text, said := rolling["partition"]
	if !said {
		return 0, paused || kind == "OnDelete"
	}
	amount := intstr.Parse(fmt.Sprint(text))
	kept, err := intstr.GetScaledValueFromIntOrPercent(&amount, int(c.desiredPods()), true)
	if err != nil {
		return 0, paused
	}
	return min(int64(kept), c.desiredPods()), paused || kind == "OnDelete"
}

// ensureRevision returns the name of the ControllerRevision of the template, and creates it if it does not exist.
func (c *podController) ensureRevision() (string, error) {
	o := c.workloadObject()
	body, _, _ := unstructured.NestedMap(o.Object, "spec", "template")
	template, err := templateOf(body)
	if err != nil {
		return "", fmt.Errorf("%s %s: %w", o.GetKind(), o.GetName(), err)
	}
	mine := c.ownedBy(revisions, o)
	for _, k := range mine {
		have, _, _ := unstructured.NestedMap(c.objects[k].Object, "data", "spec", "template")
		delete(have, "$patch")
		if t, err := templateOf(have); err == nil && workload.TemplateRevision(t) == workload.TemplateRevision(template) {
			return k.name, nil
		}
	}
	word := "stable"
	if len(mine) > 0 {
		word = fmt.Sprintf("new%d", len(mine))
	}
	data, err := json.Marshal(map[string]any{"spec": map[string]any{"template": body}})
	if err != nil {
		return "", err
	}
	made, err := toUnstructured(&appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{Name: o.GetName() + "-" + word, Namespace: o.GetNamespace(), Labels: template.Labels,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(o, o.GroupVersionKind())}},
		Data: runtime.RawExtension{Raw: data}, Revision: int64(len(mine) + 1),
	}, appsv1.SchemeGroupVersion.WithKind("ControllerRevision"))
	if err != nil {
		return "", err
	}
	c.createObject(key{revisions, o.GetNamespace(), made.GetName()}, made)
	return made.GetName(), nil
}

func templateOf(body map[string]any) (corev1.PodTemplateSpec, error) {
	var t corev1.PodTemplateSpec
	return t, runtime.DefaultUnstructuredConverter.FromUnstructured(body, &t)
}

// revisionLabel returns the label value of the pods of a revision.
func (c *podController) revisionLabel(revision string) string {
	if c.kind.Type == api.WorkloadTypeStatefulSet {
		return revision
	}
	return revision[strings.LastIndex(revision, "-")+1:]
}

func (c *podController) reconcilePods() error {
	updated, err := c.ensureRevision()
	if err != nil {
		return err
	}
	current, _, _ := unstructured.NestedString(c.workloadObject().Object, "status", "currentRevision")
	if current == "" {
		current = updated
	}
	if err := c.replacePods(updated, current); err != nil {
		return err
	}
	var have, fresh int64
	for _, k := range c.ownedBy(pods, c.workloadObject()) {
		have++
		if c.objects[k].GetLabels()[c.kind.HashLabel] == c.revisionLabel(updated) {
			fresh++
		}
	}
	if fresh == have {
		current = updated
	}
	next := c.workloadObject().DeepCopy()
	next.Object["status"] = c.statusFields(updated, current, have, fresh)
	c.updateObject(c.key, next)
	return nil
}

// replacePods creates missing pods, removes surplus pods, and replaces older pods as far as the partition allows.
func (c *podController) replacePods(updated, current string) error {
	o := c.workloadObject()
	kept, paused := c.oldPodsKept()
	old := int64(0)
	for _, k := range c.ownedBy(pods, o) {
		if c.objects[k].GetLabels()[c.kind.HashLabel] != c.revisionLabel(updated) {
			old++
		}
	}
	for i, have := 0, len(c.ownedBy(pods, o)); int64(have) < c.desiredPods(); i++ {
		k := key{pods, o.GetNamespace(), fmt.Sprintf("%s-%d", o.GetName(), i)}
		if c.objects[k] != nil {
			continue
		}
		revision := updated
		if !c.isDaemonSet() && current != updated && old < kept {
			revision, old = current, old+1
		}
		if err := c.makePod(k, revision); err != nil {
			return err
		}
		have++
	}
	mine := c.ownedBy(pods, o)
	isOf := func(k key) bool { return c.objects[k].GetLabels()[c.kind.HashLabel] == c.revisionLabel(updated) }
	slices.SortFunc(mine, func(a, b key) int {
		if c.kind.Type != api.WorkloadTypeStatefulSet && isOf(a) != isOf(b) { // surplus pods of the older version go first
			if isOf(b) {
				return -1
			}
			return 1
		}
		return ordinalOf(b.name) - ordinalOf(a.name)
	})
	for i, k := range mine {
		isOld := !isOf(k)
		switch {
		case int64(len(mine)-i) > c.desiredPods():
			if c.removeObject(k); isOld {
				old--
			}
		case isOld && !paused && old > kept:
			old--
			c.removeObject(k)
			if err := c.makePod(k, updated); err != nil {
				return err
			}
		}
	}
	return nil
}

func ordinalOf(name string) int {
	n := 0
	if _, err := fmt.Sscan(name[strings.LastIndex(name, "-")+1:], &n); err != nil {
		return 0
	}
	return n
}

func (c *podController) makePod(k key, revision string) error {
	o := c.workloadObject()
	of, _, _ := unstructured.NestedStringMap(o.Object, "spec", "template", "metadata", "labels")
	pod, err := toUnstructured(&corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: k.name, Namespace: k.namespace, Labels: withEntry(of, c.kind.HashLabel, c.revisionLabel(revision)),
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(o, o.GroupVersionKind())}},
	}, corev1.SchemeGroupVersion.WithKind("Pod"))
	if err != nil {
		return err
	}
	made := c.createObject(k, pod)
	made.Object["status"] = map[string]any{"phase": "Running", "conditions": []any{map[string]any{"type": "Ready", "status": "True"}}}
	return nil
}

// statusFields returns the status that the controller would report with healthy pods only.
func (c *podController) statusFields(updated, current string, have, fresh int64) map[string]any {
	status := map[string]any{"observedGeneration": c.workloadObject().GetGeneration()}
	if c.isDaemonSet() {
		for _, name := range []string{"desiredNumberScheduled", "currentNumberScheduled", "numberReady", "numberAvailable"} {
			status[name] = have
		}
		status["numberMisscheduled"], status["updatedNumberScheduled"] = int64(0), fresh
		if c.kind.Mechanism != rollout.MechanismOnDelete {
			status["daemonSetHash"] = c.revisionLabel(updated)
		}
		return status
	}
	for _, name := range []string{"replicas", "readyReplicas", "availableReplicas"} {
		status[name] = have
	}
	for _, name := range []string{"updatedReplicas", "updatedReadyReplicas", "updatedAvailableReplicas"} {
		status[name] = fresh
	}
	status["currentRevision"], status["updateRevision"] = current, updated
	return status
}
