package receiver_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sluice.dev/sluice/pkg/receiver"
)

// reviewer answers reviews instead of an API server. A real API server accepts a revoked token for another 10 s from its own cache.
type reviewer struct{ revoked, forbidden atomic.Bool }

func (v *reviewer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	review, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, nil)
	switch review := review.(type) {
	case *authenticationv1.TokenReview:
		if review.Status.Authenticated = !v.revoked.Load(); review.Status.Authenticated {
			review.Status.User, review.Status.Audiences = authenticationv1.UserInfo{Username: "system:serviceaccount:shop:ci"}, review.Spec.Audiences
		}
	case *authorizationv1.SubjectAccessReview:
		review.Status.Allowed = !v.forbidden.Load()
	default:
		http.Error(w, "no review", http.StatusNotFound)
		return
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(review)
}

// clock stands still until the test moves it.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) time() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) forward(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

func TestARevokedTokenOpensTheReceiverForTenSecondsAtMost(t *testing.T) {
	w := aWorld(t, gate{})
	api := &reviewer{}
	server := httptest.NewServer(api)
	t.Cleanup(server.Close)
	kube, err := receiver.NewKubeAccess(&rest.Config{Host: server.URL}, []string{"sluice"})
	if err != nil {
		t.Fatal(err)
	}
	now := &clock{now: time.Unix(1, 0)}
	kube.At(now.time)
	guarded := httptest.NewServer(receiver.New(receiver.Options{ClusterName: "default", AccessControl: kube, Queue: w.queue}))
	t.Cleanup(guarded.Close)
	w.url = guarded.URL

	type answered struct {
		When   string
		Status int
	}
	var got []answered
	at := func(when string) {
		t.Helper()
		status, _, _ := w.send(request{contentType: structured, token: "Bearer of-ci", body: approval(nil)})
		got = append(got, answered{when, status})
	}
	at("with a good token")
	api.forbidden.Store(true)
	at("as soon as the right is gone")
	api.forbidden.Store(false)
	at("as soon as it is back")
	api.revoked.Store(true)
	now.forward(10*time.Second - time.Nanosecond)
	at("just before 10 s have passed since the token was looked at")
	now.forward(time.Nanosecond)
	at("10 s after that")
	want := []answered{
		{"with a good token", 202}, {"as soon as the right is gone", 403}, {"as soon as it is back", 202},
		{"just before 10 s have passed since the token was looked at", 202}, {"10 s after that", 401},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("what the receiver answers (-want +got):\n%s", diff)
	}
}
