package kube

import (
	"context"
	"fmt"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
)

// Kind is a kind as references name it.
type Kind struct{ APIVersion, Name string }

// Resource is how the API server serves a kind.
type Resource struct {
	schema.GroupVersionResource
	Namespaced bool
}

// Discovery finds the resources of kinds. What is found is kept until it is no longer served: a kind does not change its resource.
// What is not served is asked for again each time, so that a CRD counts as soon as it is installed.
type Discovery struct {
	Client discovery.DiscoveryInterfaceWithContext

	mu    sync.Mutex
	Known map[Kind]Resource
}

// UnservedError says that the cluster does not serve a kind.
type UnservedError struct{ kind Kind }

func (e *UnservedError) Error() string {
	return fmt.Sprintf("the cluster does not serve kind %s of %s", e.kind.Name, e.kind.APIVersion)
}

func (k *Discovery) ResourceFor(ctx context.Context, of Kind) (Resource, error) {
	k.mu.Lock()
	found, ok := k.Known[of]
	k.mu.Unlock()
	if ok {
		return found, nil
	}
	version, err := schema.ParseGroupVersion(of.APIVersion)
	if err != nil {
		return Resource{}, &UnservedError{of}
	}
	list, err := k.Client.ServerResourcesForGroupVersionWithContext(ctx, of.APIVersion)
	if apierrors.IsNotFound(err) {
		return Resource{}, &UnservedError{of}
	}
	if err != nil {
		return Resource{}, fmt.Errorf("ask for the resources of %s: %w", of.APIVersion, err)
	}
	for _, r := range list.APIResources {
		if r.Kind == of.Name && !strings.Contains(r.Name, "/") {
			found := Resource{version.WithResource(r.Name), r.Namespaced}
			k.mu.Lock()
			k.Known[of] = found
			k.mu.Unlock()
			return found, nil
		}
	}
	return Resource{}, &UnservedError{of}
}

func (k *Discovery) IsCached(of Kind) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	_, ok := k.Known[of]
	return ok
}

func (k *Discovery) InvalidateKind(of Kind) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.Known, of)
}
