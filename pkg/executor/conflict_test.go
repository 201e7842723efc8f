package executor_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/dynamic"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/queue"
	"sluice.dev/sluice/test/world"
)

func TestAConflict(t *testing.T) {
	t.Parallel()
	w := idleWorld(t)
	t.Run("over the status is decided anew in the same run", func(t *testing.T) { anewInTheSameRun(t, w) })
	t.Run("over the workload has it alone looked at again", func(t *testing.T) { aloneLookedAtAgain(t, w) })
}

// withApp creates a namespace with an application and its Rollout.
func withApp(t *testing.T, w *world.World) (ns string) {
	t.Helper()
	ns = w.Namespace(t)
	admin, err := dynamic.NewForConfig(w.Config)
	if err != nil {
		t.Fatal(err)
	}
	if err := (world.App{Name: "app", Replicas: 1, Steps: []world.Step{{Replicas: 1, Weight: 50}}}).Create(t.Context(), admin, ns); err != nil {
		t.Fatal(err)
	}
	w.Available(t, ns, "app")
	return ns
}

// The Rollout changes between observation and commit: the same run observes and decides again, and commits the second decision.
func anewInTheSameRun(t *testing.T, w *world.World) {
	ns := withApp(t, w)
	var answers []int
	var change sync.Once
	config := w.As(api.DefaultExecutor)
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
	w.Await(t, ns, "app", func(r *api.Rollout) bool { return r.Status.Phase == api.PhaseDisabled })
}

// After a change of the workload between observation and write, the run reads only the workload again. It reads everything only after more conflicts in a row.
func aloneLookedAtAgain(t *testing.T, w *world.World) {
	ns := withApp(t, w)
	const changes = 3
	var reads [changes + 1][]string // by the number of conflicts before
	var mu sync.Mutex
	writes := 0
	config := w.As(api.DefaultExecutor)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			mu.Lock()
			defer mu.Unlock()
			what := describe(r)
			switch {
			case r.Method == http.MethodGet && what.namespace == ns && writes <= changes:
				reads[writes] = append(reads[writes], what.resource)
			case r.Method == http.MethodPatch && what.resource == "deployments":
				if writes++; writes <= changes {
					if err := w.Patch(t, ns, "deployment", "app", fmt.Sprintf(`{"metadata":{"annotations":{"changed":"%d"}}}`, writes)); err != nil {
						t.Error(err)
					}
				}
			}
			return next.RoundTrip(r)
		})
	})
	e, err := w.NewExecutor(t.Context(), config, "")
	if err != nil {
		t.Fatal(err)
	}
	defer e.Queue.Close()
	r := e.Handle(t.Context(), queue.Key{Cluster: w.Name, Namespace: ns, Name: "app"})
	mu.Lock()
	defer mu.Unlock()
	if r.Err != nil || writes <= changes { // the controller of the workload may have caused one more conflict
		t.Errorf("the run ended after %d writes in %v", writes, r.Err)
	}
	alone := []string{"deployments", "rollouts", "rollouts"} // the Rollout, and the list in which another one of the workload would be
	if diff := cmp.Diff([][]string{alone, alone}, [][]string{reads[1], reads[2]}); diff != "" {
		t.Errorf("reads after conflicts (-want +got):\n%s", diff)
	}
	if !slices.Contains(reads[3], "virtualservices") {
		t.Errorf("after one conflict too many it reads no more than %s", reads[3])
	}
}
