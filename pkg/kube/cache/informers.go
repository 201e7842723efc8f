package cache

import (
	"context"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	appsclient "k8s.io/client-go/kubernetes/typed/apps/v1"
	coreclient "k8s.io/client-go/kubernetes/typed/core/v1"
	discoveryclient "k8s.io/client-go/kubernetes/typed/discovery/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
)

// NewRollouts watches all Rollouts. It calls changed with each Rollout that was added, changed or deleted. The other
// functions that make an overlay do the same.
func NewRollouts(client rest.Interface, changed func(metav1.Object)) (*Overlay[*api.Rollout], error) {
	lw := listWatchREST(client, "rollouts", func() runtime.Object { return &api.RolloutList{} })
	return newOverlay(&api.Rollout{}, lw, trimRollout, indexByKey[*api.Rollout](workloadKey), changed)
}

// workloadKey returns the key under which ByKey finds the Rollouts of a workload.
func workloadKey(o metav1.Object) string {
	r, ok := o.(*api.Rollout)
	if !ok {
		return ""
	}
	return rollout.WorkloadKey(r)
}

// NewTemplates watches all AnalysisTemplates.
func NewTemplates(client rest.Interface, changed func(metav1.Object)) (*Overlay[*api.AnalysisTemplate], error) {
	lw := listWatchREST(client, "analysistemplates", func() runtime.Object { return &api.AnalysisTemplateList{} })
	return newOverlay(&api.AnalysisTemplate{}, lw, func(t *api.AnalysisTemplate) { trimMetadata(t) }, nil, changed)
}

// NewClusterTemplates watches all ClusterAnalysisTemplates.
func NewClusterTemplates(client rest.Interface, changed func(metav1.Object)) (*Overlay[*api.ClusterAnalysisTemplate], error) {
	lw := listWatchREST(client, "clusteranalysistemplates", func() runtime.Object { return &api.ClusterAnalysisTemplateList{} })
	return newOverlay(&api.ClusterAnalysisTemplate{}, lw, func(t *api.ClusterAnalysisTemplate) { trimMetadata(t) }, nil, changed)
}

// NewDeployments watches all Deployments. It keeps the content of the marked ones only, see [MarkedDeployment].
func NewDeployments(client appsclient.DeploymentsGetter, changed func(metav1.Object)) (*Overlay[*appsv1.Deployment], error) {
	return newOverlay(&appsv1.Deployment{}, newListWatch(client.Deployments(""), allObjects), trimDeployment, nil, changed)
}

// NewReplicaSets watches all ReplicaSets. Their key is [OwnerKey].
func NewReplicaSets(client appsclient.ReplicaSetsGetter, changed func(metav1.Object)) (*Overlay[*appsv1.ReplicaSet], error) {
	return newOverlay(&appsv1.ReplicaSet{}, newListWatch(client.ReplicaSets(""), allObjects), trimReplicaSet, indexByKey[*appsv1.ReplicaSet](OwnerKey), changed)
}

// NewServices watches all Services.
func NewServices(client coreclient.ServicesGetter, changed func(metav1.Object)) (*Overlay[*corev1.Service], error) {
	return newOverlay(&corev1.Service{}, newListWatch(client.Services(""), allObjects), func(svc *corev1.Service) { trimMetadata(svc) }, nil, changed)
}

// NewEndpointSlices watches all EndpointSlices. Their key is [ServiceKey].
func NewEndpointSlices(client discoveryclient.EndpointSlicesGetter, changed func(metav1.Object)) (*Overlay[*discoveryv1.EndpointSlice], error) {
	return newOverlay(&discoveryv1.EndpointSlice{}, newListWatch(client.EndpointSlices(""), allObjects), trimEndpointSlice, indexByKey[*discoveryv1.EndpointSlice](ServiceKey), changed)
}

// NewConfigMap watches one ConfigMap.
func NewConfigMap(client coreclient.ConfigMapsGetter, name types.NamespacedName, changed func(metav1.Object)) (*Overlay[*corev1.ConfigMap], error) {
	return newOverlay(&corev1.ConfigMap{}, newListWatch(client.ConfigMaps(name.Namespace), onlyNamed(name.Name)), func(cm *corev1.ConfigMap) { trimMetadata(cm) }, nil, changed)
}

// NewWorkloads watches all workloads of a kind other than Deployment. It keeps the content of the marked ones only, see
// [MarkedWorkload].
func NewWorkloads(client dynamic.Interface, resource schema.GroupVersionResource, changed func(metav1.Object)) (*Overlay[*unstructured.Unstructured], error) {
	return newObjects(client, resource, trimWorkload, changed)
}

// NewGatewayObjects watches all objects of a kind that routes traffic or that a route depends on.
func NewGatewayObjects(client dynamic.Interface, resource schema.GroupVersionResource, changed func(metav1.Object)) (*Overlay[*unstructured.Unstructured], error) {
	return newObjects(client, resource, trimGateway, changed)
}

func newObjects(client dynamic.Interface, resource schema.GroupVersionResource, trim func(*unstructured.Unstructured), changed func(metav1.Object)) (*Overlay[*unstructured.Unstructured], error) {
	return newOverlay(&unstructured.Unstructured{}, newListWatch(client.Resource(resource), allObjects), trim,
		cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}, changed)
}

// listWatcher lists and watches one resource.
type listWatcher[L runtime.Object] interface {
	List(ctx context.Context, o metav1.ListOptions) (L, error)
	Watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error)
}

func newListWatch[L runtime.Object](of listWatcher[L], tweak func(*metav1.ListOptions)) *cache.ListWatch {
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			tweak(&o)
			return of.List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			tweak(&o)
			return of.Watch(ctx, o)
		},
	}
}

// listWatchREST lists and watches one resource of the Sluice API in all namespaces.
func listWatchREST(client rest.Interface, resource string, empty func() runtime.Object) *cache.ListWatch {
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			list := empty()
			return list, client.Get().Resource(resource).VersionedParams(&o, metav1.ParameterCodec).Do(ctx).Into(list)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.Watch = true
			return client.Get().Resource(resource).VersionedParams(&o, metav1.ParameterCodec).Watch(ctx)
		},
	}
}

func allObjects(*metav1.ListOptions) {}

func onlyNamed(name string) func(*metav1.ListOptions) {
	return func(o *metav1.ListOptions) {
		o.FieldSelector = fields.OneTermEqualSelector("metadata.name", name).String()
	}
}

// newOverlay returns an overlay of the objects that lw lists and watches.
func newOverlay[T Object](example T, lw *cache.ListWatch, trim func(T), indexers cache.Indexers, changed func(metav1.Object)) (*Overlay[T], error) {
	m := &Overlay[T]{answered: map[string]T{}, deletions: map[types.UID]deletion{}}
	inner := lw.WatchFuncWithContext
	lw.WatchFuncWithContext = func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
		w, err := inner(ctx, o)
		m.failing.Store(err != nil)
		return w, err
	}
	m.informer = cache.NewSharedIndexInformer(lw, example, 0, indexers)
	if err := m.informer.SetTransform(transformWith(trim)); err != nil {
		return nil, err
	}
	_, err := m.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) {
			if o, ok := obj.(T); ok {
				changed(o)
			}
		},
		UpdateFunc: func(_, obj any) {
			if o, ok := obj.(T); ok {
				changed(o)
			}
		},
		DeleteFunc: func(obj any) {
			if tomb, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = tomb.Obj
			}
			if o, ok := obj.(T); ok {
				m.forgetDeletion(o.GetUID())
				changed(o)
			}
		},
	})
	return m, err
}

// Run watches until ctx is done. The overlay cannot answer before the watch works. Run calls warn with the first error.
func (m *Overlay[T]) Run(ctx context.Context, warn func(error)) {
	var once sync.Once
	// The only error says that the watch was started before, and it was not.
	_ = m.informer.SetWatchErrorHandlerWithContext(func(_ context.Context, _ *cache.Reflector, err error) {
		m.failing.Store(true)
		once.Do(func() { warn(err) })
	})
	m.running.Store(true)
	defer m.running.Store(false)
	m.informer.RunWithContext(ctx)
}

// OwnerKey returns the Deployment that owns a ReplicaSet, as <namespace>/<name>; "" if no Deployment does.
func OwnerKey(o metav1.Object) string {
	if owner := metav1.GetControllerOf(o); owner != nil && owner.Kind == "Deployment" {
		return o.GetNamespace() + "/" + owner.Name
	}
	return ""
}

// ServiceKey returns the Service of an EndpointSlice, as <namespace>/<name>.
func ServiceKey(slice metav1.Object) string {
	return slice.GetNamespace() + "/" + slice.GetLabels()[discoveryv1.LabelServiceName]
}

// byKey is the index that [Overlay.ByKey] uses.
const byKey = "key"

// indexByKey indexes objects by the value that key returns.
func indexByKey[T Object](key func(metav1.Object) string) cache.Indexers {
	return cache.Indexers{byKey: func(obj any) ([]string, error) {
		if o, ok := obj.(T); ok {
			return []string{key(o)}, nil
		}
		return nil, nil
	}}
}

// NewFleetRollouts watches all FleetRollouts.
func NewFleetRollouts(client rest.Interface, changed func(metav1.Object)) (*Overlay[*api.FleetRollout], error) {
	lw := listWatchREST(client, "fleetrollouts", func() runtime.Object { return &api.FleetRolloutList{} })
	return newOverlay(&api.FleetRollout{}, lw, func(r *api.FleetRollout) { trimMetadata(r) }, nil, changed)
}

// NewFleetPlans watches all FleetPlans.
func NewFleetPlans(client rest.Interface, changed func(metav1.Object)) (*Overlay[*api.FleetPlan], error) {
	lw := listWatchREST(client, "fleetplans", func() runtime.Object { return &api.FleetPlanList{} })
	return newOverlay(&api.FleetPlan{}, lw, func(p *api.FleetPlan) { trimMetadata(p) }, nil, changed)
}

// NewFleetMembers watches all FleetMembers.
func NewFleetMembers(client rest.Interface, changed func(metav1.Object)) (*Overlay[*api.FleetMember], error) {
	lw := listWatchREST(client, "fleetmembers", func() runtime.Object { return &api.FleetMemberList{} })
	return newOverlay(&api.FleetMember{}, lw, func(m *api.FleetMember) { trimMetadata(m) }, nil, changed)
}

// NewFleetTargets watches all FleetTargets. Their key is [FleetRolloutKey].
func NewFleetTargets(client rest.Interface, changed func(metav1.Object)) (*Overlay[*api.FleetTarget], error) {
	lw := listWatchREST(client, "fleettargets", func() runtime.Object { return &api.FleetTargetList{} })
	return newOverlay(&api.FleetTarget{}, lw, func(t *api.FleetTarget) { trimMetadata(t) }, indexByKey[*api.FleetTarget](FleetRolloutKey), changed)
}

// FleetRolloutKey returns the FleetRollout that owns a FleetTarget, as <namespace>/<name>; "" if none does.
func FleetRolloutKey(target metav1.Object) string {
	if owner := metav1.GetControllerOf(target); owner != nil && owner.Kind == api.KindFleetRollout {
		return target.GetNamespace() + "/" + owner.Name
	}
	return ""
}
