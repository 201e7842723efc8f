package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
)

// podPatches is how many pods are labelled at once.
const podPatches = 8

func podResource() schema.GroupVersionResource {
	return schema.GroupVersionResource{Version: "v1", Resource: "pods"}
}

// readPods reads the names and labels of the canary's pods.
func (o *observation) readPods(ctx context.Context) {
	selector := labels.Set{api.LabelRolloutUID: string(o.snapshot.rollout.UID)}.String()
	o.read(ctx, o.target("list", "", "pods", ""), func(ctx context.Context) error {
		list, err := o.client.metadata.Resource(podResource()).Namespace(o.namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
		if err == nil {
			o.snapshot.pods = list.Items
		}
		return err
	})
}

// unlabelled are the pods of the canary that do not tell yet which release and batch they belong to.
func (s *Snapshot) unlabelled() []*metav1.PartialObjectMetadata {
	var pods []*metav1.PartialObjectMetadata
	for i := range s.pods {
		if pod := &s.pods[i]; pod.DeletionTimestamp == nil && pod.Labels[api.LabelRolloutID] == "" {
			pods = append(pods, pod)
		}
	}
	return pods
}

// labelPods tells the pods of the canary which release and batch they belong to.
func (c *Client) labelPods(ctx context.Context, s *Snapshot, a rollout.LabelPods) error {
	id := a.RolloutID
	if len(validation.IsValidLabelValue(id)) > 0 {
		id = a.Revision
	}
	patches, bounded := errgroup.WithContext(ctx)
	patches.SetLimit(podPatches)
	for _, pod := range s.unlabelled() {
		patches.Go(func() error {
			labelled, err := c.labelPod(bounded, pod, id, a.Batch)
			switch {
			case isNotFound(err):
				pod.DeletionTimestamp = &metav1.Time{} // it went meanwhile
			case err != nil:
				return c.onAction(a, s.on("patch", "", "pods", pod.Name), err)
			default:
				pod.Labels = labelled.Labels
			}
			return nil
		})
	}
	return patches.Wait()
}

func (c *Client) labelPod(ctx context.Context, pod *metav1.PartialObjectMetadata, id string, batch int32) (*metav1.PartialObjectMetadata, error) {
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid":    pod.UID,
		"labels": map[string]string{api.LabelRolloutID: id, api.LabelRolloutBatchID: strconv.Itoa(int(batch))},
	}})
	if err != nil {
		return nil, fmt.Errorf("label pod %s: %w", pod.Name, err)
	}
	return within(ctx, func(ctx context.Context) (*metav1.PartialObjectMetadata, error) {
		return c.metadata.Resource(podResource()).Namespace(pod.Namespace).
			Patch(ctx, pod.Name, types.MergePatchType, body, metav1.PatchOptions{FieldManager: api.FieldManager})
	})
}
