package workload

import (
	"strconv"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
	"sluice.dev/sluice/pkg/workload/kinds"
)

// This file surges a CloneSet: its controller runs the pods of a release in parallel with all stable ones, which the partition keeps. No pod of a
// surged CloneSet counts as available, so its controller deletes no ready pod, not even when a user scales it by the subresource, which no policy
// can guard.

// originalReplicas is the annotation of a surged workload. [Object.desiredReplicas] restores its replicas.
const originalReplicas = api.AnnotationOriginalPrefix + kinds.FieldReplicas

// isSurged reports whether its replicas are ours.
func (o Object) isSurged() bool {
	_, remembered := o.Live.GetAnnotations()[originalReplicas]
	return remembered && o.kind().Surges() && o.isTakenOver()
}

// desiredReplicas is the number of pods that its owner wants. On a surged workload, any number other than the assigned one is its owner's.
func (o Object) desiredReplicas() int32 {
	annotations := o.Live.GetAnnotations()
	told := o.targetReplicas()
	if own, err := strconv.ParseInt(annotations[originalReplicas], 10, 32); err == nil && own >= 0 && o.isSurged() &&
		annotations[api.AnnotationSurgeReplicas] == strconv.Itoa(int(told)) {
		return int32(own)
	}
	return told
}

// observeSurge reads the number of its surge replicas.
func (o Object) observeSurge(w *rollout.Workload) {
	if w.Surged = o.isSurged(); !w.Surged {
		return
	}
	w.Budget = rollout.Budget{Surge: o.targetReplicas() - w.DesiredReplicas}
	w.TakenOver = w.TakenOver && o.fieldText(kinds.FieldMinReadySeconds) == strconv.Itoa(maxReadySeconds) && o.fieldText(kinds.FieldScaleMaxUnavailable) == ""
	w.ReplicaSetsFrozen = w.Budget.Surge == 0 && (w.Paused || w.RevertsTo == "")
}

func (o Object) fieldText(name string) string {
	f, _ := o.kind().Field(name)
	return f.Text(o.Live)
}

// TakeOverWorkload holds it and widens it, with the room that it has, or for so many pods.
func (o Object) TakeOverWorkload(rolloutName string, b rollout.Budget) Patch {
	p := o.HoldWorkload(rolloutName)
	if !o.kind().Surges() {
		return p
	}
	annotations := p["metadata"].(map[string]any)["annotations"].(map[string]any)
	return o.surgePatch(annotations, max(o.targetReplicas()-o.desiredReplicas(), b.Surge), o.kind().HoldingField().Held)
}

// SetSurge adds replicas for the pods of the release to the replicas that the owner wants.
func (o Object) SetSurge(b rollout.Budget) Patch {
	return o.surgePatch(map[string]any{}, b.Surge, int64(o.desiredReplicas()))
}

// RemoveSurge takes the room away. Of a version that is not the current one its controller then makes no pod, and prefers to take those.
func (o Object) RemoveSurge() Patch {
	partition := o.kind().HoldingField().Held
	if o.revertsTo(rollout.Workload{Revision: TemplateRevision(o.podTemplate()), Revisions: o.observedRevisions()}) == "" {
		partition = nil
	}
	return o.surgePatch(map[string]any{}, 0, partition)
}

// EndSurge removes the surge replicas, and leaves the workload held.
func (o Object) EndSurge() Patch {
	annotations := map[string]any{api.AnnotationSurgeReplicas: nil}
	edits := []edit{{path: o.kind().HoldingField().Path, value: o.kind().HoldingField().Held}}
	for _, f := range o.kind().Fields {
		if f.SurgeOnly {
			edits = append(edits, edit{path: f.Path, value: o.ownerValue(f)})
			annotations[f.AnnotationKey()] = nil
		}
	}
	return newPatch(o.Live, nil, annotations, o.specPatch(edits))
}

// ownerValue is the value of a field as its owner wants it.
func (o Object) ownerValue(f kinds.Field) any {
	if f.Name == kinds.FieldReplicas {
		return int64(o.desiredReplicas())
	}
	return fieldValue(f, o.ownerText(f))
}

func (o Object) surgePatch(annotations map[string]any, room int32, partition any) Patch {
	for _, f := range o.kind().Fields {
		if _, remembered := o.Live.GetAnnotations()[f.AnnotationKey()]; f.SurgeOnly && (!remembered || !o.isTakenOver()) {
			annotations[f.AnnotationKey()] = f.Text(o.Live)
		}
	}
	replicas := o.desiredReplicas()
	annotations[originalReplicas] = strconv.Itoa(int(replicas))
	annotations[api.AnnotationSurgeReplicas] = strconv.Itoa(int(replicas + room))
	edits := []edit{{path: o.kind().HoldingField().Path, value: partition}}
	for _, f := range o.kind().Fields {
		if f.SurgeOnly {
			edits = append(edits, edit{path: f.Path, value: surgedValue(f, replicas+room)})
		}
	}
	if pause := o.kind().Pause; pause != nil {
		edits = append(edits, edit{path: pause, value: false})
	}
	var labels map[string]any
	if _, first := annotations[api.AnnotationRollout]; first {
		labels = o.typeLabel(o.kind().Type)
	}
	return newPatch(o.Live, labels, annotations, o.specPatch(edits))
}

// surgedValue is the value of a field of a workload that is surged to so many replicas, nil where the field goes.
func surgedValue(f kinds.Field, replicas int32) any {
	switch f.Name {
	case kinds.FieldReplicas:
		return int64(replicas)
	case kinds.FieldMinReadySeconds:
		return int64(maxReadySeconds)
	}
	return nil
}
