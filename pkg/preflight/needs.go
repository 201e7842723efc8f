package preflight

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sluice.dev/sluice/pkg/workload"
)

// templated is an adopted workload and its pod template.
type templated struct {
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Template corev1.PodTemplateSpec `json:"template"`
	} `json:"spec"`
}

// CheckStableNeeds looks for ConfigMaps, Secrets and ServiceAccounts whose name ends with a digest, that pods of adopted workloads need, and that a tool
// manages. When a user deploys the next version, the tool deletes them, while pods of the version before still serve. CheckStableNeeds lists workloads
// and reads the metadata of Secrets, for which an executor has no right.
func (c *Cluster) CheckStableNeeds(ctx context.Context) []Finding {
	const check, what = "stable-needs", "Objects that pods of the stable version need during a release"
	kinds, err := c.workloadKinds(ctx)
	if err != nil {
		return []Finding{c.unreadFinding(check, what, err)}
	}
	var told, remedies []string
	for _, kind := range kinds {
		var list struct{ Items []templated }
		if err := c.listAdopted(ctx, kind, "application/json", &list); err != nil {
			return []Finding{c.unreadFinding(check, what, err)}
		}
		for _, w := range list.Items {
			prunable, err := c.prunableNeeds(ctx, w)
			if err != nil {
				return []Finding{c.unreadFinding(check, what, err)}
			}
			for need, by := range prunable {
				told = append(told, fmt.Sprintf("%s of %s/%s (%s)", need, w.Namespace, w.Name, by.Tool))
				remedies = append(remedies, fmt.Sprintf("%s: %s (%s)", by.Key, by.Value, by.Tool))
			}
		}
	}
	if len(told) == 0 {
		return nil
	}
	slices.Sort(told)
	slices.Sort(remedies)
	remedies = slices.Compact(remedies)
	return []Finding{{
		Check: check, Level: LevelWarning,
		Message: "When the next version is deployed, its tool deletes what pods of the stable version need while they still serve: " + joinShortened(told, maxNamed) + ".",
		Remedy:  "Have the tool keep such objects, by an annotation in their sources: " + strings.Join(remedies, ", ") + "; and delete old ones later.",
	}}
}

// prunableNeeds returns the needs of a workload that a tool deletes when a user deploys the next version, and that tool.
func (c *Cluster) prunableNeeds(ctx context.Context, w templated) (map[workload.RequiredObject]workload.Pruner, error) {
	found := map[workload.RequiredObject]workload.Pruner{}
	for _, need := range workload.RequiredObjects(w.Spec.Template) {
		if !need.HasGeneratedName() {
			continue
		}
		o, err := c.metadataOf(ctx, w.Namespace, need)
		if err != nil {
			return nil, err
		}
		if o == nil {
			continue
		}
		if pruner, kept := workload.PrunerOf(o); pruner.Tool != "" && !kept {
			found[need] = pruner
		}
	}
	return found, nil
}

// metadataOf returns the metadata of an object that pods need, nil if it does not exist.
func (c *Cluster) metadataOf(ctx context.Context, namespace string, need workload.RequiredObject) (*metav1.PartialObjectMetadata, error) {
	body, err := c.client.Discovery().RESTClient().Get().AbsPath("/api/v1/namespaces", namespace, strings.ToLower(need.Kind)+"s", need.Name).
		SetHeader("Accept", "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1").Do(ctx).Raw()
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	o := &metav1.PartialObjectMetadata{}
	return o, json.Unmarshal(body, o)
}
