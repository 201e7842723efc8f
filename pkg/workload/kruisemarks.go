package workload

import (
	"encoding/json"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"sluice.dev/sluice/pkg/api"
)

// AddKruiseMarks adds to a patch that takes a Deployment over what clients of OpenKruise read on the Deployment during a release: the hash of its stable
// revision and, in blue-green style, the fields that its owner gets back. Sluice itself reads neither.
func (p Patch) AddKruiseMarks(d *appsv1.Deployment, stableRevision string, blueGreen bool) {
	if stableRevision != "" && d.Labels[api.LabelStableRevision] != stableRevision {
		p.child("metadata", "labels")[api.LabelStableRevision] = stableRevision
	}
	if fields := ownerStrategy(d); blueGreen && d.Annotations[api.AnnotationOriginalStrategy] != fields {
		p.child("metadata", "annotations")[api.AnnotationOriginalStrategy] = fields
	}
}

// RemoveKruiseMarks adds to a patch the removal of these marks.
func (p Patch) RemoveKruiseMarks(d *appsv1.Deployment) {
	if _, marked := d.Labels[api.LabelStableRevision]; marked {
		p.child("metadata", "labels")[api.LabelStableRevision] = nil
	}
	if _, marked := d.Annotations[api.AnnotationOriginalStrategy]; marked {
		p.child("metadata", "annotations")[api.AnnotationOriginalStrategy] = nil
	}
}

// ownerStrategy returns the fields that the owner of a Deployment gets back after a release, in OpenKruise's JSON.
func ownerStrategy(d *appsv1.Deployment) string {
	rolling := ownRolling(d)
	fields := struct {
		MaxUnavailable          *intstr.IntOrString `json:"maxUnavailable,omitempty"`
		MaxSurge                *intstr.IntOrString `json:"maxSurge,omitempty"`
		MinReadySeconds         int64               `json:"minReadySeconds,omitempty"`
		ProgressDeadlineSeconds int64               `json:"progressDeadlineSeconds,omitempty"`
	}{rolling.MaxUnavailable, rolling.MaxSurge, int64(d.Spec.MinReadySeconds), int64(progressDeadline(d))}
	if hasOriginals(d) {
		fields.MinReadySeconds = originalSeconds(d, annotationOriginalReady, 0)
		fields.ProgressDeadlineSeconds = originalSeconds(d, annotationOriginalDeadline, defaultDeadline)
	}
	body, err := json.Marshal(fields)
	if err != nil {
		return ""
	}
	return string(body)
}
