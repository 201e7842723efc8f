package scenario

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
	"sluice.dev/sluice/test/controlplane"
	"sluice.dev/sluice/test/world"
)

// reachable returns Rollouts of each style with two steps.
func reachable() map[string]func(*testing.T) string {
	return map[string]func(*testing.T) string{
		"canary style": func(t *testing.T) string {
			return withSteps(t, "{replicas: 1, traffic: 20%}", "{replicas: 2, traffic: 50%}")
		},
		"partition style": func(t *testing.T) string {
			return inPlace(withSteps(t, "{replicas: 1, traffic: 20%}", "{replicas: 2, traffic: 50%}"))
		},
		"blue-green": func(t *testing.T) string {
			return blueGreen(t, "{replicas: 1, traffic: 20%}", "{replicas: 2, traffic: 50%}")
		},
	}
}

func (d *demo) selects(t *testing.T, tier string) {
	t.Helper()
	d.changed = time.Now()
	if err := d.w.Patch(t, d.ns, "service", "service-demo", `{"spec":{"selector":{"tier":`+tier+`}}}`); err != nil {
		t.Fatal(err)
	}
}

// heldFor waits until a release is stalled in a state, and checks the message.
func (d *demo) heldFor(t *testing.T, reason api.Reason, state string, says ...string) {
	t.Helper()
	r := d.await(t, func(r *api.Rollout) bool {
		return world.HeldFor(reason)(r) && r.Status.Sluice.State == state
	})
	t.Logf("held in %s, %d ms after the change of the Service", state, time.Since(d.changed).Milliseconds())
	for _, part := range says {
		if !strings.Contains(r.Status.Message, part) {
			t.Errorf("the message is %q, and does not say %q", r.Status.Message, part)
		}
	}
}

// One upgrade of a chart gives the Service a label of the new pods, which the stable ones do not have. The release
// stalls before its first pod. Then a user does the same during a release: no step goes on after any approval until the
// Service reaches stable pods again.
func TestAStableServiceThatReachesNobodyHoldsTheRelease(t *testing.T) {
	t.Parallel()
	for style, manifest := range reachable() {
		t.Run(style, func(t *testing.T) {
			t.Parallel()
			d := aDemo(t, world.Shared(t), manifest(t))
			d.selects(t, `"front"`)
			d.release(t, version("canary"))
			const why = "Service service-demo reaches no ready pod of the stable version, because its selector app=nginx,tier=front does not match them"
			d.heldFor(t, rollout.ReasonStableUnreachable, string(rollout.StateInitializing), why, "spec.strategy.allowUnreachableStable: true")
			if made := creates(t, d); made["deployments/workload-demo-canary"]+made["services/service-demo-canary"] > 0 {
				t.Errorf("before that the release made %v", made)
			}
			d.selects(t, "null")
			d.await(t, world.PausedAt(1))
			d.selects(t, `"front"`)
			d.heldFor(t, rollout.ReasonStableUnreachable, string(rollout.StatePaused), why)
			d.approveIn(t, style)
			d.heldFor(t, rollout.ReasonStableUnreachable, string(rollout.StateReady), why)
			d.selects(t, "null")
			d.await(t, world.PausedAt(2))
			d.selects(t, `"front"`)
			d.heldFor(t, rollout.ReasonStableUnreachable, string(rollout.StatePaused), why)
			if err := d.w.Patch(t, d.ns, "rollout", "rollouts-demo", `{"spec":{"strategy":{"allowUnreachableStable":true}}}`); err != nil {
				t.Fatal(err)
			}
			d.await(t, func(r *api.Rollout) bool {
				return world.PausedAt(2)(r) && world.Condition(r, api.ConditionStalled) == nil
			})
		})
	}
}

// An abort removes the traffic from the new version even if the stable Service reaches no pod. The status does not then
// report that all is well.
func TestAnAbortSaysWhenTheStableServiceReachesNobody(t *testing.T) {
	t.Parallel()
	d := aDemo(t, world.Shared(t), withSteps(t, "{replicas: 1, traffic: 20%}"))
	d.release(t, version("canary"))
	d.await(t, world.PausedAt(1))
	d.selects(t, `"front"`)
	d.heldFor(t, rollout.ReasonStableUnreachable, string(rollout.StatePaused))
	d.abort(t, "no good")
	says := func(traffic string) {
		t.Helper()
		d.await(t, func(r *api.Rollout) bool {
			c := world.Condition(r, api.ConditionProgressing)
			return c != nil && c.Reason == api.ReasonAborted && strings.Contains(c.Message, traffic)
		})
	}
	says("Requests go to the stable version, and its Service reaches no ready pod.")
	d.heldFor(t, rollout.ReasonStableUnreachable, string(rollout.StateAborted))
	d.selects(t, "null")
	says("All traffic is on the stable version.")
}

// A Service that also selects pods of another workload would lose them. Its owner may accept that.
func TestPodsOfOthersKeepTheServiceThatTheyShare(t *testing.T) {
	t.Parallel()
	d := aDemo(t, world.Shared(t), withSteps(t, "{replicas: 1, traffic: 20%}"))
	d.w.Apply(t, d.ns, "apiVersion: v1\nkind: Pod\nmetadata: {name: batch, labels: {app: nginx}}\nspec: {containers: [{name: batch, image: batch}]}")
	d.w.Do(t, "-n", d.ns, "wait", "pod/batch", "--for=condition=Ready", "--timeout=600s")
	d.release(t, version("canary"))
	d.heldFor(t, rollout.ReasonEndpointsDropped, string(rollout.StateInitializing), "Service service-demo selects pods of other workloads as well", ": batch;", "spec.strategy.allowDroppedEndpoints: true")
	if err := d.w.Patch(t, d.ns, "rollout", "rollouts-demo", `{"spec":{"strategy":{"allowDroppedEndpoints":true}}}`); err != nil {
		t.Fatal(err)
	}
	d.await(t, world.PausedAt(1))
}

// Stable pods that are unready by themselves do not stop a release, because its version may fix them. The status
// reports them. If the owner rolls that version back, its pods keep their requests until a stable pod is ready.
func TestAVersionThatMendsTheStableOneIsReleased(t *testing.T) {
	t.Parallel()
	d := aDemo(t, world.Shared(t), withSteps(t, "{replicas: 1, traffic: 20%}"))
	pods := strings.Fields(d.w.Do(t, "-n", d.ns, "get", "pods", "-o", "name"))
	for _, pod := range pods {
		d.w.Do(t, "-n", d.ns, "annotate", pod, controlplane.NeverReady+"=true")
	}
	d.w.AwaitObject(t, d.ns, "deployment", "workload-demo", "to have no ready pod", func(u *unstructured.Unstructured) bool {
		ready, _, _ := unstructured.NestedInt64(u.Object, "status", "readyReplicas")
		return ready == 0
	})
	d.release(t, version("canary"))
	d.await(t, func(r *api.Rollout) bool {
		return world.PausedAt(1)(r) && strings.HasSuffix(r.Status.Message, "; no pod of the stable version is ready") && world.Condition(r, api.ConditionStalled) == nil
	})
	d.release(t, version("base"))
	d.await(t, func(r *api.Rollout) bool {
		return r.Status.Sluice.State == string(rollout.StateFinalising) && strings.HasPrefix(r.Status.Message, "waiting for a ready pod of the stable version")
	})
	if route := d.w.Get(t, d.ns, "virtualservice", "vs-demo"); !strings.Contains(fmt.Sprint(route.Object["spec"]), "service-demo-canary") {
		t.Errorf("the new version has lost its requests: %v", route.Object["spec"])
	}
	for _, pod := range pods {
		d.w.Do(t, "-n", d.ns, "annotate", pod, controlplane.NeverReady+"-")
	}
	d.await(t, func(r *api.Rollout) bool { return r.Status.Sluice.State == string(rollout.StateIdle) })
	d.wantRestored(t)
}
