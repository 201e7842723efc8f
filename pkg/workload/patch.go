package workload

import (
	"encoding/json"
	"maps"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
)

const annotationOriginalPaused = api.AnnotationOriginalPrefix + "paused"

// Patch is a JSON merge patch.
type Patch map[string]any

// AdoptDeployment marks the Deployment as the Rollout's, so that the admission policies hold its next change.
func AdoptDeployment(d *appsv1.Deployment, rolloutName string, id rollout.StableID) Patch {
	annotations := map[string]any{api.AnnotationRollout: rolloutName}
	maps.Copy(annotations, stableIDMark(d, id))
	return newPatch(d, typeLabels(api.WorkloadTypeDeployment), annotations, nil)
}

// RestoreTemplate is the JSON patch that gives a Deployment the template of the stable version again, and its rollout-id with it.
// version is the fleet's name of the template, nil for a Rollout without a fleet.
func RestoreTemplate(d *appsv1.Deployment, set *appsv1.ReplicaSet, version *string) ([]byte, error) {
	return json.Marshal(templatePatch(d, TemplateOf(set), version))
}

func templatePatch(o metav1.Object, template any, version *string) []map[string]any {
	operations := []map[string]any{
		{"op": "replace", "path": "/metadata/resourceVersion", "value": o.GetResourceVersion()},
		{"op": "replace", "path": "/spec/template", "value": template},
	}
	if version == nil {
		return append(operations, RestoreRolloutID(o, o.GetAnnotations()[api.AnnotationStableRolloutID])...)
	}
	return append(operations, restoreVersion(o, *version)...)
}

// restoreVersion returns the operations of a JSON patch that replace the name of a version, wherever it stands: an annotation, or else the rollout-id. An
// unknown name is "".
func restoreVersion(o metav1.Object, version string) []map[string]any {
	if _, named := o.GetAnnotations()[api.AnnotationVersion]; !named {
		if _, labelled := o.GetLabels()[api.LabelRolloutID]; labelled && len(validation.IsValidLabelValue(version)) > 0 {
			version = "" // it came from an annotation, which may have any value
		}
		return RestoreRolloutID(o, version)
	}
	path := "/metadata/annotations/" + jsonPointer.Replace(api.AnnotationVersion)
	named := map[string]any{"op": "replace", "path": path, "value": version}
	if version == "" {
		named = map[string]any{"op": "remove", "path": path}
	}
	return append(RestoreRolloutID(o, ""), named)
}

// HoldDeployment pauses the Deployment and marks it as being released. It records a pause of the owner. The mark of an earlier hold stays, and so do
// the values that were recorded with it.
func HoldDeployment(d *appsv1.Deployment, rolloutName string) Patch {
	return newPatch(d, typeLabels(api.WorkloadTypeDeployment), holdMarks(d, rolloutName), map[string]any{"paused": true})
}

// holdMarks are the annotations of a Deployment that is held.
func holdMarks(d *appsv1.Deployment, rolloutName string) map[string]any {
	annotations := map[string]any{api.AnnotationRollout: rolloutName}
	if _, held := d.Annotations[api.AnnotationInProgressing]; !held {
		annotations[api.AnnotationInProgressing] = inProgressing(rolloutName)
		if d.Spec.Paused {
			annotations[annotationOriginalPaused] = "true"
		} else if _, stale := d.Annotations[annotationOriginalPaused]; stale {
			annotations[annotationOriginalPaused] = nil
		}
	}
	return annotations
}

// ResumePaused is Resume of a Deployment that stays paused, as if its owner had paused it. One with two versions has no room for more than surge
// pods on top of its replicas until its owner says otherwise: its controller fills what room there is, paused or not.
func ResumePaused(d *appsv1.Deployment, surge int32) Patch {
	annotations, spec := restoreHeldFields(d)
	spec["paused"] = true
	if hasOriginals(d) {
		spec["strategy"] = strategyWithSurge(d, surge)
	}
	return newPatch(d, nil, annotations, spec)
}

// ResumeDeployment gives the held fields back as their owner last set them and takes the mark of the hold off, at once.
func ResumeDeployment(d *appsv1.Deployment, id rollout.StableID) Patch {
	annotations, spec := restoreHeldFields(d)
	maps.Copy(annotations, stableIDMark(d, id))
	return newPatch(d, nil, annotations, spec)
}

// DisownDeployment takes all marks of ours off the Deployment and lets go of a hold.
func DisownDeployment(d *appsv1.Deployment) Patch {
	annotations, spec := restoreHeldFields(d)
	maps.Copy(annotations, markRemovals(d))
	marks, replicas := restoredReplicas(d)
	maps.Copy(annotations, marks)
	maps.Copy(spec, replicas)
	return newPatch(d, typeLabels(nil), annotations, spec)
}

// markRemovals removes the marks that an idle workload keeps.
func markRemovals(o metav1.Object) map[string]any {
	annotations := map[string]any{api.AnnotationRollout: nil}
	for _, key := range []string{api.AnnotationStableRolloutID, api.AnnotationDelivered} {
		if _, marked := o.GetAnnotations()[key]; marked {
			annotations[key] = nil
		}
	}
	return annotations
}

// restoreHeldFields is the end of a hold. A field that its owner never set goes, rather than being set to its default, so that nothing of
// ours stays in managedFields. Replicas that are ours stay so, until the canary's pods may go.
func restoreHeldFields(d *appsv1.Deployment) (annotations, spec map[string]any) {
	annotations = map[string]any{}
	for key := range d.Annotations {
		if strings.HasPrefix(key, api.AnnotationOriginalPrefix) && key != annotationOriginalReplicas {
			annotations[key] = nil
		}
	}
	spec = map[string]any{}
	if hasOriginals(d) {
		spec = originalFields(d)
	}
	if _, held := d.Annotations[api.AnnotationInProgressing]; held {
		annotations[api.AnnotationInProgressing] = nil
		spec["paused"] = nil
		if ownerPaused(d) {
			spec["paused"] = true
		}
	}
	return annotations, spec
}

func typeLabels(workloadType any) map[string]any {
	return map[string]any{api.LabelWorkloadType: workloadType}
}

func inProgressing(rolloutName string) string {
	body, err := json.Marshal(map[string]string{"rolloutName": rolloutName})
	if err != nil {
		return "{}"
	}
	return string(body)
}

// ScaleDeployment sets the replicas of a Deployment.
func ScaleDeployment(d *appsv1.Deployment, n int32) Patch {
	return newPatch(d, nil, nil, map[string]any{"replicas": int64(n)})
}

func newPatch(o metav1.Object, labels, annotations, spec map[string]any) Patch {
	metadata := map[string]any{"uid": string(o.GetUID()), "resourceVersion": o.GetResourceVersion()}
	if len(labels) > 0 {
		metadata["labels"] = labels
	}
	if len(annotations) > 0 {
		metadata["annotations"] = annotations
	}
	p := Patch{"metadata": metadata}
	if len(spec) > 0 {
		p["spec"] = spec
	}
	return p
}
