package apiclient

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
)

// Kind is an API version and a kind, as references have them.
type Kind struct{ APIVersion, Name string }

// Resource is the resource of the API server that serves a kind.
type Resource struct {
	schema.GroupVersionResource
	Namespaced bool
}

// Discovery finds the resources of kinds. A kind does not change its resource, so Discovery keeps a resource until the
// API server no longer serves it. It asks for an unserved kind each time, so a CRD counts as soon as it is installed.
type Discovery struct {
	client discovery.DiscoveryInterfaceWithContext

	mu    sync.Mutex
	known map[Kind]Resource
}

// NewDiscovery returns a Discovery that knows no kind yet.
func NewDiscovery(client discovery.DiscoveryInterfaceWithContext) *Discovery {
	return &Discovery{client: client, known: map[Kind]Resource{}}
}

// unservedError says that the cluster does not serve a kind.
type unservedError struct{ kind Kind }

func (e *unservedError) Error() string {
	return fmt.Sprintf("the cluster does not serve kind %s of %s", e.kind.Name, e.kind.APIVersion)
}

// IsUnservedKind reports whether the cluster does not serve the kind that a [Discovery] was asked for.
func IsUnservedKind(err error) bool {
	var unserved *unservedError
	return errors.As(err, &unserved)
}

// ResourceFor returns the resource that serves a kind. [IsUnservedKind] recognizes the error for a kind that the
// cluster does not serve; every other error passes by itself.
func (k *Discovery) ResourceFor(ctx context.Context, of Kind) (Resource, error) {
	k.mu.Lock()
	found, ok := k.known[of]
	k.mu.Unlock()
	if ok {
		return found, nil
	}
	version, err := schema.ParseGroupVersion(of.APIVersion)
	if err != nil {
		return Resource{}, &unservedError{of}
	}
	list, err := k.client.ServerResourcesForGroupVersionWithContext(ctx, of.APIVersion)
	if apierrors.IsNotFound(err) {
		return Resource{}, &unservedError{of}
	}
	if err != nil {
		return Resource{}, fmt.Errorf("ask for the resources of %s: %w", of.APIVersion, err)
	}
	for _, r := range list.APIResources {
		if r.Kind == of.Name && !strings.Contains(r.Name, "/") {
			found := Resource{version.WithResource(r.Name), r.Namespaced}
			k.mu.Lock()
			k.known[of] = found
			k.mu.Unlock()
			return found, nil
		}
	}
	return Resource{}, &unservedError{of}
}

// IsCached reports whether [Discovery.ResourceFor] answers without a call.
func (k *Discovery) IsCached(of Kind) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	_, ok := k.known[of]
	return ok
}

// InvalidateKind forgets the resource of a kind that the API server does not serve.
func (k *Discovery) InvalidateKind(of Kind) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.known, of)
}
