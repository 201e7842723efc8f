package workload

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	klabels "k8s.io/apimachinery/pkg/labels"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
)

// annotationOfRevision carries, on a canary Deployment, the Revision that it was made of. Its own template may differ by labels and
// annotations.
const annotationOfRevision = "sluice.dev/revision"

// maxLabelValue is how long the value of a label may be.
const maxLabelValue = 63

// CanaryOf describes the canary Deployment to make.
type CanaryOf struct {
	Name     string
	Replicas int32
	Epoch    int64
	Revision string
	// ReplicaSets are those of the stable Deployment; it may hold ReplicaSets of other owners.
	ReplicaSets []*appsv1.ReplicaSet
	// RolloutName and RolloutUID identify the Rollout that owns the canary.
	RolloutName, RolloutUID string
	// PatchLabels and PatchAnnotations go into its pods.
	PatchLabels, PatchAnnotations map[string]string
}

// ObserveCanary returns the facts of a canary Deployment that a release of the Rollout needs; sets are as for [ObserveDeployment]. A canary that a
// Rollout of the same name left behind, when a user removed it by force, counts as ours.
func ObserveCanary(d *appsv1.Deployment, sets []*appsv1.ReplicaSet, rolloutName, rolloutUID string) rollout.Canary {
	maker := d.Labels[api.LabelRolloutUID]
	c := rollout.Canary{
		UID:       string(d.UID),
		Ours:      maker != "" && (maker == rolloutUID || d.Annotations[api.AnnotationRollout] == rolloutName),
		Revision:  d.Annotations[annotationOfRevision],
		Observed:  d.Status.ObservedGeneration >= d.Generation,
		Replicas:  replicasOrDefault(d.Spec.Replicas),
		Updated:   d.Status.UpdatedReplicas,
		Available: d.Status.AvailableReplicas,
		Deleting:  d.DeletionTimestamp != nil,
	}
	if epoch, err := strconv.ParseInt(d.Annotations[api.AnnotationEpoch], 10, 64); err == nil {
		c.Epoch = epoch
	}
	current := TemplateRevision(d.Spec.Template)
	for _, set := range ownedReplicaSets(sets, d.UID) {
		if TemplateRevision(set.Spec.Template) == current {
			c.Hash = set.Labels[api.LabelPodTemplateHash]
		}
	}
	return c
}

// NewCanary returns a Deployment that runs the current template of the stable one in parallel with it. Its selector is the stable one's, narrowed by
// [narrowCanary]. The stable Deployment owns it, so that a foreground deletion of the Rollout does not delete its pods before their traffic has left. An
// error is one that the owner of the Rollout must fix.
func NewCanary(stable *appsv1.Deployment, of CanaryOf) (*appsv1.Deployment, error) {
	template, err := canaryTemplate(stable, of)
	if err != nil {
		return nil, err
	}
	selector := stable.Spec.Selector.DeepCopy()
	narrowCanary(selector, &template, stable, of)

	canary := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{
			Name: of.Name, Namespace: stable.Namespace,
			Labels: ownMetadata(stable.Labels), Annotations: ownMetadata(stable.Annotations),
			OwnerReferences: []metav1.OwnerReference{controllerReference(stable)},
		},
		Spec: *stable.Spec.DeepCopy(),
	}
	canary.Labels[api.LabelRolloutUID] = of.RolloutUID
	if len(stable.Name) <= maxLabelValue {
		canary.Labels[api.LabelCanaryDeployment] = stable.Name
	}
	canary.Annotations[api.AnnotationRollout] = of.RolloutName
	canary.Annotations[api.AnnotationEpoch] = strconv.FormatInt(of.Epoch, 10)
	canary.Annotations[annotationOfRevision] = of.Revision
	canary.Spec.Replicas, canary.Spec.Selector, canary.Spec.Template, canary.Spec.Paused = &of.Replicas, selector, template, false
	return canary, nil
}

func canaryTemplate(stable *appsv1.Deployment, of CanaryOf) (corev1.PodTemplateSpec, error) {
	template := *stable.Spec.Template.DeepCopy()
	if stable.Spec.Selector == nil {
		return template, fmt.Errorf("the Deployment %s has no selector", stable.Name)
	}
	template.Labels = mergeMaps(template.Labels, of.PatchLabels)
	template.Annotations = mergeMaps(template.Annotations, of.PatchAnnotations)
	delete(template.Labels, api.LabelPodTemplateHash)
	for _, key := range slices.Sorted(maps.Keys(stable.Spec.Selector.MatchLabels)) {
		if value, ok := of.PatchLabels[key]; ok && value != stable.Spec.Selector.MatchLabels[key] {
			return template, fmt.Errorf("the label %s of patchPodTemplateMetadata is %q, but Deployment %s selects its pods by %s=%s; set another label",
				key, value, stable.Name, key, stable.Spec.Selector.MatchLabels[key])
		}
	}
	selector, err := metav1.LabelSelectorAsSelector(stable.Spec.Selector)
	if err != nil {
		return template, fmt.Errorf("read the selector of Deployment %s: %w", stable.Name, err)
	}
	if !selector.Matches(klabels.Set(template.Labels)) {
		return template, fmt.Errorf("the labels of patchPodTemplateMetadata take the canary's pods out of the selector of Deployment %s (%s); patch other labels",
			stable.Name, metav1.FormatLabelSelector(stable.Spec.Selector))
	}
	return template, nil
}

// narrowCanary keeps the canary from adopting pods of the stable Deployment, which it would do if a user deleted that one and left its pods. Its selector
// leaves out the pod-template-hash of each ReplicaSet that has pods. The template stays as it is, so that the pods of the canary have the hash that the
// pods of the workload have after the release; ADR 8 has the exceptions. If pods with that hash run already, a label of the canary's own tells them apart.
func narrowCanary(selector *metav1.LabelSelector, template *corev1.PodTemplateSpec, stable *appsv1.Deployment, of CanaryOf) {
	var others []string
	revision, runs := TemplateRevision(*template), false
	for _, set := range ownedReplicaSets(of.ReplicaSets, stable.UID) {
		if replicasOrDefault(set.Spec.Replicas) == 0 && set.Status.Replicas == 0 {
			continue
		}
		runs = runs || TemplateRevision(set.Spec.Template) == revision
		others = append(others, set.Labels[api.LabelPodTemplateHash])
	}
	if runs || len(others) == 0 {
		selector.MatchLabels = mergeMaps(selector.MatchLabels, map[string]string{api.LabelRolloutUID: of.RolloutUID})
		template.Labels[api.LabelRolloutUID] = of.RolloutUID
		return
	}
	slices.Sort(others)
	selector.MatchExpressions = append(selector.MatchExpressions, metav1.LabelSelectorRequirement{
		Key: api.LabelPodTemplateHash, Operator: metav1.LabelSelectorOpNotIn, Values: others,
	})
}

// mergeMaps is base with more over it, never nil.
func mergeMaps(base, more map[string]string) map[string]string {
	merged := make(map[string]string, len(base)+len(more)+1)
	maps.Copy(merged, base)
	maps.Copy(merged, more)
	return merged
}

func controllerReference(d *appsv1.Deployment) metav1.OwnerReference {
	controller, block := true, false
	return metav1.OwnerReference{
		APIVersion: appsv1.SchemeGroupVersion.String(), Kind: "Deployment", Name: d.Name, UID: d.UID,
		Controller: &controller, BlockOwnerDeletion: &block,
	}
}

// ownMetadata returns the labels or annotations that may be copied: without our marks, without the records of controllers, and without the marks of
// delivery tools. Such a tool would take the copy for an object of its own and delete it.
func ownMetadata(m map[string]string) map[string]string {
	kept := map[string]string{}
	for key, value := range m {
		if !foreignToCopies(key) {
			kept[key] = value
		}
	}
	return kept
}

func foreignToCopies(key string) bool {
	domain, name, _ := strings.Cut(key, "/")
	switch key {
	case corev1.LastAppliedConfigAnnotation, "app.kubernetes.io/instance", "app.kubernetes.io/managed-by":
		return true
	}
	switch domain {
	case "sluice.dev", "deployment.kubernetes.io", "objectset.rio.cattle.io", "kapp.k14s.io":
		return true
	}
	for _, suffix := range []string{"kruise.io", "argoproj.io", "fluxcd.io", "helm.sh", "config.k8s.io"} {
		if name != "" && (domain == suffix || strings.HasSuffix(domain, "."+suffix)) {
			return true
		}
	}
	return false
}
