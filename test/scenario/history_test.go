package scenario

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/executor"
	"sluice.dev/sluice/test/world"
)

// historian runs one executor after another, with a limit for the number of records.
type historian struct {
	*demo
	keep int
	stop func()
}

func (h *historian) run(t *testing.T) {
	t.Helper()
	e, err := h.w.NewExecutor(t.Context(), h.w.As(api.DefaultExecutor), "")
	if err != nil {
		t.Fatal(err)
	}
	e = executor.New(executor.Options{ClusterName: h.w.Name, Kube: e.Kube, Queue: e.Queue, Workers: 4, HistoryLimit: h.keep, Logger: h.w.Log})
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer e.Queue.Close()
		if err := e.Run(ctx); err != nil {
			h.w.Log.Error("an executor ended", "error", err)
		}
	}()
	h.stop = func() { cancel(); <-done }
}

func (h *historian) restart(t *testing.T) {
	t.Helper()
	h.stop()
	h.run(t)
}

// recorded waits until a release is recorded with an outcome.
func (d *demo) recorded(t *testing.T, epoch int64, outcome api.HistoryOutcome) api.RolloutHistory {
	t.Helper()
	r := d.w.AwaitHistory(t, d.ns, "rollouts-demo", epoch, outcome)
	wantTimes(t, r.Status)
	return r
}

// wantTimes checks that a completed record has all its times, in order.
func wantTimes(t *testing.T, s api.RolloutHistoryStatus) {
	t.Helper()
	if s.Phase != api.HistoryCompleted || s.StartedAt == nil || s.EndedAt == nil || s.StableRevision == "" || s.CanaryRevision == "" {
		t.Fatalf("the record is %+v", s)
	}
	at := s.StartedAt.Time
	for _, step := range s.Steps {
		if step.StartedAt == nil || step.EndedAt == nil || step.StartedAt.Time.Before(at) || step.EndedAt.Time.Before(step.StartedAt.Time) || s.EndedAt.Time.Before(step.EndedAt.Time) {
			t.Errorf("the times of step %d are not in order: %+v", step.Step, s)
		}
		at = step.StartedAt.Time
	}
}

// stays returns the steps of a record without their times.
func stays(s api.RolloutHistoryStatus) []string {
	var list []string
	for _, step := range s.Steps {
		list = append(list, strings.TrimSpace(fmt.Sprintf("%d %s %s", step.Step, step.ApprovedBy, step.Comment)))
	}
	return list
}

func (d *demo) wantStays(t *testing.T, epoch int64, outcome api.HistoryOutcome, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, stays(d.recorded(t, epoch, outcome).Status)); diff != "" {
		t.Errorf("the steps of release %d (-want +got):\n%s", epoch, diff)
	}
}

// Five releases follow each other, each with another end, while executors come and go. Any executor records each
// release once, and the oldest records are deleted.
func TestEveryReleaseIsRecordedAndTheOldestGo(t *testing.T) {
	t.Parallel()
	w := bareWorld(t)
	h := &historian{keep: 3}
	h.demo = &demo{w: w}
	h.run(t)
	t.Cleanup(func() { h.stop() })
	h.demo = aDemo(t, w)
	p := aPipeline(t, h.demo)

	h.release(t, version("one"))
	h.at(t, 1)
	h.approve(t)
	h.await(t, world.PausedAt(2))
	h.restart(t)
	if d := p.decide(t, "jenkins", "green", decision(api.DecisionApprove, "comment", "e2e is green")); !d.Accepted {
		t.Fatalf("the approval was refused: %s", d.Message)
	}
	h.finish(t, 3)
	h.wantStays(t, 1, api.OutcomeCompleted, "1 tester", "2 jenkins e2e is green", "3 tester")
	first := h.recorded(t, 1, api.OutcomeCompleted)
	if diff := cmp.Diff([]string{"nginx"}, first.Status.Images); diff != "" || !strings.Contains(string(first.Spec.Workload.Data.Raw), `"one"`) {
		t.Errorf("the images (-want +got), and the workload %s:\n%s", first.Spec.Workload.Data.Raw, diff)
	}

	h.release(t, version("two"))
	h.at(t, 2)
	h.restart(t)
	h.release(t, version("one"))
	h.await(t, world.Healthy)
	h.wantStays(t, 2, api.OutcomeCanceled, "1 tester", "2")

	h.release(t, version("three"))
	h.at(t, 1)
	h.abort(t, "orders fail")
	h.await(t, func(r *api.Rollout) bool {
		return world.Condition(r, api.ConditionProgressing).Reason == api.ReasonAborted
	})
	h.restart(t)
	h.wantStays(t, 3, api.OutcomeAborted, "1")
	if got := h.recorded(t, 3, api.OutcomeAborted).Status.Message; !strings.Contains(got, "aborted by admin (orders fail)") {
		t.Errorf("it says %q", got)
	}

	h.release(t, version("four"))
	h.await(t, func(r *api.Rollout) bool { return world.PausedAt(1)(r) && r.Status.Sluice.Epoch == 4 })
	h.release(t, version("five"))
	h.wantStays(t, 4, api.OutcomeSuperseded, "1")
	h.finish(t, 1)
	h.wantStays(t, 5, api.OutcomeCompleted, "1 tester", "2 tester", "3 tester")

	h.wantList(t)
	h.wantOnce(t, 5)
	w.Do(t, "-n", h.ns, "delete", "rollout", "rollouts-demo", "--timeout=600s")
	for epoch := int64(3); epoch <= 5; epoch++ {
		w.AwaitObject(t, h.ns, "rollouthistory", api.HistoryName("rollouts-demo", epoch), "to go with the Rollout", func(u *unstructured.Unstructured) bool { return u == nil })
	}
}

func (d *demo) abort(t *testing.T, why string) {
	t.Helper()
	r := d.await(t, func(*api.Rollout) bool { return true })
	user := strings.TrimSpace(d.w.Do(t, "auth", "whoami", "-o", "jsonpath={.status.userInfo.username}"))
	if err := d.status(t, fmt.Sprintf(`{"status":{"command":{"action":"Abort","epoch":%d,"actor":%q,"comment":%q}}}`, r.Status.Sluice.Epoch, user, why)); err != nil {
		t.Fatal(err)
	}
}

// wantList checks the output of kubectl.
func (h *historian) wantList(t *testing.T) {
	t.Helper()
	var got [][]string
	for line := range strings.Lines(h.w.Do(t, "-n", h.ns, "get", "rollouthistories")) {
		fields := strings.Fields(line)
		if len(fields) == 6 && fields[0] != "NAME" {
			fields[3], fields[5] = "RELEASE", "AGE" // they differ each time
		}
		got = append(got, fields)
	}
	want := [][]string{
		{"NAME", "ROLLOUT", "EPOCH", "RELEASE", "OUTCOME", "AGE"},
		{"rollouts-demo-3", "rollouts-demo", "3", "RELEASE", "Aborted", "AGE"},
		{"rollouts-demo-4", "rollouts-demo", "4", "RELEASE", "Superseded", "AGE"},
		{"rollouts-demo-5", "rollouts-demo", "5", "RELEASE", "Completed", "AGE"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("kubectl get rollouthistories (-want +got):\n%s", diff)
	}
}

// wantOnce checks in the audit log that each release was recorded once.
func (h *historian) wantOnce(t *testing.T, releases int) {
	t.Helper()
	want := map[string]int{}
	for epoch := range releases {
		want[api.HistoryName("rollouthistories/rollouts-demo", int64(epoch+1))] = 1
	}
	got := creates(t, h.demo)
	for name := range got {
		if !strings.HasPrefix(name, "rollouthistories/") {
			delete(got, name)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("how often each record was made (-want +got):\n%s", diff)
	}
}

// An executor dies after each commit of a status, and after each write of the record itself. In the end, the record has
// every step and its approver.
func TestACrashLosesNoRecord(t *testing.T) {
	t.Parallel()
	w := bareWorld(t)
	c := startCrashing(t, w)
	plans := []plannedCrash{{"POST rollouthistories", 1}, {"PATCH rollouthistories/rollouts-demo-1", 1}}
	for n := 2; n <= 10; n += 2 {
		plans = append(plans, plannedCrash{"PUT rollouts/rollouts-demo/status", n})
	}
	for _, plan := range plans {
		t.Run(fmt.Sprintf("%s %d", plan.kind, plan.times), func(t *testing.T) {
			t.Parallel()
			ns := w.Namespace(t)
			c.crashAfter(ns, plan.kind, plan.times)
			d := aDemoIn(t, w, ns)
			d.release(t, version("canary"))
			d.finish(t, 1)
			var r api.RolloutHistory
			d.w.AwaitObject(t, d.ns, "rollouthistory", "rollouts-demo-1", "to be complete", func(u *unstructured.Unstructured) bool {
				r = api.RolloutHistory{}
				return u != nil && runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &r) == nil && r.Status.Outcome == api.OutcomeCompleted
			})
			if diff := cmp.Diff([]string{"1 tester", "2 tester", "3 tester"}, stays(r.Status)); diff != "" {
				t.Errorf("the steps, of which it says %q (-want +got):\n%s", r.Status.Message, diff)
			}
			if made := creates(t, d)["rollouthistories/rollouts-demo-1"]; made != 1 {
				t.Errorf("the record was made %d times", made)
			}
		})
	}
}

// No release waits for a record that cannot be written. The executor reports the missing permission, and writes the
// record when it has the permission.
func TestAReleaseThatCannotBeRecordedGoesOn(t *testing.T) {
	t.Parallel()
	w := bareWorld(t)
	w.Do(t, "patch", "clusterrole", api.DefaultExecutor, "--type=json", "-p", withoutHistory(t, w))
	w.Begin(t, w.Executor)
	w.Do(t, "create", "namespace", "unrecorded")
	w.Judge(t, "unrecorded", world.Overexposed) // an executor whose request is refused breaks another law
	d := aDemoIn(t, w, "unrecorded")
	for epoch, missing := range []struct{ what, said string }{
		{"deploy/rbac/executor.yaml", `resources: [\"rollouthistories\"]`},
		{"deploy/crds/rollouts.kruise.io_rollouthistories.yaml", "This cluster does not serve RolloutHistory"},
	} {
		d.release(t, version(missing.what))
		d.finish(t, 1)
		awaitNote(t, d, "HistoryNotWritten", missing.said)
		begun := time.Now()
		w.Do(t, "apply", "--server-side", "--force-conflicts", "-f", filepath.Join(world.Root(), missing.what))
		awaitServed(t, w, "rollouthistories")
		d.recorded(t, int64(epoch+1), api.OutcomeCompleted)
		t.Logf("it was recorded %s after it could be", time.Since(begun).Round(time.Second))
		w.Do(t, "delete", "crd", "rollouthistories.rollouts.kruise.io", "--ignore-not-found")
	}
}

// awaitServed waits until the API server serves a resource that was just defined, for which there is no event.
func awaitServed(t *testing.T, w *world.World, resource string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	for {
		_, err := w.Kubectl(ctx, "get", resource, "--all-namespaces")
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%s are not served: %v", resource, err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// withoutHistory returns the patch that removes the rule about records from the executor's role.
func withoutHistory(t *testing.T, w *world.World) string {
	t.Helper()
	for i, rule := range strings.Split(w.Do(t, "get", "clusterrole", api.DefaultExecutor, "-o", `jsonpath={range .rules[*]}{.resources}{"\n"}{end}`), "\n") {
		if strings.Contains(rule, "rollouthistories") {
			return fmt.Sprintf(`[{"op":"remove","path":"/rules/%d"}]`, i)
		}
	}
	t.Fatal("the role has no rule about records")
	return ""
}

// A release without traffic routing is recorded as any other, without traffic.
func TestAReleaseWithoutTrafficIsRecorded(t *testing.T) {
	for name, style := range map[string]func(string) string{
		"canary style":    func(text string) string { return text },
		"partition style": inPlace,
		"blue-green": func(text string) string {
			return swap(t, text, "canary:\n", "blueGreen:\n", "      enableExtraWorkloadForCanary: true\n", "")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := aDemo(t, world.Shared(t), unrouted(style(withSteps(t, "{replicas: 1, pause: {duration: 0}}", "{replicas: 100%, pause: {duration: 0}}"))))
			d.release(t, version("new"))
			r := d.recorded(t, 1, api.OutcomeCompleted)
			if s := r.Spec; s.Service.Name != "" || len(s.TrafficRouting.CustomNetworkRefs) > 0 || s.TrafficRouting.Ingress != nil || s.TrafficRouting.HTTPRoute != nil {
				t.Errorf("it records the Service %+v and the routing %+v", s.Service, s.TrafficRouting)
			}
			if !strings.Contains(string(r.Spec.Workload.Data.Raw), `"new"`) || len(r.Status.Steps) != 2 {
				t.Errorf("it records the workload %s and the steps %+v", r.Spec.Workload.Data.Raw, r.Status.Steps)
			}
		})
	}
}
