package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice.dev/sluice/test/controlplane"
)

func version(t *testing.T, cluster *controlplane.Cluster) string {
	t.Helper()
	return kubectl(t, cluster, "", "get", "deployment", "workload-demo", "-o", "jsonpath={.spec.template.spec.containers[0].env[0].value}")
}

func TestAReleaseIsTurnedByCommands(t *testing.T) {
	t.Parallel()
	cluster := installed(t)
	run := startRun(t, cluster)
	demo(t, cluster)
	const paused = "Rollout default/rollouts-demo is paused at step %d of 3; approve it with: sluice approve rollouts-demo -n default\n"
	at := func(step int) string { return fmt.Sprintf(paused, step) }
	const limit = "--timeout=600s"
	for _, step := range []struct {
		does string
		args []string
		code int
		out  string
		told string // part of the text on standard error
	}{
		{"a release that waits has not ended", []string{"status", "--timeout=100ms"}, codeUndecided, "", "is paused at step 1 of 3; approve it with"},
		{"and is waited for until then", []string{"status", "--until-paused", limit}, 0, at(1), ""},
		{"it is frozen", []string{"pause"}, 0, "rollout.rollouts.kruise.io/rollouts-demo paused\n", "The release stands still at step 1 of 3, in state StepPaused"},
		{"it is approved, which does not thaw it", []string{"promote", "--step=1"}, 0, "rollout.rollouts.kruise.io/rollouts-demo approved at step 1\n", "The release stands still"},
		{"somebody has to let it go", []string{"status", "--until-paused", limit}, codeRefused, "Rollout default/rollouts-demo is paused as a whole; let it go on with: sluice resume rollouts-demo -n default\n", ""},
		{"it is let go, and goes where it was approved to", []string{"resume"}, 0, "rollout.rollouts.kruise.io/rollouts-demo resumed\n", ""},
		{"which is the second step", []string{"status", "--until-paused", limit}, 0, at(2), ""},
		{"it jumps back", []string{"jump", "1", "--wait", limit}, 0, "Rollout default/rollouts-demo has left step 2 and goes on with step 1 of 3\n" + at(1), ""},
		{"it does not jump where it goes anyway", []string{"jump", "2"}, 1, "", "step 2 is the one that follows step 1 in any case"},
		{"it jumps forward", []string{"jump", "3", "--wait", limit}, 0, "Rollout default/rollouts-demo has left step 1 and goes on with step 3 of 3\n" + at(3), ""},
		{"a dry run undoes nothing", []string{"undo", "--dry-run"}, 0, "deployment.apps/workload-demo rolled back to revision 1 (dry run)\n", "That is the stable version: the release is given up"},
		{"it is still there", []string{"status", "--watch=false"}, 0, at(3), ""},
		{"it is undone", []string{"undo"}, 0, "deployment.apps/workload-demo rolled back to revision 1\n", "traffic goes back first. Follow it with: sluice status rollouts-demo -n default"},
		{"a release that was undone has failed", []string{"status", limit}, codeFailed, "the release of Rollout default/rollouts-demo did not succeed: Rollout progressing has been canceled\n", ""},
		{"there is nothing to undo any more", []string{"undo"}, 1, "", "there is nothing to undo: Deployment workload-demo has no older revision. What there is, shows: sluice history rollouts-demo -n default"},
		{"nor to jump in", []string{"jump", "1"}, 1, "", "is Healthy: no release is under way, so there is nothing to jump in"},
	} {
		args := append([]string{step.args[0], "rollouts-demo"}, step.args[1:]...)
		code, out, errors := sluice(t.Context(), append(args, "--kubeconfig", cluster.Kubeconfig)...)
		if diff := cmp.Diff(step.out, out); code != step.code || diff != "" || !strings.Contains(errors, step.told) {
			t.Fatalf("%s: %v ended with %d: %s\n%s", step.does, args, code, diff, errors)
		}
	}
	if got := version(t, cluster); got != "base" {
		t.Errorf("the version is %s", got)
	}

	// A change starts a release at once, and undoing a completed release is another release.
	change(t, cluster, "second")
	for _, step := range []struct {
		args []string
		code int
		out  string
	}{
		{[]string{"status", "--until-paused", limit}, 0, at(1)},
		{[]string{"pause"}, 0, "rollout.rollouts.kruise.io/rollouts-demo paused\n"},
		{[]string{"promote", "--full", "--reason", "a test", "--wait", limit}, 0, "the release of Rollout default/rollouts-demo skips its remaining steps\nthe release of Rollout default/rollouts-demo is complete\n"},
		{[]string{"resume"}, 0, "rollout.rollouts.kruise.io/rollouts-demo resumed\n"},
		{[]string{"status", limit}, 0, "the release of Rollout default/rollouts-demo is complete\n"},
		{[]string{"undo"}, 0, "deployment.apps/workload-demo rolled back to revision 1\n"},
		{[]string{"status", "--until-paused", limit}, 0, at(1)},
	} {
		args := append([]string{step.args[0], "rollouts-demo"}, step.args[1:]...)
		code, out, errors := sluice(t.Context(), append(args, "--kubeconfig", cluster.Kubeconfig)...)
		if diff := cmp.Diff(step.out, out); code != step.code || diff != "" {
			t.Fatalf("%v ended with %d: %s\n%s", args, code, diff, errors)
		}
	}
	by := kubectl(t, cluster, "", "get", "rollout", "rollouts-demo", "-o", "jsonpath={range .status.approvals[*]}{.step} {.actor}{','}{end}")
	if !strings.HasPrefix(by, "1 sluice-approve,") {
		t.Errorf("approved by %s", by)
	}
	run.stop(t)
}

// TestTheWritesOfOpenKruisesCommands sends the patches of kubectl-kruise and the commands of Sluice to a release, and finds the same effects.
func TestTheWritesOfOpenKruisesCommands(t *testing.T) {
	t.Parallel()
	cluster := installed(t)
	startRun(t, cluster)
	example(t, cluster)
	patch := func(kind, text string, args ...string) {
		kubectl(t, cluster, "", append([]string{"patch", kind, map[string]string{"rollout": "rollouts-demo", "deployment": "workload-demo"}[kind], "-p", text}, args...)...)
	}
	ours := func(args ...string) {
		if code, _, errors := sluice(t.Context(), append(args, "--kubeconfig", cluster.Kubeconfig)...); code != 0 {
			t.Fatalf("%v ended with %d: %s", args, code, errors)
		}
	}
	becomes := func(path string) {
		kubectl(t, cluster, "", "wait", "rollout/rollouts-demo", "--for=jsonpath="+path, "--timeout=600s")
	}
	status := func(text string) {
		patch("rollout", text, "--type=merge", "--subresource=status")
	}
	release := "canaryStatus"
	turns := []struct {
		name      string
		raw, ours func()
		effect    []string // facts of the Rollout that become true
	}{
		{"pause", func() { patch("rollout", `{"spec":{"strategy":{"paused":true}}}`, "--type=merge") },
			func() { ours("pause", "rollouts-demo") }, []string{`{.status.conditions[?(@.type=="Progressing")].reason}=Paused`}},
		{"resume", func() { patch("rollout", `{"spec":{"strategy":{"paused":null}}}`, "--type=merge") },
			func() { ours("resume", "rollouts-demo") }, []string{`{.status.conditions[?(@.type=="Progressing")].reason}=InRolling`}},
		{"approve", func() { status(`{"status":{"` + release + `":{"currentStepState":"StepReady"}}}`) },
			func() { ours("approve", "rollouts-demo") }, []string{"{.status.currentStepIndex}=2", "{.status.currentStepState}=StepPaused"}},
		{"undo --fast", func() { status(`{"status":{"` + release + `":{"nextStepIndex":1}}}`) },
			func() { ours("jump", "rollouts-demo", "1") }, []string{"{.status.currentStepIndex}=1", "{.status.currentStepState}=StepPaused"}},
		{"undo deployment", func() { patch("deployment", kruiseUndo(t, cluster), "--type=json") },
			func() { ours("undo", "rollouts-demo") }, []string{"{.status.phase}=Healthy"}},
	}
	state := func() string {
		return kubectl(t, cluster, "", "get", "rollout", "rollouts-demo", "-o", `jsonpath={.spec.strategy} {.status.phase} {.status.message} {.status['canaryStatus','blueGreenStatus'].currentStepIndex} {.status['canaryStatus','blueGreenStatus'].currentStepState} `+
			`{.status['canaryStatus','blueGreenStatus'].nextStepIndex} {.status.canaryStatus.canaryReplicas}{.status.blueGreenStatus.updatedReplicas} {range .status.conditions[*]}{.type} {.status} {.reason} {end}`) + " " +
			kubectl(t, cluster, "", "get", "deployment", "workload-demo", "-o", `jsonpath={.spec.paused} {.metadata.annotations.sluice\.dev/rollout} {.spec.template}`)
	}
	for _, style := range []string{"canary", "partition", "blue-green"} {
		switch style {
		case "partition":
			patch("rollout", `{"spec":{"strategy":{"canary":{"enableExtraWorkloadForCanary":null}}}}`, "--type=merge")
		case "blue-green":
			patch("rollout", `{"spec":{"strategy":{"canary":null,"blueGreen":{"steps":[{"replicas":1,"traffic":"0%"},{"replicas":2,"traffic":"50%"},{"replicas":"100%"}]}}}}`, "--type=merge")
			release = "blueGreenStatus"
		}
		after := map[string][]string{}
		for _, whose := range []string{"raw", "ours"} {
			change(t, cluster, "canary")
			becomes("{.status.phase}=Progressing")
			becomes("{.status.currentStepState}=StepPaused")
			for _, turn := range turns {
				if whose == "raw" {
					turn.raw()
				} else {
					turn.ours()
				}
				for _, fact := range turn.effect {
					becomes(fact)
				}
				after[whose] = append(after[whose], turn.name+": "+state())
			}
		}
		if diff := cmp.Diff(after["raw"], after["ours"]); diff != "" {
			t.Errorf("in %s style the commands here do something else (-OpenKruise's +ours):\n%s", style, diff)
		}
		if last := after["raw"][len(turns)-1]; !strings.Contains(last, "Succeeded False Completed") || !strings.Contains(last, `"value":"base"`) || !strings.Contains(last, " rollouts-demo {") {
			t.Errorf("in %s style an undone Deployment leaves %s", style, last)
		}
	}
	kubectl(t, cluster, "", "rollout", "restart", "deployment/workload-demo")
	becomes("{.status.phase}=Progressing")
	becomes("{.status.currentStepState}=StepPaused")
}

// kruiseUndo returns the patch with which kubectl-kruise restores the template of a Deployment's latest ReplicaSet. It keeps only OpenKruise's annotations of
// the Deployment.
func kruiseUndo(t *testing.T, cluster *controlplane.Cluster) string {
	t.Helper()
	var set struct {
		Items []struct {
			Spec struct{ Template map[string]any }
		}
	}
	var deployment struct {
		Metadata struct{ Annotations map[string]string }
	}
	for text, into := range map[string]any{
		kubectl(t, cluster, "", "get", "replicasets", "-l", "app=nginx,rollouts.kruise.io/canary-deployment!=workload-demo", "--sort-by=.metadata.creationTimestamp", "-o", "json"): &set,
		kubectl(t, cluster, "", "get", "deployment", "workload-demo", "-o", "json"):                                                                                                 &deployment,
	} {
		if err := json.Unmarshal([]byte(text), into); err != nil {
			t.Fatal(err)
		}
	}
	maps.DeleteFunc(deployment.Metadata.Annotations, func(name, _ string) bool { return !strings.Contains(name, "rollouts.kruise.io/") })
	template := set.Items[0].Spec.Template
	delete(template["metadata"].(map[string]any)["labels"].(map[string]any), "pod-template-hash")
	patch, err := json.Marshal([]map[string]any{
		{"op": "replace", "path": "/spec/template", "value": template},
		{"op": "replace", "path": "/metadata/annotations", "value": deployment.Metadata.Annotations},
	})
	if err != nil {
		t.Fatal(err)
	}
	return string(patch)
}
