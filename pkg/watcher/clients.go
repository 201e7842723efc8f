package watcher

import (
	"context"
	"fmt"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	appsclient "k8s.io/client-go/kubernetes/typed/apps/v1"
	coreclient "k8s.io/client-go/kubernetes/typed/core/v1"
	discoveryclient "k8s.io/client-go/kubernetes/typed/discovery/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// clients are the APIs that a watcher reads. It reads built-in kinds as protobuf. It reads only the metadata of kinds
// whose objects only need to exist.
type clients struct {
	apps      appsclient.AppsV1Interface
	core      coreclient.CoreV1Interface
	endpoints discoveryclient.DiscoveryV1Interface
	objects   dynamic.Interface
	metadata  metadata.Interface
	resources discovery.DiscoveryInterfaceWithContext
}

func newClients(cfg *rest.Config) (c clients, err error) {
	cfg = rest.CopyConfig(cfg)
	cfg.UserAgent = "sluice-watcher"
	shared, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return c, fmt.Errorf("make client of watcher: %w", err)
	}
	if err := c.connectAll(cfg, shared); err != nil {
		return c, fmt.Errorf("make client of watcher: %w", err)
	}
	return c, nil
}

func (c *clients) connectAll(cfg *rest.Config, by *http.Client) (err error) {
	if c.objects, err = dynamic.NewForConfigAndClient(cfg, by); err != nil {
		return err
	}
	if c.metadata, err = metadata.NewForConfigAndClient(metadata.ConfigFor(cfg), by); err != nil {
		return err
	}
	if c.resources, err = discovery.NewDiscoveryClientForConfigAndClient(cfg, by); err != nil {
		return err
	}
	binary := rest.CopyConfig(cfg)
	binary.ContentType = runtime.ContentTypeProtobuf
	binary.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	if c.apps, err = appsclient.NewForConfigAndClient(binary, by); err != nil {
		return err
	}
	if c.core, err = coreclient.NewForConfigAndClient(binary, by); err != nil {
		return err
	}
	c.endpoints, err = discoveryclient.NewForConfigAndClient(binary, by)
	return err
}

// lister lists and watches one resource.
type lister[L runtime.Object] interface {
	List(ctx context.Context, o metav1.ListOptions) (L, error)
	Watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error)
}

// listWatch lists and watches the objects of a lister. tweak narrows the selection and may be nil.
func listWatch[L runtime.Object](of lister[L], tweak func(*metav1.ListOptions)) *cache.ListWatch {
	if tweak == nil {
		tweak = func(*metav1.ListOptions) {}
	}
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
