package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"sync"

	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
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

// labelledPods remembers canaries all of whose pods were found labelled. Whenever one of its pods comes or goes, a Deployment is
// written by its controller, so that its resourceVersion tells whether the pods must be looked at again.
type labelledPods struct {
	mu sync.Mutex
	at map[types.UID]string
}

// manyCanaries is from how many canaries on all of them are forgotten, which costs a read each.
const manyCanaries = 4096

func (l *labelledPods) is(canary *appsv1.Deployment) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.at[canary.UID] == canary.ResourceVersion
}

func (l *labelledPods) done(canary *appsv1.Deployment) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.at == nil || len(l.at) >= manyCanaries {
		l.at = map[types.UID]string{}
	}
	l.at[canary.UID] = canary.ResourceVersion
}

// readPods reads the names and labels of the canary's pods, once they are all there: before, nobody asks for their labels.
func (o *observation) readPods(ctx context.Context) {
	s, c := o.snapshot, o.client
	canary := s.canary
	if canary == nil || !s.mayBeLabelled(canary) || c.labelled.is(canary) {
		return
	}
	selector := labels.Set{api.LabelRolloutUID: string(s.rollout.UID)}.String()
	o.read(ctx, o.target("list", "", "pods", ""), func(ctx context.Context) error {
		list, err := c.metadata.Resource(podResource()).Namespace(o.namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
		if err != nil {
			return err
		}
		s.pods = list.Items
		if len(s.unlabelled()) == 0 {
			c.labelled.done(canary)
		}
		return nil
	})
}

// mayBeLabelled reports whether a step may already be content with the canary's pods.
func (s *Snapshot) mayBeLabelled(canary *appsv1.Deployment) bool {
	want, available := int32(1), canary.Status.AvailableReplicas
	if canary.Spec.Replicas != nil {
		want = *canary.Spec.Replicas
	}
	tolerant := s.spec.FailureThreshold != rollout.Amount{}
	return canary.Status.ObservedGeneration >= canary.Generation && available > 0 && (available >= want || tolerant)
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
	if err := patches.Wait(); err != nil {
		return err
	}
	if s.canary != nil {
		c.labelled.done(s.canary)
	}
	return nil
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
