package executor_test

import (
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/dynamic"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/queue"
	"sluice.dev/sluice/test/world"
)

// The Rollout changes between look and commit: the same run looks and decides anew, and commits what it then decides.
func TestAConflictOverTheStatusIsDecidedAnewInTheSameRun(t *testing.T) {
	t.Parallel()
	w := world.Bare(t, world.Options{})
	ns := w.Namespace(t)
	admin, err := dynamic.NewForConfig(w.Config)
	if err != nil {
		t.Fatal(err)
	}
	if err := (world.App{Name: "app", Replicas: 1, Steps: []world.Step{{Replicas: 1, Weight: 50}}}).Create(t.Context(), admin, ns); err != nil {
		t.Fatal(err)
	}
	w.Available(t, ns, "app")

	var answers []int
	var change sync.Once
	config := w.As(api.ServiceAccountExecutor)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			commit := r.Method == http.MethodPut && strings.HasSuffix(r.URL.Path, "/rollouts/app/status")
			if !commit {
				return next.RoundTrip(r)
			}
			change.Do(func() {
				if err := w.Patch(t, ns, "rollout", "app", `{"spec":{"disabled":true}}`); err != nil {
					t.Error(err)
				}
			})
			response, err := next.RoundTrip(r)
			if err == nil {
				answers = append(answers, response.StatusCode)
			}
			return response, err
		})
	})
	e, err := w.NewExecutor(t.Context(), config, "")
	if err != nil {
		t.Fatal(err)
	}
	defer e.Queue.Close()
	r := e.Handle(t.Context(), queue.Key{Cluster: w.Name, Namespace: ns, Name: "app"})
	if r.Err != nil {
		t.Errorf("the run ended in %v", r.Err)
	}
	if diff := cmp.Diff([]int{http.StatusConflict, http.StatusOK}, answers); diff != "" {
		t.Errorf("answers to the commits (-want +got):\n%s", diff)
	}
	w.AwaitWithin(t, time.Second, ns, "app", func(r *api.Rollout) bool { return r.Status.Phase == api.PhaseDisabled })
}
