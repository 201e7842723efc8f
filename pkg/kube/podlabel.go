package kube

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
	"sluice.dev/sluice/pkg/kube/apiclient"
	"sluice.dev/sluice/pkg/kube/cache"
	"sluice.dev/sluice/pkg/rollout"
)

// podPatches is how many pods the client labels at once.
const podPatches = 8

func podResource() schema.GroupVersionResource {
	return schema.GroupVersionResource{Version: "v1", Resource: "pods"}
}

// podLabelCache remembers the Deployment or ReplicaSet of the new pods once all of these pods are labelled. Its
// controller writes it when a pod comes or goes. So its resourceVersion tells whether the executor must list the pods
// again.
type podLabelCache struct {
	mu sync.Mutex
	at map[types.UID]podLabelling
}

// podLabelling has the resourceVersion of the owner when all of its new pods were labelled, and the resourceVersion of
// the pod that was labelled last.
type podLabelling struct{ done, last string }

// maxLabellings is the number of owners at which the cache forgets them all. That costs one read for each.
const maxLabellings = 4096

func (l *podLabelCache) allLabelled(runs metav1.Object) bool {
	return l.labellingOf(runs).done == runs.GetResourceVersion()
}

func (l *podLabelCache) labellingOf(runs metav1.Object) podLabelling {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.at[runs.GetUID()]
}

func (l *podLabelCache) putLabelling(runs metav1.Object, known podLabelling) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.at == nil || len(l.at) >= maxLabellings {
		l.at = map[types.UID]podLabelling{}
	}
	l.at[runs.GetUID()] = known
}

func (l *podLabelCache) markDone(runs metav1.Object) {
	known := l.labellingOf(runs)
	known.done = runs.GetResourceVersion()
	l.putLabelling(runs, known)
}

// markWritten takes in pods that were labelled.
func (l *podLabelCache) markWritten(runs metav1.Object, pods []metav1.Object) {
	known := l.labellingOf(runs)
	for _, pod := range pods {
		if known.last == "" || cache.IsNewerVersion(pod.GetResourceVersion(), known.last) {
			known.last = pod.GetResourceVersion()
		}
	}
	l.putLabelling(runs, known)
}

// newPodsOwner returns the owner of the new pods: the canary, or the workload's own ReplicaSet. It returns nil if the
// owner does not exist. The selector finds the pods.
func (s *Snapshot) newPodsOwner() (runs metav1.Object, selector labels.Set, some appsv1.ReplicaSetStatus) {
	if s.spec.Style == rollout.StyleCanary {
		if s.canary == nil {
			return nil, nil, some
		}
		status := s.canary.Status
		some = appsv1.ReplicaSetStatus{ObservedGeneration: status.ObservedGeneration, Replicas: status.Replicas, ReadyReplicas: status.AvailableReplicas}
		return s.canary, labels.Set{api.LabelRolloutUID: string(s.rollout.UID)}, some
	}
	if set := s.newReplicaSet(); set != nil {
		return set, labels.Set{api.LabelPodTemplateHash: set.Labels[api.LabelPodTemplateHash]}, set.Status
	}
	return nil, nil, some
}

// readPods reads the names and labels of the new pods once all of them exist. Before that, no decision depends on their
// labels.
func (o *observation) readPods(ctx context.Context) {
	s, c := o.snapshot, o.client
	if s.countUnlabelled() == 0 {
		return
	}
	o.startRead(ctx, o.accessTo("list", "", "pods", ""), func(ctx context.Context) error { return c.listPods(ctx, s) })
}

// countUnlabelled returns the number of new pods without the labels of their release and batch. If the pods have
// changed since the executor listed them, it returns 1.
func (s *Snapshot) countUnlabelled() int32 {
	runs, _, status := s.newPodsOwner()
	switch {
	case runs == nil || s.podLabelCache == nil || !s.mayBeLabelled(runs, status) || s.podLabelCache.allLabelled(runs):
		return 0
	case s.podsOwnerVersion != runs.GetResourceVersion():
		return 1
	}
	return int32(len(s.unlabelledPods("")))
}

// listPods reads the names and labels of the new pods. The API server answers from its cache at once. A list from its
// store waits until that cache has caught up, which takes up to 100 ms.
//
// The cache may be old. Its answer is enough if it has as many pods as are counted, and the pods that this client
// labelled. But the client remembers that all pods are labelled only from a list that is no older than their owner. It
// can compare the versions because Kubernetes counts the writes of a whole store. If pods have a store of their own, a
// label may come late.
func (c *Client) listPods(ctx context.Context, s *Snapshot) error {
	runs, _, status := s.newPodsOwner()
	pods, upTo, err := c.listNewPods(ctx, s, "0")
	if err != nil {
		return err
	}
	s.podsUpToDate = !cache.IsNewerVersion(runs.GetResourceVersion(), upTo)
	if last := c.podLabels.labellingOf(runs).last; countNotDeleting(pods) < status.Replicas || last != "" && cache.IsNewerVersion(last, upTo) {
		if pods, _, err = c.listNewPods(ctx, s, ""); err != nil {
			return err
		}
		s.podsUpToDate = true
	}
	s.pods, s.podsOwnerVersion = pods, runs.GetResourceVersion()
	if s.podsUpToDate && len(s.unlabelledPods("")) == 0 {
		c.podLabels.markDone(runs)
	}
	return nil
}

// listNewPods lists the new pods at a resourceVersion; "0" takes the list in the API server's cache.
func (c *Client) listNewPods(ctx context.Context, s *Snapshot, at string) (pods []metav1.PartialObjectMetadata, upTo string, err error) {
	runs, of, _ := s.newPodsOwner()
	list, err := c.metadata.Resource(podResource()).Namespace(s.rollout.Namespace).List(ctx, metav1.ListOptions{LabelSelector: of.String(), ResourceVersion: at})
	if err != nil {
		return nil, "", err
	}
	return slices.DeleteFunc(list.Items, func(pod metav1.PartialObjectMetadata) bool { return !s.isNewPod(&pod, runs) }), list.ResourceVersion, nil
}

// countNotDeleting counts the pods that are not being deleted.
func countNotDeleting(pods []metav1.PartialObjectMetadata) (n int32) {
	for i := range pods {
		if pods[i].DeletionTimestamp == nil {
			n++
		}
	}
	return n
}

// isNewPod reports whether a listed pod belongs to the owner of the new pods. The pods of a canary bear the Rollout's
// UID.
func (s *Snapshot) isNewPod(pod, runs metav1.Object) bool {
	return s.spec.Style == rollout.StyleCanary || metav1.IsControlledBy(pod, runs)
}

// mayBeLabelled reports whether the new pods may be enough for a step.
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

// unlabelledPods returns the new pods without the labels of their release and batch.
func (s *Snapshot) unlabelledPods(id string) []metav1.Object {
	var pods []metav1.Object
	if s.object.isPresent() {
		for _, pod := range s.object.UnlabelledPods(id) {
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

// releaseID returns the id that the new pods of a workload bear. Their template may be newer than the template of the
// release in the status. Then they belong to the release that is about to begin.
func (s *Snapshot) releaseID(w rollout.Workload) string {
	m := sluiceStatusOf(s.rollout)
	m.CanaryRevision = w.Revision
	return labelValue(rollout.ReleaseID(w.RolloutID, m), m.CanaryRevision)
}

// labelValue returns the id, or the revision if the id is not a valid label value.
func labelValue(id, revision string) string {
	if len(validation.IsValidLabelValue(id)) > 0 {
		return revision
	}
	return id
}

// labelPods labels the new pods with their release and batch.
func (c *Client) labelPods(ctx context.Context, s *Snapshot, a rollout.LabelPods) error {
	id := labelValue(a.RolloutID, a.Revision)
	runs, _, _ := s.newPodsOwner()
	switch {
	case s.object.isPresent(): // its pods have been read
	case runs == nil:
		return apiclient.StaleAction(a)
	case s.podsOwnerVersion != runs.GetResourceVersion():
		if err := c.listPods(ctx, s); err != nil {
			return apiclient.ActionError(a, s.accessTo("list", "", "pods", ""), err)
		}
	}
	pods := s.unlabelledPods(id)
	err := c.labelEach(ctx, s, a, pods, map[string]any{
		api.LabelRolloutID: id, api.LabelRolloutBatchID: strconv.Itoa(int(a.Batch)),
		api.LabelNoNeedUpdate: nil, // the pod may have it from an older release that updated it in place
	})
	if err != nil || runs == nil {
		return err
	}
	c.podLabels.markWritten(runs, pods)
	if s.podsUpToDate {
		c.podLabels.markDone(runs)
	}
	return nil
}

// labelKeptPods marks the pods that a rollback in batches does not replace.
func (c *Client) labelKeptPods(ctx context.Context, s *Snapshot, a rollout.LabelKeptPods) error {
	if !s.object.isPresent() {
		return apiclient.StaleAction(a)
	}
	id := labelValue(a.RolloutID, a.Revision)
	var pods []metav1.Object
	for _, pod := range s.object.UnlabelledKeptPods(id) {
		pods = append(pods, pod)
	}
	return c.labelEach(ctx, s, a, pods, map[string]any{api.LabelNoNeedUpdate: id})
}

// labelEach sets the labels on each pod.
func (c *Client) labelEach(ctx context.Context, s *Snapshot, a rollout.Action, pods []metav1.Object, give map[string]any) error {
	patches, bounded := errgroup.WithContext(ctx)
	patches.SetLimit(podPatches)
	for _, pod := range pods {
		patches.Go(func() error {
			labelled, err := c.labelPod(bounded, pod, give)
			switch {
			case apiclient.IsNotFound(err):
				pod.SetDeletionTimestamp(&metav1.Time{}) // the pod was deleted in the meantime
			case err != nil:
				return apiclient.ActionError(a, s.accessTo("patch", "", "pods", pod.GetName()), err)
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
	return apiclient.WithDeadline(ctx, func(ctx context.Context) (*metav1.PartialObjectMetadata, error) {
		return c.metadata.Resource(podResource()).Namespace(pod.GetNamespace()).
			Patch(ctx, pod.GetName(), types.MergePatchType, body, metav1.PatchOptions{FieldManager: api.FieldManager})
	})
}
