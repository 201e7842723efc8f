package workload

import (
	"strconv"

	appsv1 "k8s.io/api/apps/v1"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
)

const annotationOriginalReplicas = api.AnnotationOriginalPrefix + "replicas"

// observeReplicas reads the number of pods that the owner of a Deployment wants, and the number that its controller has to run. While a release
// scales the Deployment down, one annotation has the owner's number, and another one the assigned number. A third number came by the subresource
// scale, which no policy sees, so it is the owner's new wish.
func observeReplicas(d *appsv1.Deployment, w *rollout.Workload) {
	w.SpecReplicas = replicasOrDefault(d.Spec.Replicas)
	w.DesiredReplicas = w.SpecReplicas
	w.ScaledDown = IsScaledDown(d)
	own, err := strconv.ParseInt(d.Annotations[annotationOriginalReplicas], 10, 32)
	if err == nil && own >= 0 && d.Annotations[api.AnnotationAssignedReplicas] == strconv.Itoa(int(w.SpecReplicas)) {
		w.DesiredReplicas = int32(own)
	}
}

// IsScaledDown reports whether a release has taken over the replicas of a Deployment.
func IsScaledDown(d *appsv1.Deployment) bool {
	_, is := d.Annotations[annotationOriginalReplicas]
	return is
}

// ownReplicas is how many pods the owner of a Deployment wants.
func ownReplicas(d *appsv1.Deployment) int32 {
	var w rollout.Workload
	observeReplicas(d, &w)
	return w.DesiredReplicas
}

// ScaledByOthers reports whether another client has scaled a Deployment that has not all its pods for the length of a release.
func ScaledByOthers(d *appsv1.Deployment) bool {
	own, missing := strconv.Atoi(d.Annotations[annotationOriginalReplicas])
	ours, unwritten := strconv.Atoi(d.Annotations[api.AnnotationAssignedReplicas])
	return missing == nil && unwritten == nil && ours < own && int32(ours) != replicasOrDefault(d.Spec.Replicas)
}

// AcceptReplicas is a Deployment as if the release itself had scaled it: its owner wants what it wanted before.
func AcceptReplicas(d *appsv1.Deployment) *appsv1.Deployment {
	d = d.DeepCopy()
	d.Annotations[api.AnnotationAssignedReplicas] = strconv.Itoa(int(replicasOrDefault(d.Spec.Replicas)))
	return d
}

// ScaleDownDeployment has a Deployment run so many pods, of those that its owner wants.
func ScaleDownDeployment(d *appsv1.Deployment, n int32) Patch {
	return newPatch(d, nil, map[string]any{
		annotationOriginalReplicas: strconv.Itoa(int(ownReplicas(d))), api.AnnotationAssignedReplicas: strconv.Itoa(int(n)),
	}, map[string]any{"replicas": int64(n)})
}

// RestoreReplicas gives a Deployment the pods that its owner wants.
func RestoreReplicas(d *appsv1.Deployment) Patch {
	annotations, spec := restoredReplicas(d)
	return newPatch(d, nil, annotations, spec)
}

// restoredReplicas returns the changes that restore the owner's replicas of a Deployment; none if it has them.
func restoredReplicas(d *appsv1.Deployment) (annotations, spec map[string]any) {
	annotations, spec = map[string]any{}, map[string]any{}
	for _, key := range []string{annotationOriginalReplicas, api.AnnotationAssignedReplicas} {
		if _, is := d.Annotations[key]; is {
			annotations[key] = nil
		}
	}
	if own := ownReplicas(d); own != replicasOrDefault(d.Spec.Replicas) {
		spec["replicas"] = int64(own)
	}
	return annotations, spec
}
