package workload

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	corev1 "k8s.io/api/core/v1"

	"sluice.dev/sluice/pkg/api"
)

// Revision identifies a pod template: equal for equal templates, whether they stand in a Deployment or in a ReplicaSet of it. The
// label pod-template-hash, which the controller adds to the latter, does not count.
func Revision(template corev1.PodTemplateSpec) string {
	if _, ok := template.Labels[api.LabelPodTemplateHash]; ok {
		labels := make(map[string]string, len(template.Labels))
		for k, v := range template.Labels {
			if k != api.LabelPodTemplateHash {
				labels[k] = v
			}
		}
		template.Labels = labels
	}
	body, err := json.Marshal(template)
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:8])
}
