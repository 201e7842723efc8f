package workload

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Pruner is a tool that deletes an object when the sources of the tool no longer contain it.
type Pruner struct {
	// Tool is its name, "" if no known tool manages the object.
	Tool string
	// Key and Value are the annotation that makes the tool keep an object. Present is the value of that annotation on the object.
	Key, Value, Present string
}

// Annotation returns the argument of kubectl annotate that makes the tool keep the object.
func (p Pruner) Annotation() string {
	if p.Present != "" {
		return p.Key + "=" + p.Present + "," + p.Value
	}
	return p.Key + "=" + p.Value
}

// Annotations that make a tool keep an object, and marks that a tool puts on the objects that it applies.
// Sources: https://argo-cd.readthedocs.io/en/stable/user-guide/sync-options/#no-prune-resources, https://fluxcd.io/flux/components/kustomize/kustomizations/#prune,
// https://helm.sh/docs/howto/charts_tips_and_tricks/#tell-helm-not-to-uninstall-a-resource.
const (
	fluxPrune     = "kustomize.toolkit.fluxcd.io/prune"
	fluxOwner     = "kustomize.toolkit.fluxcd.io/name"
	argoOptions   = "argocd.argoproj.io/sync-options"
	argoTracking  = "argocd.argoproj.io/tracking-id"
	argoInstance  = "argocd.argoproj.io/instance"
	argoKeep      = "Prune=false"
	helmPolicy    = "helm.sh/resource-policy"
	helmRelease   = "meta.helm.sh/release-name"
	fluxHelmOwner = "helm.toolkit.fluxcd.io/name"
)

// PrunerOf returns the tool that manages an object; kept reports whether the object has the annotation that makes the tool keep it.
func PrunerOf(o metav1.Object) (p Pruner, kept bool) {
	labels, annotations := o.GetLabels(), o.GetAnnotations()
	switch {
	case labels[fluxOwner] != "":
		disabled := strings.EqualFold(annotations[fluxPrune], "disabled") || strings.EqualFold(labels[fluxPrune], "disabled")
		return Pruner{Tool: "Flux", Key: fluxPrune, Value: "disabled"}, disabled
	case annotations[argoTracking] != "" || labels[argoInstance] != "":
		for option := range strings.SplitSeq(annotations[argoOptions], ",") {
			kept = kept || strings.TrimSpace(option) == argoKeep
		}
		return Pruner{Tool: "Argo CD", Key: argoOptions, Value: argoKeep, Present: annotations[argoOptions]}, kept
	case annotations[helmRelease] != "" || labels[fluxHelmOwner] != "":
		return Pruner{Tool: "Helm", Key: helmPolicy, Value: "keep"}, annotations[helmPolicy] == "keep"
	}
	return Pruner{}, false
}
