package kube_test

import (
	"bytes"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"sluice.dev/sluice/pkg/rollout"
)

// failure is the answer of an API server whose conversion webhook is down.
func failure(r *http.Request) *http.Response {
	const body = `{"kind":"Status","apiVersion":"v1","status":"Failure","code":500,"message":"conversion webhook for it failed"}`
	return &http.Response{StatusCode: http.StatusInternalServerError, Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(bytes.NewReader([]byte(body))), Request: r}
}

// If the API server cannot serve a kind that only steps need, the executor carries out no further step, and still rolls the release back.
func TestAKindThatTheAPIServerCannotServeDoesNotKeepARollback(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.settled()
	w.drive("web", rollout.StateIdle)
	w.kubectl("", "patch", "deployment", "web", "-p", heldImage("2"))
	w.drive("web", rollout.StatePaused)
	w.client = clientThrough(t, func(r *http.Request, next http.RoundTripper) (*http.Response, error) {
		if strings.HasSuffix(r.URL.Path, "/destinationrules") {
			return failure(r), nil
		}
		return next.RoundTrip(r)
	})
	if _, err := w.client.Observe(t.Context(), w.key("web")); err == nil || !strings.Contains(err.Error(), "conversion webhook") {
		t.Fatalf("a first error may pass by itself, and is %v", err)
	}
	w.client.Failing(schema.GroupVersionResource{Group: "networking.istio.io", Version: "v1", Resource: "destinationrules"}, time.Minute)
	held := slices.IndexFunc(w.observe("web").Seen.Problems, func(p rollout.Problem) bool {
		return p.Reason == rollout.ReasonUnreadable && !p.Unknown && p.Route.Kind == "VirtualService" && strings.Contains(p.Message, "conversion webhook")
	})
	if held < 0 {
		t.Errorf("the problems are %v", w.observe("web").Seen.Problems)
	}
	w.kubectl("", "patch", "deployment", "web", "-p", heldImage("1"))
	w.drive("web", rollout.StateFinalising)
	w.drive("web", rollout.StateIdle)
	if spec := w.get("virtualservice/web", "{.spec}"); strings.Contains(spec, "web-canary") {
		t.Errorf("the route leads to the canary: %s", spec)
	}
}
