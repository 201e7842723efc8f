package main

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"

	"sluice.dev/sluice/dev/demo/app"
)

// followPods makes the local servers run the versions of the simulated pods of both Deployments, until ctx ends.
func (p *shop) followPods(ctx context.Context, client dynamic.Interface) error {
	servers := map[string]*app.Server{stableService: p.stable, canaryService: p.canary}
	seen := func(object any) {
		var d appsv1.Deployment
		u, ok := object.(*unstructured.Unstructured)
		if !ok || servers[u.GetName()] == nil || runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &d) != nil {
			return
		}
		switch image, ready := running(d); {
		case !ready:
			servers[d.Name].Halt()
		case image != "":
			servers[d.Name].Run(p.catalogue[image])
		}
	}
	factory := dynamicinformer.NewFilteredDynamicSharedInformerFactory(client, 0, namespace, nil)
	if _, err := factory.ForResource(appsv1.SchemeGroupVersion.WithResource("deployments")).Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    seen,
		UpdateFunc: func(_, now any) { seen(now) },
		DeleteFunc: func(object any) {
			if u, ok := object.(*unstructured.Unstructured); ok && servers[u.GetName()] != nil {
				servers[u.GetName()].Halt()
			}
		},
	}); err != nil {
		return err
	}
	factory.Start(ctx.Done())
	<-ctx.Done()
	factory.Shutdown()
	return nil
}

// running returns the image of all pods of a Deployment, or "" while the images differ or are unknown. ready reports whether any pod is ready.
func running(d appsv1.Deployment) (image string, ready bool) {
	s := d.Status
	if s.ReadyReplicas == 0 {
		return "", false
	}
	if s.ObservedGeneration < d.Generation || s.UpdatedReplicas != s.Replicas || s.ReadyReplicas != s.Replicas {
		return "", true
	}
	return d.Spec.Template.Spec.Containers[0].Image, true
}
