package workload

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"sluice.dev/sluice/pkg/api"
)

// TemplateRevision identifies a pod template: equal for equal templates, whether they stand in a Deployment or in a ReplicaSet of it. The
// label pod-template-hash, which the controller adds to the latter, does not count.
func TemplateRevision(template corev1.PodTemplateSpec) string {
	body, err := json.Marshal(withoutHash(template))
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:8])
}

// TemplateOf is the template from which the Deployment controller made a ReplicaSet.
func TemplateOf(set *appsv1.ReplicaSet) corev1.PodTemplateSpec { return withoutHash(set.Spec.Template) }

func withoutHash(template corev1.PodTemplateSpec) corev1.PodTemplateSpec {
	if _, ok := template.Labels[api.LabelPodTemplateHash]; ok {
		template.Labels = maps.Clone(template.Labels)
		delete(template.Labels, api.LabelPodTemplateHash)
	}
	return template
}
