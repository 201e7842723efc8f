package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"sync"

	"golang.org/x/sync/errgroup"
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
	"sluice.dev/sluice/pkg/workload"
)

// podPatches is how many pods the client labels at once.
const podPatches = 8

func podResource() schema.GroupVersionResource {
	return schema.GroupVersionResource{Version: "v1", Resource: "pods"}
}

// podLabelCache remembers, for the Deployment or ReplicaSet of the new pods, how many of these pods each batch has. Its
// controller writes it when a pod comes or goes. So its resourceVersion tells whether the executor must list the pods
// again.
type podLabelCache struct {
	mu sync.Mutex
	at map[types.UID]podLabelling
}

// podLabelling is what the cache remembers of one owner.
type podLabelling struct {
	// listed has the generation of the owner and the number of its pods when the pods were listed.
	listed string
	// last has the resourceVersion of the pod that was labelled last.
	last string
	// counted identifies the count of the pods by batch: the resourceVersion of the owner, the id of the release and the
	// number of its steps. Pods above the plan of their step stay without a batch.
	counted string
	batches rollout.PodBatches
}

// maxLabellings is the number of owners at which the cache forgets them all. That costs one read for each.
const maxLabellings = 4096

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

func (l *podLabelCache) markCounted(of *newPods, id string, steps int, batches rollout.PodBatches) {
	known := l.labellingOf(of.owner)
	known.counted, known.batches = of.count(id, steps), batches
	l.putLabelling(of.owner, known)
}

// batchesOf returns the batches of pods that were counted.
func (l *podLabelCache) batchesOf(of *newPods, id string, steps int) (batches rollout.PodBatches, counted bool) {
	known := l.labellingOf(of.owner)
	return known.batches, known.counted == of.count(id, steps)
}

func (l *podLabelCache) markListed(of *newPods) {
	known := l.labellingOf(of.owner)
	known.listed = of.existence()
	l.putLabelling(of.owner, known)
}

// markWritten takes in pods that were labelled. They must be counted again.
func (l *podLabelCache) markWritten(runs metav1.Object, pods []metav1.Object) {
	known := l.labellingOf(runs)
	known.counted = ""
	for _, pod := range pods {
		if known.last == "" || cache.IsNewerVersion(pod.GetResourceVersion(), known.last) {
			known.last = pod.GetResourceVersion()
		}
	}
	l.putLabelling(runs, known)
}

// newPods are the new pods of a Deployment or of its canary, as their controllers count them.
type newPods struct {
	// owner is the canary, or the ReplicaSet of the workload.
	owner metav1.Object
	// set is the name of the ReplicaSet that controls the pods, and hash the pod-template-hash of the pods.
	set, hash string
	// desired, existing and ready are numbers of pods.
	desired, existing, ready int32
	observed                 bool
}

// existence changes when pods come or go, except for a pod that replaces a lost pod.
func (n *newPods) existence() string {
	return fmt.Sprintf("%d/%d", n.owner.GetGeneration(), n.existing)
}

// count changes when the pods must be counted again.
func (n *newPods) count(id string, steps int) string {
	return fmt.Sprintf("%s/%s/%d", n.owner.GetResourceVersion(), id, steps)
}

// newPodsCounted returns the new pods, nil if there are none.
func (s *Snapshot) newPodsCounted() *newPods {
	set := s.newReplicaSet()
	if s.spec.Style != rollout.StyleCanary {
		if set == nil {
			return nil
		}
		return &newPods{
			owner: set, set: set.Name, hash: set.Labels[api.LabelPodTemplateHash],
			desired: ptr.Deref(set.Spec.Replicas, 1), existing: set.Status.Replicas, ready: set.Status.ReadyReplicas, observed: set.Status.ObservedGeneration >= set.Generation,
		}
	}
	if s.canary == nil {
		return nil
	}
	hash, status := workload.ObserveCanary(s.canary, s.replicaSets, s.rollout.Name, string(s.rollout.UID)).Hash, s.canary.Status
	return &newPods{
		owner: s.canary, set: s.canary.Name + "-" + hash, hash: hash,
		desired: ptr.Deref(s.canary.Spec.Replicas, 1), existing: status.UpdatedReplicas, ready: status.AvailableReplicas, observed: status.ObservedGeneration >= s.canary.Generation,
	}
}

// readPods reads the names and labels of the new pods once all of them exist. Before that, no decision depends on their
// labels.
func (o *observation) readPods(ctx context.Context) {
	s, c := o.snapshot, o.client
	if _, known := s.observePodBatches(); known {
		return
	}
	o.startRead(ctx, o.accessTo("list", "", "pods", ""), func(ctx context.Context) error { return c.listPods(ctx, s) })
}

// observePodBatches returns the batches of the new pods. If the pods have changed since the executor listed them, they
// are not known, and it returns one pod without a batch.
func (s *Snapshot) observePodBatches() (batches rollout.PodBatches, known bool) {
	pods := s.newPodsCounted()
	if pods == nil || s.podLabelCache == nil || !s.mayBeLabelled(pods) {
		return rollout.PodBatches{}, true
	}
	if batches, known = s.podLabelCache.batchesOf(pods, s.podsReleaseID(), len(s.spec.Steps)); known {
		return batches, true
	}
	if s.podsOwnerVersion == pods.owner.GetResourceVersion() {
		return s.countListedPods(), true
	}
	return rollout.PodBatches{Unlabelled: 1}, false
}

func (s *Snapshot) countListedPods() rollout.PodBatches {
	batches, _ := workload.CountBatches(s.livePods(), s.podsReleaseID(), len(s.spec.Steps))
	return batches
}

// podsReleaseID returns the id that the new pods of a Deployment or of its canary bear.
func (s *Snapshot) podsReleaseID() string {
	if s.deployment == nil {
		return ""
	}
	return s.releaseID(rollout.Workload{RolloutID: api.RolloutID(s.deployment), Revision: workload.TemplateRevision(s.deployment.Spec.Template)})
}

// listPods reads the names and labels of the new pods. The API server answers from its cache at once. A list from its
// store waits until that cache has caught up, which takes up to 100 ms.
//
// The cache may be old. Its answer is enough if it has as many pods as are counted, and the pods that this client
// labelled. But the client remembers the batches only from a list that is no older than their owner. It
// can compare the versions because Kubernetes counts the writes of a whole store. If pods have a store of their own, a
// label may come late.
func (c *Client) listPods(ctx context.Context, s *Snapshot) error {
	of := s.newPodsCounted()
	pods, upTo, err := c.listNewPods(ctx, s, of, "0")
	if err != nil {
		return err
	}
	s.podsUpToDate = !cache.IsNewerVersion(of.owner.GetResourceVersion(), upTo)
	if last := c.podLabels.labellingOf(of.owner).last; countNotDeleting(pods) < of.existing || last != "" && cache.IsNewerVersion(last, upTo) {
		if pods, _, err = c.listNewPods(ctx, s, of, ""); err != nil {
			return err
		}
		s.podsUpToDate = true
	}
	s.pods, s.podsOwnerVersion = pods, of.owner.GetResourceVersion()
	c.podLabels.markListed(of)
	if s.podsUpToDate {
		c.podLabels.markCounted(of, s.podsReleaseID(), len(s.spec.Steps), s.countListedPods())
	}
	return nil
}

// listNewPods lists the new pods at a resourceVersion; "0" takes the list in the API server's cache.
func (c *Client) listNewPods(ctx context.Context, s *Snapshot, of *newPods, at string) (pods []metav1.PartialObjectMetadata, upTo string, err error) {
	selector := labels.Set{api.LabelPodTemplateHash: of.hash}.String()
	list, err := c.metadata.Resource(podResource()).Namespace(s.rollout.Namespace).List(ctx, metav1.ListOptions{LabelSelector: selector, ResourceVersion: at})
	if err != nil {
		return nil, "", err
	}
	return slices.DeleteFunc(list.Items, func(pod metav1.PartialObjectMetadata) bool {
		controller := metav1.GetControllerOfNoCopy(&pod)
		return controller == nil || controller.Name != of.set
	}), list.ResourceVersion, nil
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

// mayBeLabelled reports whether the new pods are worth a list: when all of them exist, and again when as many are ready
// as a step may need.
func (s *Snapshot) mayBeLabelled(pods *newPods) bool {
	if !pods.observed || pods.existing == 0 || pods.hash == "" {
		return false
	}
	tolerant := s.spec.FailureThreshold != rollout.Amount{}
	ready := pods.ready > 0 && (pods.ready >= pods.desired || tolerant)
	fresh := pods.existing >= pods.desired && s.podLabelCache.labellingOf(pods.owner).listed != pods.existence()
	return ready || fresh || s.podsOwnerVersion == pods.owner.GetResourceVersion()
}

// livePods returns the new pods that are not being deleted.
func (s *Snapshot) livePods() []metav1.Object {
	var pods []metav1.Object
	if s.object.isPresent() {
		for _, pod := range s.object.NewPods() {
			pods = append(pods, pod)
		}
		return pods
	}
	for i := range s.pods {
		if s.pods[i].DeletionTimestamp == nil {
			pods = append(pods, &s.pods[i])
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
	of := s.newPodsCounted()
	switch {
	case s.object.isPresent(): // its pods have been read
	case of == nil || of.hash == "":
		return apiclient.StaleAction(a)
	case s.podsOwnerVersion != of.owner.GetResourceVersion():
		if err := c.listPods(ctx, s); err != nil {
			return apiclient.ActionError(a, s.accessTo("list", "", "pods", ""), err)
		}
	}
	batches, pods := workload.CountBatches(s.livePods(), id, len(s.spec.Steps))
	assigned := batches.AssignBatches(a.Plan)
	pods = pods[:len(assigned)]
	err := c.labelEach(ctx, s, a, pods, func(i int) map[string]any {
		give := map[string]any{api.LabelRolloutID: id, api.LabelRolloutBatchID: strconv.Itoa(int(assigned[i]))}
		if !workload.IsKeptPod(pods[i], id) {
			give[api.LabelNoNeedUpdate] = nil // the pod may have it from an older release that updated it in place
		}
		return give
	})
	if err != nil || s.object.isPresent() {
		return err
	}
	c.podLabels.markWritten(of.owner, pods)
	if s.podsUpToDate {
		c.podLabels.markCounted(of, id, len(s.spec.Steps), batches.WithAssigned(assigned))
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
	return c.labelEach(ctx, s, a, pods, func(int) map[string]any { return map[string]any{api.LabelNoNeedUpdate: id} })
}

// labelEach sets labels on each pod. labelsOf returns those of a pod, by its index.
func (c *Client) labelEach(ctx context.Context, s *Snapshot, a rollout.Action, pods []metav1.Object, labelsOf func(int) map[string]any) error {
	patches, bounded := errgroup.WithContext(ctx)
	patches.SetLimit(podPatches)
	for i, pod := range pods {
		patches.Go(func() error {
			labelled, err := c.labelPod(bounded, pod, labelsOf(i))
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
