package workload

import (
	"strconv"

	appsv1 "k8s.io/api/apps/v1"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
)

const annotationOriginalReplicas = api.AnnotationOriginalPrefix + "replicas"

// seeReplicas tells how many pods the owner of a Deployment wants, and how many its controller is told to run. While a release shrinks it the
// owner's number is in an annotation, and another one has what was written in its place. A number that is neither came by the subresource
// scale, which no policy looks at, and so it is what the owner wants now.
func seeReplicas(d *appsv1.Deployment, w *rollout.Workload) {
	w.Told = replicas(d.Spec.Replicas)
	w.Replicas = w.Told
	w.Shrunk = Shrunk(d)
	own, err := strconv.ParseInt(d.Annotations[annotationOriginalReplicas], 10, 32)
	if err == nil && own >= 0 && d.Annotations[api.AnnotationReplicas] == strconv.Itoa(int(w.Told)) {
		w.Replicas = int32(own)
	}
}

// Shrunk reports whether a release has taken over the replicas of a Deployment.
func Shrunk(d *appsv1.Deployment) bool {
	_, is := d.Annotations[annotationOriginalReplicas]
	return is
}

// ownReplicas is how many pods the owner of a Deployment wants.
func ownReplicas(d *appsv1.Deployment) int32 {
	var w rollout.Workload
	seeReplicas(d, &w)
	return w.Replicas
}

// Scaled reports whether somebody has scaled a Deployment that has not all its pods for the length of a release.
func Scaled(d *appsv1.Deployment) bool {
	own, missing := strconv.Atoi(d.Annotations[annotationOriginalReplicas])
	ours, unwritten := strconv.Atoi(d.Annotations[api.AnnotationReplicas])
	return missing == nil && unwritten == nil && ours < own && int32(ours) != replicas(d.Spec.Replicas)
}

// Unscaled is a Deployment as if the release itself had scaled it: its owner wants what it wanted before.
func Unscaled(d *appsv1.Deployment) *appsv1.Deployment {
	d = d.DeepCopy()
	d.Annotations[api.AnnotationReplicas] = strconv.Itoa(int(replicas(d.Spec.Replicas)))
	return d
}

// Shrink has a Deployment run so many pods, of those that its owner wants.
func Shrink(d *appsv1.Deployment, n int32) Patch {
	return patch(d, nil, map[string]any{
		annotationOriginalReplicas: strconv.Itoa(int(ownReplicas(d))), api.AnnotationReplicas: strconv.Itoa(int(n)),
	}, map[string]any{"replicas": int64(n)})
}

// RestoreReplicas gives a Deployment the pods that its owner wants.
func RestoreReplicas(d *appsv1.Deployment) Patch {
	annotations, spec := restoredReplicas(d)
	return patch(d, nil, annotations, spec)
}

// restoredReplicas are the changes by which a Deployment has its owner's replicas again; none for one that has them.
func restoredReplicas(d *appsv1.Deployment) (annotations, spec map[string]any) {
	annotations, spec = map[string]any{}, map[string]any{}
	for _, key := range []string{annotationOriginalReplicas, api.AnnotationReplicas} {
		if _, is := d.Annotations[key]; is {
			annotations[key] = nil
		}
	}
	if own := ownReplicas(d); own != replicas(d.Spec.Replicas) {
		spec["replicas"] = int64(own)
	}
	return annotations, spec
}
