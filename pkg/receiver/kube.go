package receiver

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// Permission is what a caller needs for a request: an RBAC verb on an object.
type Permission struct {
	Verb     string
	Resource schema.GroupVersionResource
	// Namespace is also set for objects without one: a RoleBinding can grant the verb in a namespace.
	Namespace, Name string
}

// Caller is the user that the API server names for a token.
type Caller struct {
	authenticationv1.UserInfo
}

// KubeAccess controls access with reviews of a cluster's API server.
type KubeAccess struct {
	client    kubernetes.Interface
	audiences []string
	now       func() time.Time
	// reviewSlots bounds the token reviews in parallel, because any client can send tokens.
	reviewSlots chan struct{}

	mu      sync.Mutex
	reviews map[[sha256.Size]byte]tokenReview
}

// tokenReview is a cached answer of the API server about a token.
type tokenReview struct {
	caller Caller
	err    error
	until  time.Time
}

const (
	// reviewTTL is the lifetime of a cached review. The receiver accepts a revoked token for at most that long after the API server last accepted it. The API
	// server itself caches a positive review for 10 s.
	reviewTTL = 10 * time.Second
	// maxCachedReviews bounds the cache; when it is full, the receiver clears it.
	maxCachedReviews = 4096
	// maxAsking is the number of token reviews in parallel.
	maxAsking = 16
	// maxToken is ample for a JSON web token.
	maxToken = 16 << 10
)

// NewKubeAccess sends reviews to the API server of a config, with the identity of the config. A token must have one of the audiences; no audiences means the
// API server's own.
func NewKubeAccess(config *rest.Config, audiences []string) (*KubeAccess, error) {
	config = rest.CopyConfig(config)
	config.UserAgent = "sluice-receiver"
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make client of the approval receiver: %w", err)
	}
	return &KubeAccess{
		client: client, audiences: audiences, now: time.Now,
		reviewSlots: make(chan struct{}, maxAsking), reviews: map[[sha256.Size]byte]tokenReview{},
	}, nil
}

// Authenticate sends a TokenReview, unless it has a cached review of the token.
func (k *KubeAccess) Authenticate(ctx context.Context, token string) (Caller, error) {
	if token == "" || len(token) > maxToken {
		return Caller{}, ErrUnauthenticated
	}
	sum := sha256.Sum256([]byte(token))
	if v, ok := k.cachedReview(sum); ok {
		return v.caller, v.err
	}
	select {
	case k.reviewSlots <- struct{}{}:
		defer func() { <-k.reviewSlots }()
	case <-ctx.Done():
		return Caller{}, fmt.Errorf("wait to review a token: %w", ctx.Err())
	}
	review, err := k.client.AuthenticationV1().TokenReviews().Create(ctx, &authenticationv1.TokenReview{
		Spec: authenticationv1.TokenReviewSpec{Token: token, Audiences: k.audiences},
	}, metav1.CreateOptions{})
	if err != nil {
		return Caller{}, fmt.Errorf("review a token: %w", err)
	}
	v := tokenReview{caller: Caller{review.Status.User}}
	if !review.Status.Authenticated || review.Status.User.Username == "" || !k.hasAudience(review.Status.Audiences) {
		v = tokenReview{err: ErrUnauthenticated}
	}
	k.cacheReview(sum, v)
	return v.caller, v.err
}

// hasAudience reports whether a token is for this receiver. An API server without support for audiences returns none, and its answer counts only for its own
// audience.
func (k *KubeAccess) hasAudience(audiences []string) bool {
	return len(k.audiences) == 0 || slices.ContainsFunc(k.audiences, func(a string) bool { return slices.Contains(audiences, a) })
}

func (k *KubeAccess) cachedReview(sum [sha256.Size]byte) (tokenReview, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	v, ok := k.reviews[sum]
	return v, ok && k.now().Before(v.until)
}

func (k *KubeAccess) cacheReview(sum [sha256.Size]byte, v tokenReview) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.reviews) >= maxCachedReviews {
		clear(k.reviews)
	}
	v.until = k.now().Add(reviewTTL)
	k.reviews[sum] = v
}

// Authorize sends a SubjectAccessReview on each call.
func (k *KubeAccess) Authorize(ctx context.Context, c Caller, p Permission) (bool, error) {
	extra := map[string]authorizationv1.ExtraValue{}
	for key, values := range c.Extra {
		extra[key] = authorizationv1.ExtraValue(values)
	}
	review, err := k.client.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{
		Spec: authorizationv1.SubjectAccessReviewSpec{
			User: c.Username, UID: c.UID, Groups: c.Groups, Extra: extra,
			ResourceAttributes: &authorizationv1.ResourceAttributes{
				Verb: p.Verb, Group: p.Resource.Group, Version: p.Resource.Version, Resource: p.Resource.Resource, Namespace: p.Namespace, Name: p.Name,
			},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return false, fmt.Errorf("review what %s may do: %w", c.Username, err)
	}
	return review.Status.Allowed && !review.Status.Denied, nil
}
