package view

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
)

func (d *drawing) drawRevisions() {
	if len(d.Deployments) == 0 && d.Workload == nil {
		return
	}
	d.addSection("Revisions")
	if d.Workload != nil {
		d.drawWorkload(d.Workload)
	}
	for _, deployment := range d.Deployments {
		d.drawDeployment(deployment)
	}
}

func isCanary(o metav1.Object) bool { return o.GetLabels()[api.LabelCanaryDeployment] != "" }

func (d *drawing) drawDeployment(w appsv1.Deployment) {
	role := d.ink.Bold("stable")
	if isCanary(&w) {
		role = d.ink.Bold("canary")
	}
	note := ""
	_, held := w.Annotations[api.AnnotationInProgressing]
	both := held && d.holdsBothVersions()
	if both {
		role = d.ink.Bold("both  ")
	}
	switch {
	case w.DeletionTimestamp != nil:
		note = ", going away"
	case both && w.Spec.Paused:
		note = ", held where the step wants it"
	case both:
		note = ", replacing its pods"
	case w.Spec.Paused && held:
		note = ", held at its old version"
	case w.Spec.Paused:
		note = ", paused"
	}
	d.addLine("%s  Deployment %s  %s%s", role, w.Name, d.readyText(w.Status.ReadyReplicas, replicasOrDefault(w.Spec.Replicas)), note)
	sets := d.setsOf(w.UID)
	for i, set := range sets {
		d.drawReplicaSet(set, i == len(sets)-1)
	}
}

func replicasOrDefault(replicas *int32) int32 {
	if replicas == nil {
		return 1
	}
	return *replicas
}

func (d *drawing) readyText(ready, wanted int32) string {
	text := fmt.Sprintf("%d/%d ready", ready, wanted)
	if ready < wanted {
		return d.ink.Yellow(text)
	}
	return d.ink.Green(text)
}

// holdsBothVersions reports whether one workload holds the pods of both versions during the current release.
func (d *drawing) holdsBothVersions() bool {
	return rollout.StyleOf(d.Rollout) == rollout.StylePartition && rollout.State(d.Rollout.Status.Sluice.GetState()).Releasing()
}

// versionText names the version with one of these ids, for a workload that holds both versions.
func (d *drawing) versionText(ids ...string) string {
	switch {
	case !d.holdsBothVersions():
		return ""
	case slices.Contains(ids, d.Rollout.Status.Sluice.StableRevision):
		return "  stable"
	}
	return "  canary"
}

// setsOf returns the ReplicaSets of a Deployment that have or want pods, newest first.
func (d *drawing) setsOf(owner types.UID) []appsv1.ReplicaSet {
	var sets []appsv1.ReplicaSet
	for _, set := range d.ReplicaSets {
		if metav1.IsControlledBy(&set, &metav1.ObjectMeta{UID: owner}) && (replicasOrDefault(set.Spec.Replicas) > 0 || set.Status.Replicas > 0) {
			sets = append(sets, set)
		}
	}
	slices.SortFunc(sets, func(a, b appsv1.ReplicaSet) int {
		return cmp.Or(b.CreationTimestamp.Compare(a.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	return sets
}

func (d *drawing) drawReplicaSet(set appsv1.ReplicaSet, last bool) {
	branch, bar := d.branchMarks(last)
	d.addLine("%s ReplicaSet %s  %s  %s%s", branch, set.Name, d.readyText(set.Status.ReadyReplicas, replicasOrDefault(set.Spec.Replicas)),
		imagesOf(set.Spec.Template), d.versionText(set.Labels[api.LabelPodTemplateHash]))
	d.drawPods(bar, d.podsOf(set.UID))
}

// branchMarks returns the beginning of the line of an element, and the beginning of the lines below it.
func (d *drawing) branchMarks(last bool) (branch, bar string) {
	if last {
		return d.marks.Last, "  "
	}
	return d.marks.Branch, d.marks.Bar
}

func (d *drawing) drawPods(bar string, pods []corev1.Pod) {
	for i, pod := range pods {
		if i == d.MaxPods && len(pods) > i+1 {
			d.addLine("%s  %s", bar, d.ink.Dim(fmt.Sprintf("and %d more pods", len(pods)-i)))
			return
		}
		mark, state := d.podState(pod)
		d.addLine("%s  %s %s  %s  %s", bar, mark, pod.Name, state, d.ink.Dim(d.ageText(pod.CreationTimestamp.Time)))
	}
}

func imagesOf(template corev1.PodTemplateSpec) string {
	var list []string
	for _, c := range template.Spec.Containers {
		list = append(list, c.Image)
	}
	return strings.Join(list, ", ")
}

func (d *drawing) podsOf(owner types.UID) []corev1.Pod {
	var pods []corev1.Pod
	for _, pod := range d.Pods {
		if metav1.IsControlledBy(&pod, &metav1.ObjectMeta{UID: owner}) {
			pods = append(pods, pod)
		}
	}
	slices.SortFunc(pods, func(a, b corev1.Pod) int { return cmp.Compare(a.Name, b.Name) })
	return pods
}

func (d *drawing) podState(pod corev1.Pod) (mark, state string) {
	if pod.DeletionTimestamp != nil {
		return d.ink.Dim(d.marks.Waiting), "Terminating"
	}
	for _, c := range pod.Status.ContainerStatuses {
		if w := c.State.Waiting; w != nil && w.Reason != "" && w.Reason != "ContainerCreating" && w.Reason != "PodInitializing" {
			return d.ink.Red(d.marks.Failed), w.Reason
		}
	}
	if pod.Status.Phase == corev1.PodFailed {
		return d.ink.Red(d.marks.Failed), cmp.Or(pod.Status.Reason, "Failed")
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
			return d.ink.Green(d.marks.Ready), "Ready"
		}
	}
	return d.ink.Yellow(d.marks.Waiting), cmp.Or(string(pod.Status.Phase), "Pending")
}
