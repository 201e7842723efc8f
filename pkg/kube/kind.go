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

// kind is a kind as references name it.
type kind struct{ apiVersion, name string }

// resource is how the API server serves a kind.
type resource struct {
	schema.GroupVersionResource
	namespaced bool
}

// kinds finds the resources of kinds. What is found is kept until it is no longer served: a kind does not change its resource.
// What is not served is asked for again each time, so that a CRD counts as soon as it is installed.
type kinds struct {
	discovery discovery.DiscoveryInterfaceWithContext

	mu    sync.Mutex
	known map[kind]resource
}

// errUnserved says that the cluster does not serve a kind.
type errUnserved struct{ kind kind }

func (e *errUnserved) Error() string {
	return fmt.Sprintf("the cluster does not serve kind %s of %s", e.kind.name, e.kind.apiVersion)
}

func (k *kinds) find(ctx context.Context, of kind) (resource, error) {
	k.mu.Lock()
	found, ok := k.known[of]
	k.mu.Unlock()
	if ok {
		return found, nil
	}
	version, err := schema.ParseGroupVersion(of.apiVersion)
	if err != nil {
		return resource{}, &errUnserved{of}
	}
	list, err := k.discovery.ServerResourcesForGroupVersionWithContext(ctx, of.apiVersion)
	if apierrors.IsNotFound(err) {
		return resource{}, &errUnserved{of}
	}
	if err != nil {
		return resource{}, fmt.Errorf("ask for the resources of %s: %w", of.apiVersion, err)
	}
	for _, r := range list.APIResources {
		if r.Kind == of.name && !strings.Contains(r.Name, "/") {
			found := resource{version.WithResource(r.Name), r.Namespaced}
			k.mu.Lock()
			k.known[of] = found
			k.mu.Unlock()
			return found, nil
		}
	}
	return resource{}, &errUnserved{of}
}

func (k *kinds) knows(of kind) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	_, ok := k.known[of]
	return ok
}

func (k *kinds) forget(of kind) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.known, of)
}
