package kube

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"sluice.dev/sluice/pkg/api"
)

const (
	// secretMemory is for how long a Secret is used without a look at the API server.
	secretMemory = 30 * time.Second
	manySecrets  = 1024
)

// secrets are Secrets that were read a moment ago. They are read one by one, by name: nothing may list them.
type secrets struct {
	mu    sync.Mutex
	known map[types.NamespacedName]secret
}

type secret struct {
	data  map[string][]byte
	until time.Time
}

// Secret is the data of a Secret, at most half a minute old. The error says what to do.
func (a *Analysis) Secret(ctx context.Context, name types.NamespacedName) (map[string][]byte, error) {
	if data, ok := a.secrets.get(name, time.Now()); ok {
		return data, nil
	}
	s, err := within(ctx, func(ctx context.Context) (*corev1.Secret, error) {
		return a.client.core.Secrets(name.Namespace).Get(ctx, name.Name, metav1.GetOptions{})
	})
	switch {
	case isNotFound(err):
		return nil, fmt.Errorf("the Secret %s, which the template names, does not exist in namespace %s; create it, or correct auth.secretRef", name.Name, name.Namespace)
	case IsForbidden(err):
		return nil, fmt.Errorf("the service account %s may not get the Secret %s in namespace %s; allow it that by a Role of the namespace with resourceNames: [%q]",
			api.ServiceAccountAnalyzer, name.Name, name.Namespace, name.Name)
	case err != nil:
		return nil, fmt.Errorf("read the Secret %s: %w", name, err)
	}
	a.secrets.put(name, secret{data: s.Data, until: time.Now().Add(secretMemory)})
	return s.Data, nil
}

func (s *secrets) get(name types.NamespacedName, now time.Time) (map[string][]byte, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	found, ok := s.known[name]
	return found.data, ok && now.Before(found.until)
}

func (s *secrets) put(name types.NamespacedName, found secret) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.known) >= manySecrets {
		clear(s.known)
	}
	s.known[name] = found
}
