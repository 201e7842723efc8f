package workload

import (
	"cmp"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
)

const (
	kindScaler = "HorizontalPodAutoscaler"
	// kindScaledObject is KEDA's; it makes a HorizontalPodAutoscaler, which is KEDA's to write.
	kindScaledObject = "ScaledObject"

	// suffixUnscaled takes a HorizontalPodAutoscaler off its workload, as OpenKruise does: no object can have such a name.
	suffixUnscaled = "-DisableByRollout"
	// annotationKEDAPaused stops a ScaledObject. annotationOriginalKEDA keeps the owner's value, "" for none.
	annotationKEDAPaused   = "autoscaling.keda.sh/paused"
	annotationOriginalKEDA = api.AnnotationOriginalPrefix + "keda-paused"
	// pausedByRelease is a release's spelling of true. KEDA reads it as strconv.ParseBool does (NeedToBePausedByAnnotation in its
	// scaledobject_types.go). Owners use other spellings, so a pause of an owner can be told from a release's.
	pausedByRelease = "TRUE"
)

// ObserveAutoscaler reports whether a release has disabled an autoscaler of the workload; ok is false for an autoscaler of another object, or one
// that another autoscaler writes.
func ObserveAutoscaler(u *unstructured.Unstructured, of rollout.Ref) (s rollout.Autoscaler, ok bool) {
	target := targetOf(u)
	s.Object = rollout.Ref{APIVersion: u.GetAPIVersion(), Kind: u.GetKind(), Name: u.GetName()}
	if target.kind != of.Kind || target.group != of.Group() || u.GetDeletionTimestamp() != nil {
		return s, false
	}
	switch u.GetKind() {
	case kindScaler:
		if owner := metav1.GetControllerOf(u); owner != nil && owner.Kind == kindScaledObject {
			return s, false
		}
		own := strings.TrimSuffix(target.name, suffixUnscaled)
		s.Disabled = own != target.name
		return s, own == of.Name
	case kindScaledObject:
		_, s.Marked = u.GetAnnotations()[annotationOriginalKEDA]
		s.Disabled = s.Marked && u.GetAnnotations()[annotationKEDAPaused] == pausedByRelease
		return s, target.name == of.Name
	}
	return s, false
}

type scaleTarget struct{ group, kind, name string }

// targetOf is what an autoscaler scales. KEDA takes a Deployment for granted.
func targetOf(u *unstructured.Unstructured) scaleTarget {
	ref, _, err := unstructured.NestedStringMap(u.Object, "spec", "scaleTargetRef")
	if err != nil { // KEDA's may hold more than text
		object, _, _ := unstructured.NestedMap(u.Object, "spec", "scaleTargetRef")
		ref = map[string]string{}
		for key, value := range object {
			if text, ok := value.(string); ok {
				ref[key] = text
			}
		}
	}
	version, kind := ref["apiVersion"], ref["kind"]
	if u.GetKind() == kindScaledObject {
		version, kind = cmp.Or(version, "apps/v1"), cmp.Or(kind, "Deployment")
	}
	return scaleTarget{rollout.Ref{APIVersion: version}.Group(), kind, ref["name"]}
}

// DisableAutoscaler detaches an active autoscaler from its workload. The present values are the owner's newest wish, also if a release had disabled
// the autoscaler before.
func DisableAutoscaler(u *unstructured.Unstructured) Patch {
	if u.GetKind() == kindScaler {
		return autoscalerPatch(u, nil, map[string]any{"scaleTargetRef": map[string]any{"name": targetOf(u).name + suffixUnscaled}})
	}
	return autoscalerPatch(u, map[string]any{annotationKEDAPaused: pausedByRelease, annotationOriginalKEDA: u.GetAnnotations()[annotationKEDAPaused]}, nil)
}

// RestoreAutoscaler attaches an autoscaler to its workload again. It keeps each value that the owner has written since the autoscaler was disabled.
func RestoreAutoscaler(u *unstructured.Unstructured) Patch {
	if u.GetKind() == kindScaler {
		name := strings.TrimSuffix(targetOf(u).name, suffixUnscaled)
		return autoscalerPatch(u, nil, map[string]any{"scaleTargetRef": map[string]any{"name": name}})
	}
	annotations := map[string]any{annotationOriginalKEDA: nil}
	if u.GetAnnotations()[annotationKEDAPaused] == pausedByRelease {
		annotations[annotationKEDAPaused] = nil
		if own := u.GetAnnotations()[annotationOriginalKEDA]; own != "" {
			annotations[annotationKEDAPaused] = own
		}
	}
	return autoscalerPatch(u, annotations, nil)
}

func autoscalerPatch(u *unstructured.Unstructured, annotations, spec map[string]any) Patch {
	metadata := map[string]any{"uid": string(u.GetUID()), "resourceVersion": u.GetResourceVersion()}
	if annotations != nil {
		metadata["annotations"] = annotations
	}
	p := Patch{"metadata": metadata}
	if spec != nil {
		p["spec"] = spec
	}
	return p
}
