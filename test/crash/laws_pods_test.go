package crash

import (
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/test/world"
)

// firstImage is the image of the version before any release.
const firstImage = "app:1"

// imageOf returns the image of a pod, or of the pods that an object creates.
func imageOf(u *unstructured.Unstructured) string {
	fields := []string{"spec", "template", "spec", "containers"}
	if u.GetKind() == "Pod" {
		fields = []string{"spec", "containers"}
	}
	containers, _, _ := unstructured.NestedSlice(u.Object, fields...)
	for _, c := range containers {
		image, _, _ := unstructured.NestedString(c.(map[string]any), "image")
		return image
	}
	return ""
}

// available returns the number of new pods that may take traffic.
func (l *laws) available() (n int64) {
	if l.variant.style == beside || l.variant.style == world.Attached {
		if d := l.live["deployments/"+canary]; d != nil {
			n, _, _ = unstructured.NestedInt64(d.Object, "status", "availableReplicas")
		}
		return n
	}
	image := imageOf(l.live[l.variant.workload()+"/"+app])
	for _, u := range l.live {
		switch {
		case imageOf(u) != image || image == firstImage:
		case u.GetKind() == "ReplicaSet":
			ready, _, _ := unstructured.NestedInt64(u.Object, "status", "readyReplicas")
			n += ready
		case u.GetKind() == "Pod" && l.variant.own() && ready(u):
			n++
		}
	}
	return n
}

func ready(pod *unstructured.Unstructured) bool {
	conditions, _, _ := unstructured.NestedSlice(pod.Object, "status", "conditions")
	for _, c := range conditions {
		if m := c.(map[string]any); m["type"] == "Ready" {
			return m["status"] == "True"
		}
	}
	return false
}

// held reports whether a workload creates only the new pods that a step wants. It is paused, it is a taken over
// Deployment limited by its budget, it is a DaemonSet that waits for deletions of its pods, or it has a partition that
// keeps some pods.
func (l *laws) held(w *unstructured.Unstructured) bool {
	const never = 1<<31 - 2
	paused, _, _ := unstructured.NestedBool(w.Object, "spec", "paused")
	seconds, _, _ := unstructured.NestedInt64(w.Object, "spec", "minReadySeconds")
	update, _, _ := unstructured.NestedString(w.Object, "spec", "updateStrategy", "type")
	return paused || l.variant.parks() && seconds == never || update == "OnDelete" || keeps(w)
}

// keeps reports whether a workload has a partition that keeps pods unchanged. The partition is a number, or a
// percentage.
func keeps(w *unstructured.Unstructured) bool {
	for _, fields := range [][]string{{"partition"}, {"rollingUpdate", "partition"}} {
		partition, set, _ := unstructured.NestedFieldNoCopy(w.Object, append([]string{"spec", "updateStrategy"}, fields...)...)
		if set && partition != int64(0) && partition != "0%" {
			return true
		}
	}
	return false
}

// replaced checks the pods of one version of a workload that creates them itself.
func (l *laws) replaced(resource string, old, now *unstructured.Unstructured) {
	switch {
	case resource == "replicasets" && l.variant.parks():
		if was, is := replicas(old), replicas(now); imageOf(now) != firstImage && is > was {
			l.came(is)
		} else if imageOf(now) == firstImage && is < was && l.variant.blueGreen() && (l.state().InStep() || l.machine.FinaliseReason == api.FinaliseRollback) {
			l.breach("StablePodsKeptUntilPromoted", "the stable version went from %d pods to %d in %s of step %d", was, is, l.machine.State, l.machine.Step)
		}
	case resource == "pods" && l.variant.own() && old == nil && imageOf(now) != firstImage:
		n := int64(0)
		for key, u := range l.live {
			if strings.HasPrefix(key, "pods/") && imageOf(u) == imageOf(now) {
				n++
			}
		}
		l.came(n)
	}
}

// came checks new pods of a new version. Their number is n now.
func (l *laws) came(n int64) {
	step := int(l.machine.Step)
	if !l.state().InStep() || step < 1 || step > len(steps()) {
		return
	}
	if n > steps()[step-1].Replicas {
		l.breach("ExposureNeverAboveCommittedStep", "the workload got %d new pods in %s of step %d", n, l.machine.State, step)
	}
	if selected(l.live["services/"+app]) == "" {
		l.breach("StableServicePinnedBeforeCanary", "the workload got new pods while the stable Service selects them as well")
	}
}

// replicas returns the number of pods that an object wants, 0 for no object.
func replicas(u *unstructured.Unstructured) (n int64) {
	if u != nil {
		n, _, _ = unstructured.NestedInt64(u.Object, "spec", "replicas")
	}
	return n
}
