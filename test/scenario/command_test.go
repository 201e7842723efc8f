package scenario

import (
	"encoding/json"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/test/controlplane"
	"sluice.dev/sluice/test/world"
)

// Users approve without reading the status first. Many approvals at once, and one more after the first was accepted,
// take the release one step further and no more. A quota delays the pause of step 2 until all are done.
func TestManyApprovalsOfOnePauseTakeOneStep(t *testing.T) {
	t.Parallel()
	d := aDemo(t, world.Shared(t))
	d.release(t, version("canary"))
	d.at(t, 1)
	d.w.Do(t, "-n", d.ns, "create", "quota", "full", "--hard=pods=4")
	var sending sync.WaitGroup
	for range 20 {
		// The API server may refuse a sender after the first approval was accepted, which is correct too.
		sending.Go(func() { _ = d.status(t, approval) })
	}
	sending.Wait()
	d.await(t, func(r *api.Rollout) bool {
		return r.Status.CurrentStepIndex == 2 && r.Status.CurrentStepState == api.StepUpgrade
	})
	if err := d.status(t, approval); err == nil {
		t.Error("an approval is taken although the step is not paused")
	}
	d.w.Do(t, "-n", d.ns, "delete", "quota", "full")
	wantApprovals(t, d.await(t, world.PausedAt(2)), 1)
	wantApprovals(t, d.finish(t, 2), 1, 2, 3)
	d.wantRestored(t)
}

// wantApprovals checks that the status records approvals of the steps, with their senders.
func wantApprovals(t *testing.T, r *api.Rollout, steps ...int32) {
	t.Helper()
	var got []int32
	for _, a := range r.Status.Approvals {
		got = append(got, a.Step)
		if a.Actor != "tester" || a.Decision != api.DecisionApprove || a.Epoch != r.Status.Sluice.Epoch || a.Time.IsZero() {
			t.Errorf("approval %+v does not tell who decided what for which release, and when", a)
		}
	}
	if diff := cmp.Diff(steps, got); diff != "" {
		t.Errorf("steps approved (-want +got):\n%s", diff)
	}
}

func TestAnApprovalAtTheWrongTimeIsRefusedAndTold(t *testing.T) {
	t.Parallel()
	d := aDemo(t, world.Shared(t))
	refused := func(when, state string) {
		t.Helper()
		err := d.status(t, approval)
		if err == nil || !strings.Contains(err.Error(), "approve only while status.canaryStatus.currentStepState is StepPaused") ||
			!strings.Contains(err.Error(), state) {
			t.Errorf("an approval %s is answered with %v", when, err)
		}
	}
	refused("before any release", "it is Completed now")
	d.release(t, version("canary", controlplane.NeverReady, "true"))
	d.await(t, upgrading)
	refused("while the pods are not ready", "it is StepUpgrade now")
	d.release(t, version("next", controlplane.NeverReady, "false"))
	r := d.finish(t, 1)
	refused("after the release", "it is Completed now")
	wantApprovals(t, r, 1, 2, 3)
}

// A program that writes back an old status must neither skip a step nor undo a completed one.
func TestAStaleStatusWrittenBackMovesNothing(t *testing.T) {
	t.Parallel()
	d := aDemo(t, world.Shared(t))
	d.release(t, version("canary"))
	d.at(t, 1)
	stale := d.w.Get(t, d.ns, "rollout", "rollouts-demo")
	d.approve(t)
	d.await(t, world.PausedAt(2))

	if _, err := d.w.Client(t, d.ns, "rollout").UpdateStatus(t.Context(), stale, metav1.UpdateOptions{}); err == nil {
		t.Error("a status with an old resourceVersion was taken")
	}
	canary, _, _ := unstructured.NestedMap(stale.Object, "status", "canaryStatus")
	for _, state := range []string{"StepPaused", "StepReady"} {
		canary["currentStepState"] = state
		body, err := json.Marshal(map[string]any{"status": map[string]any{"canaryStatus": canary}})
		if err != nil {
			t.Fatal(err)
		}
		if err := d.status(t, string(body)); err != nil {
			t.Fatal(err)
		}
		r := d.await(t, func(r *api.Rollout) bool {
			return world.PausedAt(2)(r) && r.Status.CanaryStatus.CurrentStepIndex == 2 && r.Status.CanaryStatus.NextStepIndex == 3
		})
		wantApprovals(t, r, 1)
	}
	wantApprovals(t, d.finish(t, 2), 1, 2, 3)
}

// As in OpenKruise, a jump back returns traffic but no pods. Then the release goes through the steps again.
func TestAJumpBackKeepsThePods(t *testing.T) {
	for name, style := range map[string]func(*testing.T, ...string) string{
		"canary style":    withSteps,
		"partition style": func(t *testing.T, steps ...string) string { return inPlace(withSteps(t, steps...)) },
		"blue-green":      blueGreen,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := aDemo(t, world.Shared(t), style(t, "{replicas: 1, traffic: 10%}", "{replicas: 2, traffic: 50%}", "{replicas: 2, traffic: 80%}"))
			d.release(t, version("new"))
			field := "canaryStatus"
			if name == "blue-green" {
				field = "blueGreenStatus"
			}
			status := func(body string) {
				t.Helper()
				if err := d.status(t, `{"status":{"`+field+`":`+body+`}}`); err != nil {
					t.Fatal(err)
				}
			}
			d.await(t, world.PausedAt(1))
			status(`{"currentStepState":"StepReady"}`)
			d.await(t, world.PausedAt(2))
			before := d.sets(t)
			if before["new"] != 2 {
				t.Fatalf("step 2 runs %v", before)
			}

			status(`{"nextStepIndex":1}`)
			d.await(t, world.PausedAt(1))
			wantSpec(t, d.w, d.ns, "virtualservice", "vs-demo", weightRoute(10))
			if diff := cmp.Diff(before, d.sets(t)); diff != "" {
				t.Errorf("pods by version (-before the jump back +after):\n%s", diff)
			}
			status(`{"currentStepState":"StepReady"}`)
			d.await(t, world.PausedAt(2))
			wantSpec(t, d.w, d.ns, "virtualservice", "vs-demo", weightRoute(50))
			if diff := cmp.Diff(before, d.sets(t)); diff != "" {
				t.Errorf("pods by version (-before the jump back +at step 2 again):\n%s", diff)
			}
		})
	}
}

func TestNextStepIndexJumpsForwardAndBack(t *testing.T) {
	t.Parallel()
	d := aDemo(t, world.Shared(t))
	d.release(t, version("canary"))
	d.at(t, 1)
	jump := func(index, want string, step, replicas int32) {
		t.Helper()
		if err := d.status(t, `{"status":{"canaryStatus":{"nextStepIndex":`+index+`}}}`); err != nil {
			t.Fatal(err)
		}
		r := d.await(t, world.PausedAt(step))
		if got := r.Status.CanaryStatus.CanaryReplicas; got != replicas {
			t.Errorf("after a jump to step %s there are %d canary pods, not %d", index, got, replicas)
		}
		wantSpec(t, d.w, d.ns, "virtualservice", "vs-demo", want)
	}
	jump("3", weightRoute(80), 3, 3)
	jump("1", headerRoute, 1, 3)
	for _, invalid := range []string{"9", "0", "-7"} {
		if err := d.status(t, `{"status":{"canaryStatus":{"nextStepIndex":`+invalid+`}}}`); err != nil {
			continue // refused at once
		}
		d.await(t, func(r *api.Rollout) bool { return world.PausedAt(1)(r) && r.Status.CanaryStatus.NextStepIndex == 2 })
	}
	awaitNote(t, d, "StatusEditReverted", "nextStepIndex 9 was taken back")
	r := d.finish(t, 1)
	wantApprovals(t, r, 1, 2, 3)
	d.wantRestored(t)
}

// awaitNote waits for a Kubernetes Event on the Rollout.
func awaitNote(t *testing.T, d *demo, reason, text string) {
	t.Helper()
	client, err := kubernetes.NewForConfig(d.w.Config)
	if err != nil {
		t.Fatal(err)
	}
	ctx := world.Patient(t)
	events, err := controlplane.Watch(ctx, client.EventsV1().Events(d.ns), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer events.Stop()
	for {
		select {
		case <-ctx.Done():
			t.Fatalf("no Event %s says %q", reason, text)
		case e := <-events.ResultChan():
			u, err := json.Marshal(e.Object)
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(string(u), `"`+reason+`"`) && strings.Contains(string(u), text) {
				return
			}
		}
	}
}

func TestADisabledRolloutLetsGoAndHoldsAgainWhenEnabled(t *testing.T) {
	t.Parallel()
	d := aDemo(t, world.Shared(t))
	d.release(t, version("canary"))
	d.at(t, 2)
	disable := func(value string) {
		t.Helper()
		if err := d.w.Patch(t, d.ns, "rollout", "rollouts-demo", `{"spec":{"disabled":`+value+`}}`); err != nil {
			t.Fatal(err)
		}
	}
	disable("true")
	d.await(t, func(r *api.Rollout) bool { return r.Status.Phase == api.PhaseDisabled })
	d.w.Available(t, d.ns, "workload-demo")
	d.w.AwaitObject(t, d.ns, "deployment", "workload-demo", "no marks", func(u *unstructured.Unstructured) bool {
		return len(marksOf(u.GetAnnotations()))+len(marksOf(u.GetLabels())) == 0
	})
	d.wantForgotten(t)
	d.release(t, version("while disabled"))
	d.w.Available(t, d.ns, "workload-demo")

	disable("false")
	d.await(t, world.Healthy)
	awaitAdopted(t, d.w, d.ns, "workload-demo", "rollouts-demo")
	d.release(t, version("held again"))
	d.finish(t, 1)
	d.wantRestored(t)
}
