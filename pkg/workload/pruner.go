package workload

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Pruner is a tool that deletes an object once its sources do not have it any more.
type Pruner struct {
	// Tool is its name, "" where none is known to look after the object.
	Tool string
	// Key and Value are the annotation by which the tool keeps an object. Beside is what the annotation holds already.
	Key, Value, Beside string
}

// Annotation is what the object is to be annotated with, as kubectl takes it.
func (p Pruner) Annotation() string {
	if p.Beside != "" {
		return p.Key + "=" + p.Beside + "," + p.Value
	}
	return p.Key + "=" + p.Value
}

// Annotations by which tools keep what their sources do not have any more, and marks that they leave on what they apply.
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

// PrunerOf is the tool that would delete an object, and how to have it keep the object; kept reports that it does.
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
		return Pruner{Tool: "Argo CD", Key: argoOptions, Value: argoKeep, Beside: annotations[argoOptions]}, kept
	case annotations[helmRelease] != "" || labels[fluxHelmOwner] != "":
		return Pruner{Tool: "Helm", Key: helmPolicy, Value: "keep"}, annotations[helmPolicy] == "keep"
	}
	return Pruner{}, false
}
