package view

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/workload/kinds"
)

// drawWorkload draws one that is no Deployment: its pods by the revisions that they have.
func (d *drawing) drawWorkload(u *unstructured.Unstructured) {
	role := d.ink.Bold("stable")
	_, held := u.GetAnnotations()[api.AnnotationInProgressing]
	both := held && d.holdsBothVersions()
	if both {
		role = d.ink.Bold("both  ")
	}
	kind := kinds.FindOrShape(u.GroupVersionKind().GroupKind())
	wanted, ready, updated := podCounts(u, kind)
	note := ""
	switch {
	case u.GetDeletionTimestamp() != nil:
		note = ", going away"
	case both && (ready < wanted || updated < wanted-partitionOf(u, kind, wanted)):
		note = ", replacing its pods"
	case both:
		note = ", held where the step wants it"
	case held:
		note = ", held at its old version"
	case updateType(u) == kinds.OnDelete:
		note = ", replaces only pods that are deleted"
	}
	d.addLine("%s  %s %s  %s%s", role, u.GetKind(), u.GetName(), d.readyText(int32(ready), int32(wanted)), note)
	groups := d.revisionGroups(u)
	for i, g := range groups {
		d.drawGroup(u, g, i == len(groups)-1)
	}
}

func updateType(u *unstructured.Unstructured) string {
	text, _, _ := unstructured.NestedString(u.Object, "spec", "updateStrategy", "type")
	return text
}

// podCounts are how many pods there shall be, are ready and have been updated.
func podCounts(u *unstructured.Unstructured, kind kinds.Kind) (wanted, ready, updated int64) {
	wanted, set, _ := unstructured.NestedInt64(u.Object, kind.WantedPath()...)
	if !set {
		wanted = 1
	}
	ready, _, _ = unstructured.NestedInt64(u.Object, "status", kind.Status.Ready)
	updated, _, _ = unstructured.NestedInt64(u.Object, "status", kind.Status.Updated)
	return wanted, ready, updated
}

// partitionOf is how many pods stay in the version that they have; all, where only those are replaced that are deleted.
func partitionOf(u *unstructured.Unstructured, kind kinds.Kind, of int64) int64 {
	if updateType(u) == kinds.OnDelete {
		return of
	}
	partition, is := kind.Field(kinds.FieldPartition)
	if !is {
		return 0
	}
	value, _, _ := unstructured.NestedFieldNoCopy(u.Object, partition.ObjectPath()...)
	switch v := value.(type) {
	case int64:
		return v
	case string:
		share := intstr.FromString(v)
		n, err := intstr.GetScaledValueFromIntOrPercent(&share, int(of), true)
		if err != nil {
			return 0
		}
		return int64(n)
	}
	return 0
}

// revisionGroup is the pods of one revision of a workload.
type revisionGroup struct {
	// hash is what the pods bear; a revision is nil that is not kept any more.
	hash     string
	revision *appsv1.ControllerRevision
	pods     []corev1.Pod
}

// revisionGroups are the revisions of a workload that have pods, newest first.
func (d *drawing) revisionGroups(u *unstructured.Unstructured) []revisionGroup {
	var list []revisionGroup
	for _, pod := range d.podsOf(u.GetUID()) {
		hash := pod.Labels[api.LabelControllerRevisionHash]
		i := slices.IndexFunc(list, func(g revisionGroup) bool { return g.hash == hash })
		if i < 0 {
			i, list = len(list), append(list, revisionGroup{hash: hash, revision: d.revisionOf(u, hash)})
		}
		list[i].pods = append(list[i].pods, pod)
	}
	slices.SortFunc(list, func(a, b revisionGroup) int {
		return cmp.Or(cmp.Compare(b.revisionNumber(), a.revisionNumber()), cmp.Compare(a.hash, b.hash))
	})
	return list
}

func (g revisionGroup) revisionNumber() int64 {
	if g.revision == nil {
		return 0
	}
	return g.revision.Revision
}

// revisionOf is the one that a hash stands for: its name, or what its name ends with.
func (d *drawing) revisionOf(u *unstructured.Unstructured, hash string) *appsv1.ControllerRevision {
	for i := range d.ControllerRevisions {
		r := &d.ControllerRevisions[i]
		if metav1.IsControlledBy(r, u) && (r.Name == hash || r.Name == u.GetName()+"-"+hash) {
			return r
		}
	}
	return nil
}

func (d *drawing) drawGroup(u *unstructured.Unstructured, g revisionGroup, last bool) {
	branch, bar := d.branchMarks(last)
	var all, ready int32
	for _, pod := range g.pods {
		if pod.DeletionTimestamp == nil {
			all++
		}
		if isReady(pod) {
			ready++
		}
	}
	if g.revision == nil {
		d.addLine("%s %s, which is not kept any more  %s  %s", branch, cmp.Or(g.hash, "no revision"), d.readyText(ready, all), imagesOf(corev1.PodTemplateSpec{Spec: g.pods[0].Spec}))
	} else {
		short := strings.TrimPrefix(g.revision.Name, u.GetName()+"-")
		d.addLine("%s ControllerRevision %s  %s  %s%s", branch, g.revision.Name, d.readyText(ready, all), revisionImages(g.revision), d.versionText(g.revision.Name, short))
	}
	d.drawPods(bar, g.pods)
}

func isReady(pod corev1.Pod) bool {
	return pod.DeletionTimestamp == nil && slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// revisionImages reads a revision that is kept as a patch, which replaces the whole template.
func revisionImages(r *appsv1.ControllerRevision) string {
	var data struct {
		Spec struct{ Template corev1.PodTemplateSpec }
	}
	if json.Unmarshal(r.Data.Raw, &data) != nil {
		return ""
	}
	return imagesOf(data.Spec.Template)
}
