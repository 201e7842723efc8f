package main

import (
	"context"
	"fmt"
	"strings"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	appsinformers "k8s.io/client-go/informers/apps/v1"
	discoveryinformers "k8s.io/client-go/informers/discovery/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"sluice.dev/sluice/pkg/api"
)

// natives watches the objects that the cluster's own controllers create for a set.
type natives struct {
	deployments, sets, slices cache.SharedIndexInformer
	// told has a channel for each Rollout, by its key. A receive means that an object of its application has changed.
	told    map[string]chan struct{}
	running sync.WaitGroup
}

// byOwner indexes objects by the UID of their controller.
const byOwner = "owner"

// watchNatives watches until ctx ends, and returns when the caches have all existing objects. wait, which is never nil, returns after all watches have ended.
func watchNatives(ctx context.Context, c kubernetes.Interface, f *rolloutSet) (n *natives, wait func(), err error) {
	owners := cache.Indexers{byOwner: func(o any) ([]string, error) {
		if object, ok := o.(metav1.Object); ok {
			if owner := metav1.GetControllerOf(object); owner != nil {
				return []string{string(owner.UID)}, nil
			}
		}
		return nil, nil
	}}
	labelled := func(selector string) func(*metav1.ListOptions) {
		return func(o *metav1.ListOptions) { o.LabelSelector = selector }
	}
	n = &natives{
		deployments: appsinformers.NewFilteredDeploymentInformer(c, "", 0, cache.Indexers{}, labelled(label+"="+f.name)),
		sets:        appsinformers.NewReplicaSetInformer(c, "", 0, owners),
		slices:      discoveryinformers.NewFilteredEndpointSliceInformer(c, "", 0, owners, labelled(api.LabelRolloutUID)),
		told:        map[string]chan struct{}{},
	}
	for _, m := range f.rollouts {
		n.told[m.key()] = make(chan struct{}, 1)
	}
	var synced []cache.InformerSynced
	for _, informer := range []cache.SharedIndexInformer{n.deployments, n.sets, n.slices} {
		if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: n.tell, UpdateFunc: func(_, o any) { n.tell(o) }, DeleteFunc: n.tell,
		}); err != nil {
			return nil, n.running.Wait, fmt.Errorf("watch what the cluster does: %w", err)
		}
		n.running.Go(func() { informer.RunWithContext(ctx) })
		synced = append(synced, informer.HasSynced)
	}
	if !cache.WaitForCacheSync(ctx.Done(), synced...) {
		return nil, n.running.Wait, context.Cause(ctx)
	}
	return n, n.running.Wait, nil
}

// tell wakes the release that an object belongs to.
func (n *natives) tell(o any) {
	name, namespace := "", ""
	switch o := o.(type) {
	case *appsv1.Deployment:
		name, namespace = o.Name, o.Namespace
	case *appsv1.ReplicaSet:
		if owner := metav1.GetControllerOf(o); owner != nil {
			name, namespace = owner.Name, o.Namespace
		}
	case *discoveryv1.EndpointSlice:
		name, namespace = o.Labels[discoveryv1.LabelServiceName], o.Namespace
	}
	if told := n.told[namespace+"/"+strings.TrimSuffix(name, api.SuffixCanary)]; told != nil {
		select {
		case told <- struct{}{}:
		default:
		}
	}
}

// await returns when the state that a release waits for is there.
func (n *natives) await(ctx context.Context, m rolloutName, there func() bool) error {
	ctx, cancel := context.WithTimeoutCause(ctx, stuckAfter, fmt.Errorf("it was not there after %s", stuckAfter))
	defer cancel()
	for !there() {
		select {
		case <-n.told[m.key()]:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// available reports whether a Deployment runs its last written version, with exactly that many pods.
func (n *natives) available(written *appsv1.Deployment, pods int32) bool {
	item, exists, _ := n.deployments.GetStore().GetByKey(written.Namespace + "/" + written.Name)
	d, ok := item.(*appsv1.Deployment)
	return exists && ok && d.UID == written.UID && d.Status.ObservedGeneration >= written.Generation &&
		d.Status.Replicas == pods && d.Status.UpdatedReplicas == pods && d.Status.AvailableReplicas == pods
}

// pods returns the statuses of a Deployment's ReplicaSets with pods, by their pod-template-hash.
func (n *natives) pods(d *appsv1.Deployment) map[string]appsv1.ReplicaSetStatus {
	all := map[string]appsv1.ReplicaSetStatus{}
	items, _ := n.sets.GetIndexer().ByIndex(byOwner, string(d.UID))
	for _, item := range items {
		if set, ok := item.(*appsv1.ReplicaSet); ok && set.Status.Replicas > 0 {
			all[set.Labels[api.LabelPodTemplateHash]] = set.Status
		}
	}
	return all
}

// hash returns the pod-template-hash of a Deployment's pods, "" while it is unknown.
func (n *natives) hash(d *appsv1.Deployment) string {
	items, _ := n.sets.GetIndexer().ByIndex(byOwner, string(d.UID))
	for _, item := range items {
		if set, ok := item.(*appsv1.ReplicaSet); ok && set.Spec.Replicas != nil && *set.Spec.Replicas > 0 {
			return set.Labels[api.LabelPodTemplateHash]
		}
	}
	return ""
}

// ready returns the number of ready endpoints of a Service.
func (n *natives) ready(service *corev1.Service) (count int32) {
	items, _ := n.slices.GetIndexer().ByIndex(byOwner, string(service.UID))
	for _, item := range items {
		if slice, ok := item.(*discoveryv1.EndpointSlice); ok {
			for _, e := range slice.Endpoints {
				if e.Conditions.Ready != nil && *e.Conditions.Ready {
					count++
				}
			}
		}
	}
	return count
}
