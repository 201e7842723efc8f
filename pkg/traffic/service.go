package traffic

import (
	"cmp"
	"fmt"
	"maps"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
)

// ObserveService reads the state of a Service that a release of the Rollout needs. A Service of an earlier Rollout with the same name counts as the
// release's own, if that Rollout was removed by force.
func ObserveService(svc *corev1.Service, name, uid string) rollout.Service {
	maker := svc.Labels[api.LabelRolloutUID]
	epoch, err := strconv.ParseInt(svc.Annotations[api.AnnotationEpoch], 10, 64)
	if err != nil {
		epoch = 0
	}
	return rollout.Service{
		UID:      string(svc.UID),
		Ours:     maker != "" && (maker == uid || svc.Annotations[api.AnnotationRollout] == name),
		Hash:     cmp.Or(svc.Spec.Selector[api.LabelPodTemplateHash], svc.Spec.Selector[api.LabelControllerRevisionHash]),
		Epoch:    epoch,
		Deleting: svc.DeletionTimestamp != nil,
	}
}

// CanaryServiceParams are the name of a canary Service, its Rollout, and the pods that it selects.
type CanaryServiceParams struct {
	Name string
	// Hash is the value of the label Key of the pods to select: Key is pod-template-hash or controller-revision-hash.
	Key, Hash string
	// RolloutName and RolloutUID identify the Rollout of the canary.
	RolloutName, RolloutUID string
	Epoch                   int64
	// PatchLabels are labels of the canary's pods; in the selector they replace the values that the stable Service selects by.
	PatchLabels map[string]string
}

// NewCanaryService copies the stable Service and selects the canary's pods. The copy is always of type ClusterIP, and headless if the stable one is. So it
// claims no second load balancer, node port or address. The stable Service owns it. A Service that selects no pods cannot be copied.
func NewCanaryService(stable *corev1.Service, p CanaryServiceParams) (*corev1.Service, error) {
	if stable.Spec.Type == corev1.ServiceTypeExternalName {
		return nil, fmt.Errorf("Service %s is of type ExternalName and selects no pods, so there can be no canary of it; name the Service that selects the pods of the workload", stable.Name)
	}
	if len(stable.Spec.Selector) == 0 {
		return nil, fmt.Errorf("Service %s has no selector, so there can be no canary of it; name the Service that selects the pods of the workload", stable.Name)
	}
	controller, block := true, false
	labels, annotations := copyableMetadata(stable.Labels, stable.Annotations), copyableMetadata(stable.Annotations, stable.Annotations)
	labels[api.LabelRolloutUID] = p.RolloutUID
	annotations[api.AnnotationRollout] = p.RolloutName
	annotations[api.AnnotationEpoch] = strconv.FormatInt(p.Epoch, 10)
	return &corev1.Service{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
		ObjectMeta: metav1.ObjectMeta{
			Name: p.Name, Namespace: stable.Namespace, Labels: labels, Annotations: annotations,
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "v1", Kind: "Service", Name: stable.Name, UID: stable.UID,
				Controller: &controller, BlockOwnerDeletion: &block,
			}},
		},
		Spec: canarySpec(stable.Spec, p),
	}, nil
}

func canarySpec(stable corev1.ServiceSpec, p CanaryServiceParams) corev1.ServiceSpec {
	spec := corev1.ServiceSpec{
		Type:                     corev1.ServiceTypeClusterIP,
		Selector:                 maps.Clone(stable.Selector),
		SessionAffinity:          stable.SessionAffinity,
		SessionAffinityConfig:    stable.SessionAffinityConfig.DeepCopy(),
		PublishNotReadyAddresses: stable.PublishNotReadyAddresses,
		InternalTrafficPolicy:    stable.InternalTrafficPolicy,
		TrafficDistribution:      stable.TrafficDistribution,
	}
	for _, port := range stable.Ports {
		copied := *port.DeepCopy()
		copied.NodePort = 0
		spec.Ports = append(spec.Ports, copied)
	}
	if stable.ClusterIP == corev1.ClusterIPNone {
		spec.ClusterIP = corev1.ClusterIPNone
	}
	for k, v := range p.PatchLabels {
		if _, selected := spec.Selector[k]; selected {
			spec.Selector[k] = v
		}
	}
	for _, key := range revisionKeys() {
		delete(spec.Selector, key)
	}
	spec.Selector[p.Key] = p.Hash
	return spec
}

// copyableMetadata returns the labels or annotations that a copy of an object may carry. It omits keys that let a GitOps tool claim the copy and prune it.
// It also omits keys that claim a resource outside the cluster.
func copyableMetadata(m, annotations map[string]string) map[string]string {
	kept := map[string]string{}
	for k, v := range m {
		if !belongsToOriginal(k, annotations) {
			kept[k] = v
		}
	}
	return kept
}

func belongsToOriginal(key string, annotations map[string]string) bool {
	switch key {
	case corev1.LastAppliedConfigAnnotation, api.LabelRolloutUID, api.AnnotationRollout, api.AnnotationEpoch:
		return true
	case "app.kubernetes.io/instance":
		// Argo CD tracks by this label unless it tracks by annotation.
		_, byAnnotation := annotations["argocd.argoproj.io/tracking-id"]
		return !byAnnotation
	}
	prefix, _, _ := strings.Cut(key, "/")
	switch prefix {
	case "argocd.argoproj.io", "kustomize.toolkit.fluxcd.io", "helm.toolkit.fluxcd.io", "meta.helm.sh", "objectset.rio.cattle.io",
		"external-dns.alpha.kubernetes.io":
		return true
	}
	return false
}

// revisionKeys returns the labels that distinguish the revisions of workloads, by kind of workload.
func revisionKeys() []string {
	return []string{api.LabelPodTemplateHash, api.LabelControllerRevisionHash}
}

// PinService returns the merge patch with which a Service selects only one revision, by the value of the label for its kind of workload. Like all patches
// here, it fails with a conflict if the Service has changed since the observation.
func PinService(svc *corev1.Service, key, hash string) map[string]any {
	selector := map[string]any{key: hash}
	for _, other := range revisionKeys() {
		if _, stale := svc.Spec.Selector[other]; stale && other != key {
			selector[other] = nil
		}
	}
	return selectBy(svc, selector)
}

// UnpinService returns the merge patch with which a Service selects all revisions again.
func UnpinService(svc *corev1.Service) map[string]any {
	selector := map[string]any{}
	for _, key := range revisionKeys() {
		selector[key] = nil
	}
	return selectBy(svc, selector)
}

// PointCanaryService returns the merge patch with which a canary Service selects another revision, for the release with that epoch.
func PointCanaryService(svc *corev1.Service, key, hash string, epoch int64) map[string]any {
	patch := PinService(svc, key, hash)
	patch["metadata"].(map[string]any)["annotations"] = map[string]any{api.AnnotationEpoch: strconv.FormatInt(epoch, 10)}
	return patch
}

func selectBy(svc *corev1.Service, selector map[string]any) map[string]any {
	return map[string]any{
		"metadata": map[string]any{"resourceVersion": svc.ResourceVersion},
		"spec":     map[string]any{"selector": selector},
	}
}
