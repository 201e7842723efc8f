package world

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/test/controlplane"
)

// patience bounds each wait of a scenario. It is long because two cores may be busy with other tests; no test waits for
// it to pass.
const patience = 10 * time.Minute

// Patient returns a context that ends when a wait of a scenario has lasted too long.
func Patient(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// Goal reports whether a Rollout has reached the state that a scenario waits for.
type Goal func(*api.Rollout) bool

// PausedAt is the goal that a release waits at a step.
func PausedAt(step int32) Goal {
	return func(r *api.Rollout) bool {
		s := r.Status
		return s.Phase == api.PhaseProgressing && s.CurrentStepState == api.StepPaused && s.CurrentStepIndex == step
	}
}

// Healthy is the goal that no release is under way and nothing holds the next one.
func Healthy(r *api.Rollout) bool { return r.Status.Phase == api.PhaseHealthy }

// HeldFor is the goal that a release is stalled for a reason.
func HeldFor(reason api.Reason) Goal {
	return func(r *api.Rollout) bool {
		c := Condition(r, api.ConditionStalled)
		return c != nil && c.Reason == reason
	}
}

// Gets is a goal that also wants the status to show a share of the requests for the new version.
func Gets(traffic string, goal Goal) Goal {
	return func(r *api.Rollout) bool { return goal(r) && r.Status.Sluice.Traffic == traffic }
}

// Condition returns a condition of a Rollout, nil when it has none of that type.
func Condition(r *api.Rollout, kind api.ConditionType) *api.Condition {
	for i := range r.Status.Conditions {
		if r.Status.Conditions[i].Type == kind {
			return &r.Status.Conditions[i]
		}
	}
	return nil
}

// Await watches a Rollout until it reaches a goal, and returns it in that state.
func (w *World) Await(t testing.TB, namespace, name string, goal Goal) *api.Rollout {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	client, err := dynamic.NewForConfig(w.Config)
	if err != nil {
		t.Fatal(err)
	}
	events, err := controlplane.Watch(ctx, client.Resource(api.RolloutResource()).Namespace(namespace), metav1.ListOptions{FieldSelector: "metadata.name=" + name})
	if err != nil {
		t.Fatal(err)
	}
	defer events.Stop()
	var last *api.Rollout
	for e := range events.ResultChan() {
		u, ok := e.Object.(*unstructured.Unstructured)
		if !ok {
			continue
		}
		last = new(api.Rollout)
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, last); err != nil {
			t.Fatal(err)
		}
		if goal(last) {
			return last
		}
	}
	pods, err := w.Kubectl(t.Context(), "-n", namespace, "get", "deployments,replicasets,pods", "-o", "wide", "--show-labels")
	t.Fatalf("rollout %s/%s did not get there in time; %s\nits pods are (%v):\n%s", namespace, name, describe(last), err, pods)
	return nil
}

func describe(r *api.Rollout) string {
	if r == nil {
		return "it was never seen"
	}
	body, err := yaml.Marshal(r.Status)
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("its status is:\n%s", body)
}

// Approve approves the step that a Rollout waits at, by the patch that kubectl-kruise sends.
func (w *World) Approve(t testing.TB, namespace, name string) {
	t.Helper()
	if err := w.Patch(t, namespace, "rollout", name, `{"status":{"canaryStatus":{"currentStepState":"StepReady"}}}`, "status"); err != nil {
		t.Fatal(err)
	}
}

// Object reads an object as the API server shows it.
func (w *World) Object(t testing.TB, namespace, kind, name string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	if err := json.Unmarshal([]byte(w.Do(t, "-n", namespace, "get", kind, name, "-o", "json")), &u.Object); err != nil {
		t.Fatal(err)
	}
	return u
}

// Seed reads a manifest of examples/seeds.
func Seed(t testing.TB, path string) string {
	t.Helper()
	body, err := os.ReadFile(filepath.Join(Root(), "examples/seeds", path))
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// AwaitHistory waits until a release of a Rollout is recorded with an outcome.
func (w *World) AwaitHistory(t *testing.T, namespace, name string, epoch int64, outcome api.HistoryOutcome) (record api.RolloutHistory) {
	t.Helper()
	w.AwaitObject(t, namespace, "rollouthistory", api.HistoryName(name, epoch), "to say "+string(outcome), func(u *unstructured.Unstructured) bool {
		if u == nil {
			return false
		}
		record = api.RolloutHistory{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &record); err != nil {
			t.Fatal(err)
		}
		return record.Status.Outcome == outcome
	})
	return record
}
