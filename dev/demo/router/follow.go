package router

import (
	"context"
	"errors"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"
)

// VirtualServices returns the resource that a router follows.
func VirtualServices() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "networking.istio.io", Version: "v1", Resource: "virtualservices"}
}

// Follow keeps the table equal to the VirtualService of this name, until ctx ends.
func (r *Router) Follow(ctx context.Context, client dynamic.Interface, namespace, name string) error {
	factory := dynamicinformer.NewFilteredDynamicSharedInformerFactory(client, 0, namespace, func(o *metav1.ListOptions) {
		o.FieldSelector = "metadata.name=" + name
	})
	seen := func(object any) {
		if u, ok := object.(*unstructured.Unstructured); ok {
			r.set(Parse(u))
		}
	}
	if _, err := factory.ForResource(VirtualServices()).Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    seen,
		UpdateFunc: func(_, now any) { seen(now) },
		DeleteFunc: func(any) { r.set(Table{}, errors.New("the VirtualService was deleted")) },
	}); err != nil {
		return err
	}
	factory.Start(ctx.Done())
	<-ctx.Done()
	factory.Shutdown()
	return nil
}
