package view

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
)

// deadline bounds each single read.
const deadline = 30 * time.Second

// Reader reads views from one cluster, as one user. It is safe for concurrent use.
type Reader struct {
	kube    kubernetes.Interface
	objects dynamic.Interface
	mapper  *restmapper.DeferredDiscoveryRESTMapper
}

// NewReader creates a Reader without a request to the API server.
func NewReader(config *rest.Config) (*Reader, error) {
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make client: %w", err)
	}
	objects, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make client: %w", err)
	}
	resources, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make client: %w", err)
	}
	return &Reader{kube: kube, objects: objects, mapper: restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(resources))}, nil
}

// ReadRollout reads one Rollout. It returns the unchanged error of the API server.
func (r *Reader) ReadRollout(ctx context.Context, namespace, name string) (*api.Rollout, error) {
	ctx, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	obj, err := r.objects.Resource(api.RolloutResource()).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	return ToRollout(obj)
}

// ToRollout converts an unstructured object to a Rollout.
func ToRollout(obj *unstructured.Unstructured) (*api.Rollout, error) {
	typed := &api.Rollout{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, typed); err != nil {
		return nil, fmt.Errorf("read Rollout %s/%s: %w", obj.GetNamespace(), obj.GetName(), err)
	}
	return typed, nil
}

// ReadView reads the Rollout and all objects that are drawn with it. It fails only if the Rollout cannot be read. The view names other objects that cannot be
// read.
func (r *Reader) ReadView(ctx context.Context, namespace, name string) (View, error) {
	rollout, err := r.ReadRollout(ctx, namespace, name)
	if err != nil {
		return View{}, err
	}
	v := View{Rollout: rollout, Now: time.Now()}
	ctx, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	r.readWorkloads(ctx, &v)
	r.readRoutes(ctx, &v)
	return v, nil
}

func (v *View) addUnread(what string, err error) {
	v.Unread = append(v.Unread, fmt.Sprintf("%s cannot be shown: %v", what, err))
}

func (r *Reader) readWorkloads(ctx context.Context, v *View) {
	ref := v.Rollout.Spec.Workload()
	if ref == nil {
		return
	}
	if !rollout.RefOf(*ref).IsDeployment() { // the other kinds keep their revisions in ControllerRevisions
		r.readWorkload(ctx, v, *ref)
		return
	}
	name, namespace := ref.Name, v.Rollout.Namespace
	stable, err := r.kube.AppsV1().Deployments(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		v.addUnread("Deployment "+name, err)
		return
	}
	v.Deployments = []appsv1.Deployment{*stable}
	canaries, err := r.kube.AppsV1().Deployments(namespace).List(ctx, metav1.ListOptions{LabelSelector: api.LabelCanaryDeployment + "=" + name})
	if err != nil {
		v.addUnread("The canary Deployment", err)
	} else {
		v.Deployments = append(v.Deployments, canaries.Items...)
	}
	for i := range v.Deployments {
		r.readPods(ctx, v, metav1.FormatLabelSelector(v.Deployments[i].Spec.Selector))
	}
}

// readPods adds the selected pods. The stable selector may or may not cover the labels of a canary.
func (r *Reader) readPods(ctx context.Context, v *View, selector string) {
	selected, namespace := metav1.ListOptions{LabelSelector: selector}, v.Rollout.Namespace
	if sets, err := r.kube.AppsV1().ReplicaSets(namespace).List(ctx, selected); err != nil {
		v.addUnread("ReplicaSets", err)
	} else {
		for _, set := range sets.Items {
			if !slices.ContainsFunc(v.ReplicaSets, func(other appsv1.ReplicaSet) bool { return other.UID == set.UID }) {
				v.ReplicaSets = append(v.ReplicaSets, set)
			}
		}
	}
	if pods, err := r.kube.CoreV1().Pods(namespace).List(ctx, selected); err != nil {
		v.addUnread("Pods", err)
	} else {
		for _, pod := range pods.Items {
			if !slices.ContainsFunc(v.Pods, func(other corev1.Pod) bool { return other.UID == pod.UID }) {
				v.Pods = append(v.Pods, pod)
			}
		}
	}
}

// GatewayRefs returns the gateway objects of a Rollout.
func GatewayRefs(r *api.Rollout) []api.ObjectRef {
	var refs []api.ObjectRef
	for _, t := range routingsOf(r) {
		refs = append(append(refs, t.CustomNetworkRefs...), t.NetworkRefs...)
		if t.Ingress != nil {
			refs = append(refs, api.ObjectRef{APIVersion: "networking.k8s.io/v1", Kind: "Ingress", Name: t.Ingress.Name})
		}
		if t.Gateway != nil && t.Gateway.HTTPRouteName != nil {
			refs = append(refs, api.ObjectRef{APIVersion: "gateway.networking.k8s.io/v1", Kind: "HTTPRoute", Name: *t.Gateway.HTTPRouteName})
		}
	}
	return refs
}

func (r *Reader) readRoutes(ctx context.Context, v *View) {
	for _, ref := range GatewayRefs(v.Rollout) {
		resource, err := r.ResourceOf(ref)
		if err != nil {
			v.addUnread(ref.Kind+" "+ref.Name, err)
			continue
		}
		obj, err := r.objects.Resource(resource).Namespace(v.Rollout.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
		switch {
		case err == nil:
			v.Routes = append(v.Routes, Route{Kind: ref.Kind, Name: ref.Name, Object: obj})
		case apierrors.IsNotFound(err):
			v.Routes = append(v.Routes, Route{Kind: ref.Kind, Name: ref.Name})
		default:
			v.addUnread(ref.Kind+" "+ref.Name, err)
		}
	}
}

// ResourceOf returns the resource of the kind of ref in the cluster.
func (r *Reader) ResourceOf(ref api.ObjectRef) (schema.GroupVersionResource, error) {
	version, err := schema.ParseGroupVersion(ref.APIVersion)
	if err != nil {
		return schema.GroupVersionResource{}, err
	}
	mapping, err := r.mapper.RESTMapping(version.WithKind(ref.Kind).GroupKind(), version.Version)
	if meta.IsNoMatchError(err) {
		return schema.GroupVersionResource{}, errors.New("the cluster does not serve " + ref.APIVersion + " " + ref.Kind + "; install its CRD")
	}
	if err != nil {
		return schema.GroupVersionResource{}, err
	}
	return mapping.Resource, nil
}
