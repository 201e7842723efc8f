package kube

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"sluice.dev/sluice/pkg/kube/apiclient"
)

const (
	// secretTTL is how long the client uses a Secret before it asks the API server again.
	secretTTL  = 30 * time.Second
	maxSecrets = 1024
)

// secretCache has Secrets that were read a moment ago. The analyzer reads them one by one, by name, because it may not
// list them.
type secretCache struct {
	mu    sync.Mutex
	known map[types.NamespacedName]cachedSecret
}

type cachedSecret struct {
	data  map[string][]byte
	until time.Time
}

// ReadSecret returns the data of a Secret, at most half a minute old. The error says how to correct it.
func (a *AnalysisClient) ReadSecret(ctx context.Context, name types.NamespacedName) (map[string][]byte, error) {
	if data, ok := a.secretCache.getSecret(name, time.Now()); ok {
		return data, nil
	}
	s, err := apiclient.WithDeadline(ctx, func(ctx context.Context) (*corev1.Secret, error) {
		return a.client.core.Secrets(name.Namespace).Get(ctx, name.Name, metav1.GetOptions{})
	})
	switch {
	case apiclient.IsNotFound(err):
		return nil, fmt.Errorf("the Secret %s, which the template names, does not exist in namespace %s; create it, or correct auth.secretRef", name.Name, name.Namespace)
	case apiclient.IsForbidden(err):
		return nil, fmt.Errorf("the service account %s/%s may not get the Secret %s in namespace %s; allow it that by a Role of the namespace with resourceNames: [%q]",
			a.client.opts.Installation.Namespace, a.client.opts.Installation.Analyzer, name.Name, name.Namespace, name.Name)
	case err != nil:
		return nil, fmt.Errorf("read the Secret %s: %w", name, err)
	}
	a.secretCache.putSecret(name, cachedSecret{data: s.Data, until: time.Now().Add(secretTTL)})
	return s.Data, nil
}

func (s *secretCache) getSecret(name types.NamespacedName, now time.Time) (map[string][]byte, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	found, ok := s.known[name]
	return found.data, ok && now.Before(found.until)
}

func (s *secretCache) putSecret(name types.NamespacedName, found cachedSecret) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.known) >= maxSecrets {
		clear(s.known)
	}
	s.known[name] = found
}
