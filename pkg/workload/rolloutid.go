package workload

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
)

// stableIDMark is the annotation that notes the rollout-id of the stable version; nothing where it is right as it is.
func stableIDMark(o metav1.Object, known rollout.StableID) map[string]any {
	was, marked := o.GetAnnotations()[api.AnnotationStableRolloutID]
	id := ""
	switch known {
	case rollout.StableIDKept:
		return nil
	case rollout.StableIDPresent:
		id = api.RolloutID(o)
	}
	switch {
	case id != "" && id != was:
		return map[string]any{api.AnnotationStableRolloutID: id}
	case id == "" && marked:
		return map[string]any{api.AnnotationStableRolloutID: nil}
	}
	return nil
}

// RestoredID returns the rollout-id for a workload that gets the template of the version with that id again, "" for none. It never returns the id of
// the replaced template: under the id of the stable version another template is no release.
func RestoredID(o metav1.Object, id string) string {
	if id == api.RolloutID(o) {
		return ""
	}
	return id
}

// RestoreRolloutID are the operations of a JSON patch that replace the rollout-id of a workload, wherever it stands, by its [RestoredID]. A
// workload without one gets none.
func RestoreRolloutID(o metav1.Object, id string) []map[string]any {
	present := api.RolloutID(o)
	if present == "" {
		return nil
	}
	id = RestoredID(o, id)
	var operations []map[string]any
	for _, at := range []struct {
		field, key string
		values     map[string]string
	}{{"annotations", api.AnnotationRolloutID, o.GetAnnotations()}, {"labels", api.LabelRolloutID, o.GetLabels()}} {
		path := "/metadata/" + at.field + "/" + jsonPointer.Replace(at.key)
		switch {
		case at.values[at.key] != present:
		case id == "":
			operations = append(operations, map[string]any{"op": "remove", "path": path})
		default:
			operations = append(operations, map[string]any{"op": "replace", "path": path, "value": id})
		}
	}
	return operations
}

// jsonPointer escapes a key for a JSON pointer (RFC 6901).
var jsonPointer = strings.NewReplacer("~", "~0", "/", "~1")
