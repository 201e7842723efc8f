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
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"sluice.dev/sluice/pkg/api"
)

// Verb is what a caller must be allowed to do with a Rollout in order to approve or reject its steps.
const Verb = "approve"

// Caller is who the API server says a token belongs to.
type Caller struct {
	authenticationv1.UserInfo
}

// KubeAccess is the gate that the API server of a cluster keeps.
type KubeAccess struct {
	client    kubernetes.Interface
	audiences []string
	now       func() time.Time
	// reviewSlots bounds the token reviews under way: anybody may send tokens.
	reviewSlots chan struct{}

	mu      sync.Mutex
	reviews map[[sha256.Size]byte]tokenReview
}

// tokenReview is what the API server said about a token.
type tokenReview struct {
	caller Caller
	err    error
	until  time.Time
}

const (
	// reviewTTL is how long a verdict counts. A token that was revoked opens for so long after the API server last took it, which itself
	// remembers for 10 s what it took.
	reviewTTL = 10 * time.Second
	// maxCachedReviews bounds what is remembered; beyond it everything is forgotten.
	maxCachedReviews = 4096
	// maxAsking is how many tokens are being reviewed at once.
	maxAsking = 16
	// maxToken is ample for a JSON web token.
	maxToken = 16 << 10
)

// NewKubeAccess asks the API server of a configuration, as its user. A token must be meant for one of the audiences; none means for the
// API server itself.
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

// Authenticate asks by a TokenReview.
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

// hasAudience reports whether a token is for us. An API server that knows nothing of audiences names none, and vouches for its own only.
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

// Authorize asks by a SubjectAccessReview, each time anew.
func (k *KubeAccess) Authorize(ctx context.Context, c Caller, namespace, name string) (bool, error) {
	extra := map[string]authorizationv1.ExtraValue{}
	for key, values := range c.Extra {
		extra[key] = authorizationv1.ExtraValue(values)
	}
	review, err := k.client.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{
		Spec: authorizationv1.SubjectAccessReviewSpec{
			User: c.Username, UID: c.UID, Groups: c.Groups, Extra: extra,
			ResourceAttributes: &authorizationv1.ResourceAttributes{
				Verb: Verb, Group: api.Group, Version: api.GroupVersion().Version, Resource: api.RolloutResource().Resource, Namespace: namespace, Name: name,
			},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return false, fmt.Errorf("review what %s may do: %w", c.Username, err)
	}
	return review.Status.Allowed && !review.Status.Denied, nil
}
