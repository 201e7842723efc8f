package workload

import (
	"cmp"
	"encoding/json"
	"slices"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
)

// annotationRevision is where the Deployment controller numbers its ReplicaSets.
const annotationRevision = "deployment.kubernetes.io/revision"

// ObserveDeployment returns the facts of a Deployment that a release of the Rollout of that name needs. sets may hold ReplicaSets of other owners;
// it leaves out those that d does not control. AdoptedBy is the name on the workload, also if that Rollout is gone: the caller finds out whether it
// still exists.
func ObserveDeployment(d *appsv1.Deployment, sets []*appsv1.ReplicaSet, rolloutName string) rollout.Workload {
	w := observeMarks(d, rolloutName, api.WorkloadTypeDeployment)
	w.Observed = d.Status.ObservedGeneration >= d.Generation
	observeReplicas(d, &w)
	w.Paused, w.OwnerPaused = d.Spec.Paused, ownerPaused(d)
	w.Revision = TemplateRevision(d.Spec.Template)
	w.Images, w.Containers = imagesOf(d.Spec.Template.Spec)
	w.Version, w.HistoryLimit = fleetVersion(d, d.Spec.Template.Spec, w.Revision), historyLimit(d.Spec.RevisionHistoryLimit)
	w.Updated, w.Available, w.Total = d.Status.UpdatedReplicas, d.Status.AvailableReplicas, d.Status.Replicas
	observeTakeover(d, &w)
	mine := ownedReplicaSets(sets, d.UID)
	made := creationOrder(mine)
	for _, set := range mine {
		w.Revisions = append(w.Revisions, rollout.Revision{
			Hash:                 set.Labels[api.LabelPodTemplateHash],
			Revision:             TemplateRevision(set.Spec.Template),
			Replicas:             replicasOrDefault(set.Spec.Replicas),
			Ready:                set.Status.ReadyReplicas,
			Surplus:              max(0, set.Status.Replicas-replicasOrDefault(set.Spec.Replicas)),
			CreationOrder:        made[set.Name],
			Deleting:             set.DeletionTimestamp != nil,
			UnavailableRequested: set.Spec.MinReadySeconds == maxReadySeconds,
			Unavailable:          isHeldUnavailable(set),
		})
	}
	return w
}

// observeMarks reads the marks of a workload; they are the same for all kinds.
func observeMarks(o metav1.Object, rolloutName, workloadType string) rollout.Workload {
	claim := o.GetAnnotations()[api.AnnotationRollout]
	mark, held := o.GetAnnotations()[api.AnnotationInProgressing]
	w := rollout.Workload{
		UID:           string(o.GetUID()),
		Adopted:       claim == rolloutName && o.GetLabels()[api.LabelWorkloadType] == workloadType,
		Held:          held,
		HasMarks:      claim == rolloutName || held && inProgressFor(mark) == rolloutName,
		RolloutID:     api.RolloutID(o),
		IDLetsThrough: api.RolloutIDLetsThrough(o),
		Generation:    o.GetGeneration(),
		Deleting:      o.GetDeletionTimestamp() != nil,
	}
	if claim != rolloutName {
		w.AdoptedBy = claim
	}
	w.Delivered, _ = api.ParsePermitNumber(o.GetAnnotations()[api.AnnotationDelivered])
	w.TemplateManager = api.LastTemplateManager(o.GetManagedFields())
	return w
}

// ownedReplicaSets are the ReplicaSets that the object of that UID controls, oldest revision first.
func ownedReplicaSets(sets []*appsv1.ReplicaSet, uid types.UID) []*appsv1.ReplicaSet {
	var mine []*appsv1.ReplicaSet
	for _, set := range sets {
		if owner := metav1.GetControllerOf(set); owner != nil && owner.UID == uid {
			mine = append(mine, set)
		}
	}
	slices.SortFunc(mine, func(a, b *appsv1.ReplicaSet) int {
		return cmp.Or(
			cmp.Compare(revisionNumber(a), revisionNumber(b)),
			a.CreationTimestamp.Compare(b.CreationTimestamp.Time),
			cmp.Compare(a.Name, b.Name),
		)
	})
	return mine
}

// creationOrder are the places of ReplicaSets in the order in which they were made, by name, as the Deployment controller has it.
func creationOrder(sets []*appsv1.ReplicaSet) map[string]int32 {
	sorted := slices.Clone(sets)
	slices.SortFunc(sorted, func(a, b *appsv1.ReplicaSet) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	places := make(map[string]int32, len(sorted))
	for i, set := range sorted {
		places[set.Name] = int32(i)
	}
	return places
}

func revisionNumber(set *appsv1.ReplicaSet) int64 {
	n, err := strconv.ParseInt(set.Annotations[annotationRevision], 10, 64)
	if err != nil {
		return 0
	}
	return n
}

func replicasOrDefault(n *int32) int32 {
	if n == nil {
		return 1
	}
	return *n
}

// ownerPaused is what the owner wants spec.paused to be. While the workload is held, the field itself says nothing of that.
func ownerPaused(d *appsv1.Deployment) bool {
	if _, held := d.Annotations[api.AnnotationInProgressing]; held {
		return d.Annotations[annotationOriginalPaused] == "true"
	}
	return d.Spec.Paused
}

// inProgressFor is the name of the Rollout that a mark of a held change is about, "" when it cannot be read.
func inProgressFor(mark string) string {
	var m struct {
		RolloutName string `json:"rolloutName"`
	}
	if json.Unmarshal([]byte(mark), &m) != nil {
		return ""
	}
	return m.RolloutName
}

// imagesOf returns the images of a pod, each once, and the names of its containers.
func imagesOf(pod corev1.PodSpec) (images, containers []string) {
	for _, c := range slices.Concat(pod.Containers, pod.InitContainers) {
		containers = append(containers, c.Name)
		if !slices.Contains(images, c.Image) {
			images = append(images, c.Image)
		}
	}
	return images, containers
}

// fleetVersion returns the names that a fleet uses for the template of a workload.
func fleetVersion(o metav1.Object, pod corev1.PodSpec, revision string) api.FleetVersion {
	images := map[string]string{}
	for _, c := range slices.Concat(pod.InitContainers, pod.Containers) {
		images[c.Name] = c.Image
	}
	return api.FleetVersion{
		Version: cmp.Or(o.GetAnnotations()[api.AnnotationVersion], api.RolloutID(o)), Images: api.FleetImagesDigest(images), Revision: revision,
	}
}

// defaultHistoryLimit is how many revisions without pods a controller keeps of a workload that does not say so.
const defaultHistoryLimit = 10

func historyLimit(n *int32) int32 {
	if n == nil {
		return defaultHistoryLimit
	}
	return *n
}

// budgetOf is how many pods may be missing, or be too many, in a native rolling update, as the Deployment controller reckons:
// percentages round down, the surge's round up, and where neither leaves room one pod may be missing.
func budgetOf(rolling appsv1.RollingUpdateDeployment, total int32) (unavailable, surge int32) {
	if total == 0 {
		return 0, 0
	}
	surge, unavailable = scaledValue(rolling.MaxSurge, total, true), scaledValue(rolling.MaxUnavailable, total, false)
	if surge == 0 && unavailable == 0 {
		unavailable = 1
	}
	return min(unavailable, total), surge
}

func scaledValue(n *intstr.IntOrString, total int32, up bool) int32 {
	if n == nil {
		return 0
	}
	value, err := intstr.GetScaledValueFromIntOrPercent(n, int(total), up)
	if err != nil {
		return 0
	}
	return int32(max(value, 0))
}
