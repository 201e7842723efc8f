package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/kube/apiclient"
	"sluice.dev/sluice/pkg/kube/cache"
)

// HubClient is the client of a fleet's hub. It watches the objects of the fleet, and writes what the hub has decided. Each write names the version of the
// object that the caller has seen, and fails with a conflict otherwise. It is safe for concurrent use.
type HubClient struct {
	client, watchClient rest.Interface
	clients             apiClients
	events              *eventWriter
	log                 *slog.Logger
	rollouts            *cache.Overlay[*api.FleetRollout]
	plans               *cache.Overlay[*api.FleetPlan]
	members             *cache.Overlay[*api.FleetMember]
	targets             *cache.Overlay[*api.FleetTarget]
}

// HubChanges are called with the names of objects that a watch has shown. They must not block.
type HubChanges struct {
	FleetRollout func(types.NamespacedName)
	// FleetTarget is called with the FleetRollout that owns it.
	FleetTarget func(types.NamespacedName)
	// Other is called for FleetPlans and FleetMembers.
	Other func()
}

// NewHubClient makes a client that knows nothing before [HubClient.Start].
func NewHubClient(cfg *rest.Config, changes HubChanges, log *slog.Logger) (*HubClient, error) {
	cfg = rest.CopyConfig(cfg)
	if cfg.QPS == 0 && cfg.RateLimiter == nil {
		cfg.QPS = -1
	}
	if cfg.UserAgent == "" {
		cfg.UserAgent = "sluice-hub"
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = apiclient.CallDeadline
	}
	shared, err := apiclient.NewHTTPClient(cfg)
	if err != nil {
		return nil, fmt.Errorf("make a client of the hub: %w", err)
	}
	h := &HubClient{log: log}
	if h.clients, err = connectClients(cfg, shared); err != nil {
		return nil, fmt.Errorf("make a client of the hub: %w", err)
	}
	h.client = h.clients.templates // of the same API group
	h.events = newEventWriter(h.clients.events, log)
	if h.watchClient, err = groupClient(cfg, &http.Client{Transport: shared.Transport}, api.FleetGroupVersion()); err != nil {
		return nil, fmt.Errorf("make a client of the hub: %w", err)
	}
	name := func(o metav1.Object) types.NamespacedName {
		return types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}
	}
	other := func(metav1.Object) { changes.Other() }
	if h.rollouts, err = cache.NewFleetRollouts(h.watchClient, func(o metav1.Object) { changes.FleetRollout(name(o)) }); err != nil {
		return nil, err
	}
	if h.plans, err = cache.NewFleetPlans(h.watchClient, other); err != nil {
		return nil, err
	}
	if h.members, err = cache.NewFleetMembers(h.watchClient, other); err != nil {
		return nil, err
	}
	h.targets, err = cache.NewFleetTargets(h.watchClient, func(o metav1.Object) {
		if owner := metav1.GetControllerOf(o); owner != nil {
			changes.FleetTarget(types.NamespacedName{Namespace: o.GetNamespace(), Name: owner.Name})
		}
	})
	return h, err
}

// Start watches until ctx is done; call it once.
func (h *HubClient) Start(ctx context.Context) {
	var running sync.WaitGroup
	defer running.Wait()
	warn := func(resource string) func(error) {
		return func(err error) {
			if ctx.Err() == nil {
				h.log.Warn("cannot watch; the hub does nothing until it can", "resource", resource+"."+api.GroupSluice, "error", err)
			}
		}
	}
	running.Go(func() { h.rollouts.Run(ctx, warn("fleetrollouts")) })
	running.Go(func() { h.plans.Run(ctx, warn("fleetplans")) })
	running.Go(func() { h.members.Run(ctx, warn("fleetmembers")) })
	running.Go(func() { h.targets.Run(ctx, warn("fleettargets")) })
}

// IsUsable reports whether all watches work, and have shown their first lists.
func (h *HubClient) IsUsable() bool {
	return h.rollouts.IsUsable() && h.plans.IsUsable() && h.members.IsUsable() && h.targets.IsUsable()
}

// ClusterUID returns the UID of the namespace kube-system, which identifies a cluster.
func (h *HubClient) ClusterUID(ctx context.Context) (string, error) {
	return clusterUID(ctx, h.clients)
}

// ClusterUID returns the UID of the namespace kube-system, which identifies a cluster.
func (c *Client) ClusterUID(ctx context.Context) (string, error) {
	return clusterUID(ctx, c.apiClients)
}

func clusterUID(ctx context.Context, clients apiClients) (string, error) {
	ns, err := apiclient.WithDeadline(ctx, func(ctx context.Context) (*metav1.ObjectMeta, error) {
		ns, err := clients.core.Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		return &ns.ObjectMeta, nil
	})
	if err != nil {
		return "", fmt.Errorf("read the UID of the namespace %s: %w", metav1.NamespaceSystem, err)
	}
	return string(ns.UID), nil
}

// FleetRollouts returns all FleetRollouts; the caller must not change them.
func (h *HubClient) FleetRollouts() []*api.FleetRollout { return h.rollouts.ListWatched() }

// FleetMembers returns all FleetMembers; the caller must not change them.
func (h *HubClient) FleetMembers() []*api.FleetMember { return h.members.ListWatched() }

// FleetRollout returns a FleetRollout, nil if it does not exist. known is false if the watches do not work.
func (h *HubClient) FleetRollout(name types.NamespacedName) (r *api.FleetRollout, known bool) {
	return h.rollouts.GetObject(name)
}

// FleetPlan returns a FleetPlan, nil if it does not exist.
func (h *HubClient) FleetPlan(name string) (p *api.FleetPlan, known bool) {
	return h.plans.GetObject(types.NamespacedName{Name: name})
}

// FleetMember returns a FleetMember, nil if it does not exist.
func (h *HubClient) FleetMember(name string) (m *api.FleetMember, known bool) {
	return h.members.GetObject(types.NamespacedName{Name: name})
}

// FleetTargets returns the FleetTargets of a FleetRollout, by cluster. drawn are clusters that may have one that the watch has not shown yet.
func (h *HubClient) FleetTargets(of *api.FleetRollout, drawn []string) (found map[string]*api.FleetTarget, known bool) {
	shown, known := h.targets.ByKey(of.Namespace + "/" + of.Name)
	if !known {
		return nil, false
	}
	names := slices.Clone(drawn)
	for _, t := range shown {
		names = append(names, t.Spec.Cluster)
	}
	found = map[string]*api.FleetTarget{}
	for _, cluster := range names {
		if found[cluster] != nil {
			continue
		}
		t, known := h.targets.GetObject(targetName(of, cluster))
		if !known {
			return nil, false
		}
		if t != nil && metav1.IsControlledBy(t, of) {
			found[cluster] = t
		}
	}
	return found, true
}

func targetName(of *api.FleetRollout, cluster string) types.NamespacedName {
	return types.NamespacedName{Namespace: of.Namespace, Name: of.Name + "." + cluster}
}

// CommitFleetStatus writes the status of a FleetRollout as it was seen, and returns it as it is now.
func (h *HubClient) CommitFleetStatus(ctx context.Context, seen *api.FleetRollout, status api.FleetRolloutStatus) (*api.FleetRollout, error) {
	next := seen.DeepCopy()
	next.Status = status
	updated := &api.FleetRollout{}
	err := h.put(ctx, "fleetrollouts", next, updated, "status")
	if err != nil {
		return nil, fmt.Errorf("commit the status of FleetRollout %s/%s: %w", seen.Namespace, seen.Name, err)
	}
	h.rollouts.StoreAnswer(updated)
	return updated, nil
}

// RecordFleetEvent writes a Kubernetes Event about a FleetRollout, as [Client.RecordEvent] does about a Rollout.
func (h *HubClient) RecordFleetEvent(r *api.FleetRollout, warning bool, reason, message string) {
	h.events.write(eventOn(corev1.ObjectReference{
		APIVersion: api.FleetGroupVersion().String(), Kind: api.KindFleetRollout, Namespace: r.Namespace, Name: r.Name, UID: r.UID,
	}, r.Status.Epoch, warning, reason, message, time.Now()))
}

// FlushEvents waits until all Events of earlier calls of [HubClient.RecordFleetEvent] are written or have failed.
func (h *HubClient) FlushEvents() { h.events.flush() }

// SetFleetFinalizer adds the finalizer of Sluice to a FleetRollout, or removes it.
func (h *HubClient) SetFleetFinalizer(ctx context.Context, seen *api.FleetRollout, present bool) (*api.FleetRollout, error) {
	finalizers := slices.DeleteFunc(slices.Clone(seen.Finalizers), func(f string) bool { return f == api.FinalizerFleet })
	if present {
		finalizers = append(finalizers, api.FinalizerFleet)
	}
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{"finalizers": finalizers, "uid": seen.UID, "resourceVersion": seen.ResourceVersion}})
	if err != nil {
		return nil, err
	}
	updated, err := h.patchFleetRollout(ctx, seen, api.FieldManager, body)
	if err != nil {
		return nil, fmt.Errorf("set the finalizers of FleetRollout %s/%s: %w", seen.Namespace, seen.Name, err)
	}
	return updated, nil
}

// releaser is the field manager of versions that programs name by events. Nothing else in the spec belongs to Sluice.
const releaser = "sluice-fleet-release"

// NameFleetRelease names a version in the spec of a FleetRollout as it was seen, and a FleetPlan unless plan is "".
func (h *HubClient) NameFleetRelease(ctx context.Context, seen *api.FleetRollout, release api.FleetRelease, plan string) error {
	body, err := seen.ReleasePatch(release, plan)
	if err == nil {
		_, err = h.patchFleetRollout(ctx, seen, releaser, body)
	}
	if err != nil {
		return fmt.Errorf("name a version in FleetRollout %s/%s: %w", seen.Namespace, seen.Name, err)
	}
	return nil
}

// ReadFleetRollout reads a FleetRollout from the API server.
func (h *HubClient) ReadFleetRollout(ctx context.Context, name types.NamespacedName) (*api.FleetRollout, error) {
	read, err := apiclient.WithDeadline(ctx, func(ctx context.Context) (*api.FleetRollout, error) {
		r := &api.FleetRollout{}
		return r, h.client.Get().Namespace(name.Namespace).Resource("fleetrollouts").Name(name.Name).Do(ctx).Into(r)
	})
	if err != nil {
		return nil, fmt.Errorf("read FleetRollout %s: %w", name, err)
	}
	return read, nil
}

func (h *HubClient) patchFleetRollout(ctx context.Context, seen *api.FleetRollout, manager string, body []byte) (*api.FleetRollout, error) {
	updated, err := apiclient.WithDeadline(ctx, func(ctx context.Context) (*api.FleetRollout, error) {
		r := &api.FleetRollout{}
		return r, h.client.Patch(types.MergePatchType).Namespace(seen.Namespace).Resource("fleetrollouts").Name(seen.Name).
			Param("fieldManager", manager).Body(body).Do(ctx).Into(r)
	})
	if err == nil {
		h.rollouts.StoreAnswer(updated)
	}
	return updated, err
}

// WriteFleetTarget writes the FleetTarget of a cluster as it was seen, nil for one that does not exist.
func (h *HubClient) WriteFleetTarget(ctx context.Context, of *api.FleetRollout, cluster string, seen *api.FleetTarget, permit api.FleetPermit, status api.FleetTargetStatus) error {
	name := targetName(of, cluster)
	updated := &api.FleetTarget{}
	var err error
	if seen == nil {
		created := &api.FleetTarget{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: name.Namespace, Name: name.Name, Labels: map[string]string{api.LabelFleetRollout: labelValue(of.Name, string(of.UID)), api.LabelFleetMember: cluster},
				OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(of, api.FleetGroupVersion().WithKind(api.KindFleetRollout))},
			},
			Spec: api.FleetTargetSpec{Cluster: cluster, Permit: permit}, Status: status,
		}
		updated, err = apiclient.WithDeadline(ctx, func(ctx context.Context) (*api.FleetTarget, error) {
			t := &api.FleetTarget{}
			return t, h.client.Post().Namespace(name.Namespace).Resource("fleettargets").Param("fieldManager", api.FieldManager).Body(created).Do(ctx).Into(t)
		})
	} else {
		next := seen.DeepCopy()
		next.Spec.Permit, next.Status = permit, status
		err = h.put(ctx, "fleettargets", next, updated)
	}
	if err != nil {
		return fmt.Errorf("write FleetTarget %s: %w", name, err)
	}
	h.targets.StoreAnswer(updated)
	return nil
}

// WriteFleetMemberStatus writes the status of a FleetMember as it was seen.
func (h *HubClient) WriteFleetMemberStatus(ctx context.Context, seen *api.FleetMember, status api.FleetMemberStatus) error {
	next, updated := seen.DeepCopy(), &api.FleetMember{}
	next.Status = status
	if err := h.put(ctx, "fleetmembers", next, updated, "status"); err != nil {
		return fmt.Errorf("write the status of FleetMember %s: %w", seen.Name, err)
	}
	h.members.StoreAnswer(updated)
	return nil
}

// put replaces an object, or a subresource of it, and decodes the answer.
func (h *HubClient) put(ctx context.Context, resource string, object, into writableObject, subresource ...string) error {
	object.SetManagedFields(nil) // the copy may not have all entries, and the API server has them
	_, err := apiclient.WithDeadline(ctx, func(ctx context.Context) (any, error) {
		request := h.client.Put().Resource(resource).Name(object.GetName()).SubResource(subresource...)
		return nil, request.NamespaceIfScoped(object.GetNamespace(), object.GetNamespace() != "").Param("fieldManager", api.FieldManager).Body(object).Do(ctx).Into(into)
	})
	return err
}

// writableObject is an object of a fleet.
type writableObject interface {
	metav1.Object
	runtime.Object
}
