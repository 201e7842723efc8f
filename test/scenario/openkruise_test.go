package scenario

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
	"sluice.dev/sluice/test/controlplane"
	"sluice.dev/sluice/test/world"
)

// Clients of OpenKruise read the hash of the plan, revisions, and the batches of pods. The revisions are those of ReplicaSets, and the pods of the canary
// have the hash that the pods of the workload have after the release.
func TestClientsOfOpenKruiseFollowARelease(t *testing.T) {
	t.Parallel()
	for name, style := range map[string]func(string) string{"canary style": func(r string) string { return r }, "partition style": inPlace} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := aDemo(t, world.Shared(t), style(withSteps(t, "{replicas: 1, traffic: 10%}", "{replicas: 2, traffic: 20%}", "{replicas: 3, traffic: 30%}", "{replicas: 100%}")))
			if err := d.w.Patch(t, d.ns, "deployment", "workload-demo", `{"spec":{"replicas":6}}`); err != nil {
				t.Fatal(err)
			}
			d.w.Available(t, d.ns, "workload-demo")
			stable := d.hashes(t, "workload-demo")["base"]
			r := d.await(t, func(r *api.Rollout) bool { return world.Healthy(r) && r.Status.CanaryStatus.CanaryRevision == stable })
			wantPlanHash(t, r)

			d.release(t, version("new"))
			r = d.await(t, world.PausedAt(1))
			wantPlanHash(t, r)
			runs := "workload-demo"
			if name == "canary style" {
				runs += "-canary"
			}
			hash := d.hashes(t, runs)["new"]
			if c := r.Status.CanaryStatus; c.StableRevision != stable || c.CanaryRevision != hash || c.PodTemplateHash != hash {
				t.Errorf("the revisions are %s, %s and %s, want %s and twice %s", c.StableRevision, c.CanaryRevision, c.PodTemplateHash, stable, hash)
			}
			d.wantBatches(t, r, "new", "1")
			if err := d.status(t, `{"status":{"canaryStatus":{"nextStepIndex":3}}}`); err != nil {
				t.Fatal(err)
			}
			d.wantBatches(t, d.await(t, world.PausedAt(3)), "new", "1 2 3")

			if err := d.w.Patch(t, d.ns, "rollout", "rollouts-demo", `{"spec":{"strategy":{"canary":{"steps":[`+
				`{"replicas":2,"traffic":"10%"},{"replicas":4,"traffic":"20%"},{"replicas":4,"traffic":"30%"},{"replicas":"100%"}]}}}}`); err != nil {
				t.Fatal(err)
			}
			r = d.await(t, func(r *api.Rollout) bool { return world.PausedAt(3)(r) && r.Status.CanaryStatus.CanaryReplicas == 4 })
			wantPlanHash(t, r)
			d.wantBatches(t, r, "new", "1 1 2 3")

			d.approve(t)
			d.await(t, world.Healthy)
			d.w.Available(t, d.ns, "workload-demo")
			if after := d.hashes(t, "workload-demo")["new"]; after != hash {
				t.Errorf("the hash of the new version was %s during the release, and is %s", hash, after)
			}
			r = d.await(t, world.Healthy)
			if got := r.Status.CanaryStatus.CanaryRevision; got != hash {
				t.Errorf("after the release the revision is %s, want %s", got, hash)
			}
		})
	}
}

func wantPlanHash(t *testing.T, r *api.Rollout) {
	t.Helper()
	if noted := r.Annotations["rollouts.kruise.io/hash"]; noted == "" || noted != r.Status.CanaryStatus.RolloutHash {
		t.Errorf("the annotation has the hash %q, the status %q", noted, r.Status.CanaryStatus.RolloutHash)
	}
}

// hashes returns the pod-template-hash of each version of a Deployment, by the value of its variable.
func (d *demo) hashes(t *testing.T, deployment string) map[string]string {
	t.Helper()
	got := map[string]string{}
	for _, line := range strings.Fields(d.w.Do(t, "-n", d.ns, "get", "replicasets", "-o",
		`jsonpath={range .items[*]}{.metadata.ownerReferences[0].name}/{.spec.template.spec.containers[0].env[0].value}/{.metadata.labels.pod-template-hash}{"\n"}{end}`)) {
		if parts := strings.Split(line, "/"); len(parts) == 3 && parts[0] == deployment {
			got[parts[1]] = parts[2]
		}
	}
	return got
}

// A second Rollout of a workload is held before there is a workload, while the first one is idle, and after the first one is disabled. It adopts the
// workload when the first one is gone.
func TestASecondRolloutOfAWorkloadTouchesNothing(t *testing.T) {
	t.Parallel()
	w := world.Shared(t)
	ns := w.Namespace(t)
	first := shortGrace(t)
	w.Apply(t, ns, first)
	w.Await(t, ns, "rollouts-demo", func(r *api.Rollout) bool { return r.Status.Phase == api.PhaseInitial })
	w.ApplyRival(t, ns, strings.Replace(first, "name: rollouts-demo", "name: the-second", 1), "workload-demo")
	held := func(r *api.Rollout) bool {
		return world.HeldFor(rollout.ReasonWorkloadConflict)(r) && r.Status.Phase == api.PhaseInitial &&
			strings.Contains(r.Status.Message, "This rollout conflict with Rollout(rollouts-demo), one workload only have less than one Rollout")
	}
	w.Await(t, ns, "the-second", held)

	w.Apply(t, ns, world.Seed(t, "istio-walkthrough/workload.yaml")+"\n---\n"+world.Seed(t, "istio-walkthrough/virtualservice.yaml"))
	w.Available(t, ns, "workload-demo")
	w.Await(t, ns, "rollouts-demo", world.Healthy)
	awaitAdopted(t, w, ns, "workload-demo", "rollouts-demo")
	w.Await(t, ns, "the-second", held)

	if err := w.Patch(t, ns, "rollout", "rollouts-demo", `{"spec":{"disabled":true}}`); err != nil {
		t.Fatal(err)
	}
	w.Await(t, ns, "rollouts-demo", func(r *api.Rollout) bool { return r.Status.Phase == api.PhaseDisabled })
	d := &demo{w: w, ns: ns}
	d.release(t, version("unmanaged"))
	w.Do(t, "-n", ns, "rollout", "status", "deployment/workload-demo", "--timeout=600s")
	w.Await(t, ns, "the-second", held)
	w.AwaitObject(t, ns, "deployment", "workload-demo", "to be free of marks", func(u *unstructured.Unstructured) bool {
		return u != nil && len(marksOf(u.GetAnnotations())) == 0
	})
	w.Await(t, ns, "the-second", held)

	w.Do(t, "-n", ns, "delete", "rollout", "rollouts-demo")
	w.Await(t, ns, "the-second", world.Healthy)
	awaitAdopted(t, w, ns, "workload-demo", "the-second")
}

// A Rollout in the form of v1alpha1 may get another number of steps during a release. The release goes on at the step that its pods belong to.
func TestTheNumberOfStepsOfALegacyRolloutMayChange(t *testing.T) {
	t.Parallel()
	legacy := func(steps string) string {
		return `
apiVersion: rollouts.kruise.io/v1alpha1
kind: Rollout
metadata: {name: rollouts-demo, annotations: {rollouts.kruise.io/rolling-style: canary}}
spec:
  objectRef: {workloadRef: {apiVersion: apps/v1, kind: Deployment, name: workload-demo}}
  strategy:
    canary:
      steps: [` + steps + `]
      trafficRoutings:
      - {service: service-demo, gracePeriodSeconds: 1, customNetworkRefs: [{apiVersion: networking.istio.io/v1alpha3, kind: VirtualService, name: vs-demo}]}`
	}
	for name, c := range map[string]struct {
		steps  string
		at     int32
		pods   int32
		reason string
	}{
		"fewer steps":              {"{weight: 10, replicas: 1}, {weight: 30, replicas: 3}, {weight: 100}", 2, 3, "no longer to step 1"},
		"more steps before it":     {"{weight: 5, replicas: 1}, {weight: 10, replicas: 1}, {weight: 20, replicas: 2}, {weight: 40}, {weight: 60}, {weight: 80}, {weight: 100}", 3, 2, "no longer to step 1"},
		"more steps after it":      {"{weight: 20, replicas: 2}, {weight: 30}, {weight: 40}, {weight: 50}, {weight: 60}, {weight: 100}", 1, 2, "the steps of the Rollout were changed"},
		"only a step that is less": {"{weight: 10, replicas: 1}, {weight: 100}", 1, 2, "the steps of the Rollout were changed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := aDemo(t, world.Shared(t), legacy("{weight: 20, replicas: 2}, {weight: 40}, {weight: 60}, {weight: 80}, {weight: 100}"))
			d.release(t, version("new"))
			before := d.await(t, world.PausedAt(1)).Status.Sluice.PauseSeq
			d.w.Apply(t, d.ns, legacy(c.steps))
			r := d.await(t, func(r *api.Rollout) bool { return world.PausedAt(c.at)(r) && r.Status.Sluice.PauseSeq > before })
			if r.Status.CanaryStatus.CanaryReplicas != c.pods {
				t.Errorf("the new version has %d pods, want %d", r.Status.CanaryStatus.CanaryReplicas, c.pods)
			}
			if !slices.ContainsFunc(r.Status.Sluice.Transitions, func(tr api.Transition) bool {
				return tr.Reason == "PlanChanged" && strings.Contains(tr.Message, c.reason)
			}) {
				t.Errorf("the transitions do not say %q: %+v", c.reason, r.Status.Sluice.Transitions)
			}
		})
	}
}

// kruiseCommand is a command of kubectl-kruise, by what it checks and what it writes. The check is of the client, and names the error.
type kruiseCommand struct {
	check func(r *api.Rollout, workload *unstructured.Unstructured) string
	write func(t *testing.T, d *demo) error
}

func kruiseCommands(t *testing.T, stable *unstructured.Unstructured) map[string]kruiseCommand {
	t.Helper()
	always := func(*api.Rollout, *unstructured.Unstructured) string { return "" }
	return map[string]kruiseCommand{
		"approve": {func(r *api.Rollout, _ *unstructured.Unstructured) string {
			switch c := r.Status.CanaryStatus; {
			case c == nil:
				return "no need to approve: not in canary or blue-green progress"
			case c.CurrentStepState != api.StepPaused:
				return "does not allow to approve, because current canary state is not 'StepPaused'"
			}
			return ""
		}, func(t *testing.T, d *demo) error { return d.status(t, approval) }},
		"pause": {func(r *api.Rollout, _ *unstructured.Unstructured) string {
			if r.Spec.Strategy.Paused {
				return "is already paused"
			}
			return ""
		}, func(t *testing.T, d *demo) error {
			return d.w.Patch(t, d.ns, "rollout", "rollouts-demo", `{"spec":{"strategy":{"paused":true}}}`)
		}},
		"resume": {always, func(t *testing.T, d *demo) error {
			return d.w.Patch(t, d.ns, "rollout", "rollouts-demo", `{"spec":{"strategy":{"paused":null}}}`)
		}},
		"undo --fast": {always, func(t *testing.T, d *demo) error {
			return d.status(t, `{"status":{"canaryStatus":{"nextStepIndex":1}}}`)
		}},
		"restart": {func(_ *api.Rollout, workload *unstructured.Unstructured) string {
			if paused, _, _ := unstructured.NestedBool(workload.Object, "spec", "paused"); paused {
				return "can't restart paused deployment (run rollout resume first)"
			}
			return ""
		}, func(t *testing.T, d *demo) error {
			return d.w.Patch(t, d.ns, "deployment", "workload-demo", `{"spec":{"template":{"metadata":{"annotations":{"kubectl.kubernetes.io/restartedAt":"now"}}}}}`)
		}},
		"undo": {always, func(t *testing.T, d *demo) error { kruiseUndo(t, d, stable); return nil }},
	}
}

// Each command of kubectl-kruise has an effect, is refused with a sentence, or is taken back with an Event, in each state of a Rollout.
func TestTheCommandsOfOpenKruiseInEachState(t *testing.T) {
	t.Parallel()
	const (
		clientRefuses  = "does not allow to approve, because current canary state is not 'StepPaused'"
		restartRefused = "can't restart paused deployment"
	)
	is := func(state api.StepState, step int32) world.Goal {
		return func(r *api.Rollout) bool {
			return r.Status.CurrentStepState == state && r.Status.CurrentStepIndex == step
		}
	}
	progressing := func(reason api.Reason) world.Goal {
		return func(r *api.Rollout) bool {
			c := world.Condition(r, api.ConditionProgressing)
			return c != nil && c.Reason == reason
		}
	}
	anything := func(*api.Rollout) bool { return true }
	type effect struct {
		refused string // what the client or the API server says
		event   string // what an Event says
		becomes world.Goal
	}
	for name, c := range map[string]struct {
		reach   func(t *testing.T, d *demo)
		effects map[string]effect
	}{
		"Healthy": {func(*testing.T, *demo) {}, map[string]effect{
			"approve": {refused: clientRefuses}, "pause": {becomes: world.Healthy}, "resume": {becomes: world.Healthy}, "undo --fast": {becomes: world.Healthy},
			"undo": {becomes: world.Healthy}, "restart": {becomes: is(api.StepPaused, 1)},
		}},
		"StepUpgrade": {func(t *testing.T, d *demo) {
			d.release(t, version("sick", controlplane.NeverReady, "true"))
			d.await(t, upgrading)
		}, map[string]effect{
			"approve": {refused: clientRefuses}, "pause": {becomes: progressing(api.ReasonPaused)}, "resume": {becomes: upgrading}, "undo --fast": {becomes: upgrading},
			"restart": {refused: restartRefused}, "undo": {becomes: world.Healthy},
		}},
		"StepPaused": {func(t *testing.T, d *demo) { d.release(t, version("new")); d.at(t, 2) }, map[string]effect{
			"approve": {becomes: is(api.StepPaused, 3)}, "pause": {becomes: progressing(api.ReasonPaused)}, "resume": {becomes: is(api.StepPaused, 2)},
			"undo --fast": {becomes: is(api.StepPaused, 1)}, "restart": {refused: restartRefused}, "undo": {becomes: world.Healthy},
		}},
		"Paused": {func(t *testing.T, d *demo) {
			d.release(t, version("new"))
			d.at(t, 2)
			if err := d.w.Patch(t, d.ns, "rollout", "rollouts-demo", `{"spec":{"strategy":{"paused":true}}}`); err != nil {
				t.Fatal(err)
			}
			d.await(t, progressing(api.ReasonPaused))
		}, map[string]effect{
			"approve": {becomes: is(api.StepReady, 2)}, "pause": {refused: "is already paused"}, "resume": {becomes: progressing(api.ReasonInRolling)},
			"undo --fast": {becomes: anything}, "restart": {refused: restartRefused}, "undo": {becomes: world.Healthy},
		}},
		"Aborted": {func(t *testing.T, d *demo) {
			d.release(t, version("new"))
			d.at(t, 2)
			if err := d.status(t, `{"status":{"command":{"action":"Abort","actor":"admin","epoch":1}}}`); err != nil {
				t.Fatal(err)
			}
			d.await(t, progressing(api.ReasonAborted))
		}, map[string]effect{
			"approve": {event: "currentStepState StepReady was taken back"}, "pause": {becomes: progressing(api.ReasonAborted)}, "resume": {becomes: progressing(api.ReasonAborted)},
			"undo --fast": {event: "nextStepIndex 1 was taken back"}, "restart": {refused: restartRefused}, "undo": {becomes: world.Healthy},
		}},
		"Disabled": {func(t *testing.T, d *demo) {
			if err := d.w.Patch(t, d.ns, "rollout", "rollouts-demo", `{"spec":{"disabled":true}}`); err != nil {
				t.Fatal(err)
			}
			d.await(t, func(r *api.Rollout) bool { return r.Status.Phase == api.PhaseDisabled })
		}, map[string]effect{
			"approve": {refused: clientRefuses}, "pause": {becomes: anything}, "resume": {becomes: anything}, "undo --fast": {becomes: anything},
			"undo": {becomes: anything}, "restart": {becomes: func(r *api.Rollout) bool { return r.Status.Phase == api.PhaseDisabled }},
		}},
	} {
		for command, want := range c.effects {
			t.Run(name+"/"+command, func(t *testing.T) {
				t.Parallel()
				d := aDemo(t, world.Shared(t))
				stable := d.w.Get(t, d.ns, "deployment", "workload-demo")
				c.reach(t, d)
				do := kruiseCommands(t, stable)[command]
				r := d.await(t, anything)
				why := do.check(r, d.w.Get(t, d.ns, "deployment", "workload-demo"))
				if why == "" {
					if err := do.write(t, d); err != nil {
						why = err.Error()
					}
				}
				if (want.refused == "") != (why == "") || !strings.Contains(why, want.refused) {
					t.Fatalf("it is answered with %q, want %q", why, want.refused)
				}
				if want.becomes != nil {
					d.await(t, want.becomes)
				}
				if want.event != "" {
					d.wantEvent(t, want.event)
				}
			})
		}
	}
}

// wantEvent waits for an Event of the Rollout that says something.
func (d *demo) wantEvent(t *testing.T, says string) {
	t.Helper()
	ctx := world.Patient(t)
	for {
		out, err := d.w.Kubectl(ctx, "-n", d.ns, "get", "events", "-o", "jsonpath={range .items[*]}{.note}{.message}{'\\n'}{end}")
		if strings.Contains(out, says) {
			return
		}
		if ctx.Err() != nil {
			t.Fatalf("no Event says %q: %v\n%s", says, err, fmt.Sprint(out))
		}
	}
}
