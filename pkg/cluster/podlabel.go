package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"sync"

	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/ptr"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
)

// podPatches is how many pods are labelled at once.
const podPatches = 8

func podResource() schema.GroupVersionResource {
	return schema.GroupVersionResource{Version: "v1", Resource: "pods"}
}

// labelledPods remembers what runs new pods, once all of these were found labelled. Whenever one of its pods comes or goes, a Deployment
// or ReplicaSet is written by its controller, so that its resourceVersion tells whether the pods must be looked at again.
type labelledPods struct {
	mu sync.Mutex
	at map[types.UID]string
}

// manyCanaries is from how many of them on all are forgotten, which costs a read each.
const manyCanaries = 4096

func (l *labelledPods) is(runs metav1.Object) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.at[runs.GetUID()] == runs.GetResourceVersion()
}

func (l *labelledPods) done(runs metav1.Object) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.at == nil || len(l.at) >= manyCanaries {
		l.at = map[types.UID]string{}
	}
	l.at[runs.GetUID()] = runs.GetResourceVersion()
}

// runsNew is what runs the new pods: the canary, or the workload's own ReplicaSet; nil when there is none. The selector finds the pods.
func (s *Snapshot) runsNew() (runs metav1.Object, selector labels.Set, some appsv1.ReplicaSetStatus) {
	if s.spec.Style == rollout.StyleCanary {
		if s.canary == nil {
			return nil, nil, some
		}
		status := s.canary.Status
		some = appsv1.ReplicaSetStatus{ObservedGeneration: status.ObservedGeneration, ReadyReplicas: status.AvailableReplicas}
		return s.canary, labels.Set{api.LabelRolloutUID: string(s.rollout.UID)}, some
	}
	if set := s.newSet(); set != nil {
		return set, labels.Set{api.LabelPodTemplateHash: set.Labels[api.LabelPodTemplateHash]}, set.Status
	}
	return nil, nil, some
}

// readPods reads the names and labels of the new pods, once they are all there: before, nobody asks for their labels.
func (o *observation) readPods(ctx context.Context) {
	s, c := o.snapshot, o.client
	if s.countUnlabelled() == 0 {
		return
	}
	o.read(ctx, o.target("list", "", "pods", ""), func(ctx context.Context) error { return c.listPods(ctx, s) })
}

// countUnlabelled is the number of new pods that do not tell yet which release and batch they belong to. Where that was not looked at
// since there are these pods, it says that there is one.
func (s *Snapshot) countUnlabelled() int32 {
	runs, _, status := s.runsNew()
	switch {
	case runs == nil || s.labelled == nil || !s.mayBeLabelled(runs, status) || s.labelled.is(runs):
		return 0
	case s.podsOf != runs.GetResourceVersion():
		return 1
	}
	return int32(len(s.unlabelled("")))
}

// listPods reads the names and labels of the new pods.
func (c *Client) listPods(ctx context.Context, s *Snapshot) error {
	runs, of, _ := s.runsNew()
	list, err := c.metadata.Resource(podResource()).Namespace(s.rollout.Namespace).List(ctx, metav1.ListOptions{LabelSelector: of.String()})
	if err != nil {
		return err
	}
	s.pods = slices.DeleteFunc(list.Items, func(pod metav1.PartialObjectMetadata) bool { return !s.isNew(&pod, runs) })
	s.podsOf = runs.GetResourceVersion()
	if len(s.unlabelled("")) == 0 {
		c.labelled.done(runs)
	}
	return nil
}

// isNew reports whether a pod that was found belongs to what runs the new pods. Those of a canary bear the Rollout's UID.
func (s *Snapshot) isNew(pod, runs metav1.Object) bool {
	return s.spec.Style == rollout.StyleCanary || metav1.IsControlledBy(pod, runs)
}

// mayBeLabelled reports whether a step may already be content with the new pods.
func (s *Snapshot) mayBeLabelled(runs metav1.Object, status appsv1.ReplicaSetStatus) bool {
	want := int32(1)
	switch o := runs.(type) {
	case *appsv1.Deployment:
		want = ptr.Deref(o.Spec.Replicas, 1)
	case *appsv1.ReplicaSet:
		want = ptr.Deref(o.Spec.Replicas, 1)
	}
	tolerant := s.spec.FailureThreshold != rollout.Amount{}
	return status.ObservedGeneration >= runs.GetGeneration() && status.ReadyReplicas > 0 && (status.ReadyReplicas >= want || tolerant)
}

// unlabelled are the new pods that do not tell yet which release and batch they belong to.
func (s *Snapshot) unlabelled(id string) []metav1.Object {
	var pods []metav1.Object
	if s.object.there() {
		for _, pod := range s.object.Unlabelled(id) {
			pods = append(pods, pod)
		}
		return pods
	}
	for i := range s.pods {
		if pod := &s.pods[i]; pod.DeletionTimestamp == nil && pod.Labels[api.LabelRolloutID] == "" {
			pods = append(pods, pod)
		}
	}
	return pods
}

// releaseID is what the pods of the release bear as its id.
func (s *Snapshot) releaseID(owners string) string {
	m := machineOf(s.rollout)
	return labelValue(rollout.ReleaseID(owners, m), m.CanaryRevision)
}

// labelValue is the id, or the revision in its place where that makes no value of a label.
func labelValue(id, revision string) string {
	if len(validation.IsValidLabelValue(id)) > 0 {
		return revision
	}
	return id
}

// labelPods tells the new pods which release and batch they belong to.
func (c *Client) labelPods(ctx context.Context, s *Snapshot, a rollout.LabelPods) error {
	id := labelValue(a.RolloutID, a.Revision)
	runs, _, _ := s.runsNew()
	switch {
	case s.object.there(): // its pods have been read
	case runs == nil:
		return stale(a)
	case s.podsOf != runs.GetResourceVersion():
		if err := c.listPods(ctx, s); err != nil {
			return c.onAction(a, s.on("list", "", "pods", ""), err)
		}
	}
	err := c.labelEach(ctx, s, a, s.unlabelled(id), map[string]any{
		api.LabelRolloutID: id, api.LabelRolloutBatchID: strconv.Itoa(int(a.Batch)),
		api.LabelNoNeedUpdate: nil, // of an older release, where the pod was updated in place
	})
	if err == nil && runs != nil {
		c.labelled.done(runs)
	}
	return err
}

// sparePods marks the pods that a rollback in batches has nothing to do with.
func (c *Client) sparePods(ctx context.Context, s *Snapshot, a rollout.SparePods) error {
	if !s.object.there() {
		return stale(a)
	}
	id := labelValue(a.RolloutID, a.Revision)
	var pods []metav1.Object
	for _, pod := range s.object.Unspared(id) {
		pods = append(pods, pod)
	}
	return c.labelEach(ctx, s, a, pods, map[string]any{api.LabelNoNeedUpdate: id})
}

// labelEach gives the labels to the pods.
func (c *Client) labelEach(ctx context.Context, s *Snapshot, a rollout.Action, pods []metav1.Object, give map[string]any) error {
	patches, bounded := errgroup.WithContext(ctx)
	patches.SetLimit(podPatches)
	for _, pod := range pods {
		patches.Go(func() error {
			labelled, err := c.labelPod(bounded, pod, give)
			switch {
			case isNotFound(err):
				pod.SetDeletionTimestamp(&metav1.Time{}) // it went meanwhile
			case err != nil:
				return c.onAction(a, s.on("patch", "", "pods", pod.GetName()), err)
			default:
				pod.SetLabels(labelled.Labels)
				pod.SetResourceVersion(labelled.ResourceVersion)
			}
			return nil
		})
	}
	return patches.Wait()
}

func (c *Client) labelPod(ctx context.Context, pod metav1.Object, give map[string]any) (*metav1.PartialObjectMetadata, error) {
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": pod.GetUID(), "labels": give}})
	if err != nil {
		return nil, fmt.Errorf("label pod %s: %w", pod.GetName(), err)
	}
	return within(ctx, func(ctx context.Context) (*metav1.PartialObjectMetadata, error) {
		return c.metadata.Resource(podResource()).Namespace(pod.GetNamespace()).
			Patch(ctx, pod.GetName(), types.MergePatchType, body, metav1.PatchOptions{FieldManager: api.FieldManager})
	})
}
