package workload

import (
	"strconv"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
)

// This file widens a CloneSet: it is told to run pods of a release beside all the stable ones, which its partition keeps. No pod of a
// widened one counts as available, and so its controller takes none that is ready, not even when somebody scales it by its subresource,
// which no policy can put back.

// widened reports whether its replicas are ours.
func (o Object) widened() bool {
	_, remembered := o.Live.GetAnnotations()[replicasField().key()]
	return remembered && o.kind().widens && o.taken()
}

// replicas is how many pods its owner wants. Other replicas than those that we gave a widened one are its owner's.
func (o Object) replicas() int32 {
	annotations := o.Live.GetAnnotations()
	told := o.told()
	if own, err := strconv.ParseInt(annotations[replicasField().key()], 10, 32); err == nil && own >= 0 && o.widened() &&
		annotations[api.AnnotationWidened] == strconv.Itoa(int(told)) {
		return int32(own)
	}
	return told
}

// seeWidened tells how far it is widened.
func (o Object) seeWidened(w *rollout.Workload) {
	if w.Widened = o.widened(); !w.Widened {
		return
	}
	w.Budget = rollout.Budget{Surge: o.told() - w.Replicas}
	w.Parked = w.Parked && o.text("minReadySeconds") == strconv.Itoa(maxReadySeconds) && o.text("scaleMaxUnavailable") == ""
	w.Backwards = w.Budget.Surge == 0 && (w.Paused || w.RevertsTo == "")
}

func (o Object) text(name string) string {
	f, _ := o.kind().field(name)
	return f.text(o.Live)
}

// Park holds it and widens it, with the room that it has, or for so many pods.
func (o Object) Park(rolloutName string, b rollout.Budget) Patch {
	p := o.Hold(rolloutName)
	if !o.kind().widens {
		return p
	}
	annotations := p["metadata"].(map[string]any)["annotations"].(map[string]any)
	return o.widen(annotations, max(o.told()-o.replicas(), b.Surge), o.kind().fields[0].held)
}

// Advance gives it room for so many pods of the release, beside all those that its owner wants.
func (o Object) Advance(b rollout.Budget) Patch {
	return o.widen(map[string]any{}, b.Surge, int64(o.replicas()))
}

// Retreat takes the room away. Of a version that is not the current one its controller then makes no pod, and prefers to take those.
func (o Object) Retreat() Patch {
	partition := o.kind().fields[0].held
	if o.revertsTo(rollout.Workload{Revision: Revision(o.template()), Sets: o.sets()}) == "" {
		partition = nil
	}
	return o.widen(map[string]any{}, 0, partition)
}

// Narrow ends what widened it, and leaves it held.
func (o Object) Narrow() Patch {
	annotations := map[string]any{api.AnnotationWidened: nil}
	edits := []edit{{o.kind().fields[0].path, o.kind().fields[0].held}}
	for _, f := range o.kind().fields {
		if f.wide {
			edits = append(edits, edit{f.path, o.back(f)})
			annotations[f.key()] = nil
		}
	}
	return patch(o.Live, nil, annotations, o.edited(edits))
}

// back is the value of a field as its owner wants it.
func (o Object) back(f field) any {
	if f.name == fieldReplicas {
		return int64(o.replicas())
	}
	return f.value(o.owners(f))
}

func (o Object) widen(annotations map[string]any, room int32, partition any) Patch {
	for _, f := range o.kind().fields {
		if _, remembered := o.Live.GetAnnotations()[f.key()]; f.wide && (!remembered || !o.taken()) {
			annotations[f.key()] = f.text(o.Live)
		}
	}
	replicas := o.replicas()
	annotations[replicasField().key()] = strconv.Itoa(int(replicas))
	annotations[api.AnnotationWidened] = strconv.Itoa(int(replicas + room))
	edits := []edit{
		{replicasField().path, int64(replicas + room)}, {o.kind().fields[0].path, partition},
		{readyField().path, int64(maxReadySeconds)}, {path: scaleField().path},
	}
	if pause := o.kind().pause; pause != nil {
		edits = append(edits, edit{pause, false})
	}
	var labels map[string]any
	if _, first := annotations[api.AnnotationRollout]; first {
		labels = o.typeLabel(o.kind().Type)
	}
	return patch(o.Live, labels, annotations, o.edited(edits))
}
