package main

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice.dev/sluice/test/controlplane"
	"sluice.dev/sluice/test/world"
)

// installed returns a cluster with Sluice's CRDs, policies, roles and templates, and with Istio's CRDs. Its namespace default belongs to the test, and is empty
// except for the Service of the API server. Only one test at a time runs Sluice in it.
func installed(t *testing.T) *controlplane.Cluster {
	t.Helper()
	if testing.Short() {
		t.Skip("it needs a control plane, which -short leaves out")
	}
	installation.mu.Lock()
	t.Cleanup(installation.mu.Unlock)
	if installation.cluster == nil {
		istio, err := controlplane.IstioCRDs()
		if err != nil {
			t.Skip(err)
		}
		cluster, err := controlplane.Start(t.Context(), controlplane.Options{CRDs: []string{istio}, Audit: true})
		if err != nil {
			t.Fatal(err)
		}
		installation.cluster = cluster
		for _, parts := range []string{"namespace,crds,policies,rbac", "templates"} {
			code, manifests, errors := sluice(t.Context(), "install", "--print", "--part", parts)
			if code != 0 {
				t.Fatal(errors)
			}
			kubectl(t, cluster, manifests, "apply", "--server-side", "-f", "-")
			established(t, cluster)
		}
	}
	t.Cleanup(func() { emptyDefault(t, installation.cluster) })
	judged(t, installation.cluster, "default")
	return installation.cluster
}

// emptyDefault deletes the objects of a test in the namespace default. It removes the finalizers of Rollouts itself, because no executor runs any more.
func emptyDefault(t *testing.T, cluster *controlplane.Cluster) {
	t.Helper()
	do := func(args ...string) string {
		out, err := cluster.Kubectl(context.WithoutCancel(t.Context()), args...)
		if err != nil {
			t.Error(err)
		}
		return out
	}
	for name := range strings.FieldsSeq(do("get", "rollouts", "-o", "name")) {
		do("patch", name, "--type=merge", "-p", `{"metadata":{"finalizers":null}}`)
	}
	do("delete", "rollouts,rollouthistories,analysistemplates,deployments,virtualservices,events", "--all")
	do("delete", "services", "--field-selector", "metadata.name!=kubernetes")
}

// judged fails a test at its end if the audit log shows that a release in the namespace violated an invariant.
func judged(t *testing.T, cluster *controlplane.Cluster, namespace string) {
	t.Helper()
	(&world.World{Cluster: cluster}).Judge(t, namespace, world.Breaches, world.Overexposed, world.StableServes)
}

// established waits until the cluster serves the kinds of its CRDs, and has published the schema of Rollouts, which comes a moment later. kubectl wait fails
// for a new definition without conditions.
func established(t *testing.T, cluster *controlplane.Cluster) {
	t.Helper()
	type definition struct {
		Status struct {
			Conditions []struct{ Type, Status string }
		}
	}
	serves := func(d definition) bool {
		return slices.Contains(d.Status.Conditions, struct{ Type, Status string }{"Established", "True"})
	}
	for {
		var found struct{ Items []definition }
		if err := json.Unmarshal([]byte(kubectl(t, cluster, "", "get", "crd", "-o", "json")), &found); err != nil {
			t.Fatal(err)
		}
		if slices.ContainsFunc(found.Items, func(d definition) bool { return !serves(d) }) {
			continue
		}
		if _, err := cluster.Kubectl(t.Context(), "get", "--raw", "/openapi/v3/apis/rollouts.kruise.io/v1beta1"); err == nil || t.Context().Err() != nil {
			return
		}
	}
}

// demo returns a release of the example that is paused at its first step.
func demo(t *testing.T, cluster *controlplane.Cluster) {
	t.Helper()
	example(t, cluster)
	change(t, cluster, "canary")
	kubectl(t, cluster, "", "wait", "rollout/rollouts-demo", "--for=jsonpath={.status.currentStepState}=StepPaused", "--timeout=600s")
}

// example creates the example without a release.
func example(t *testing.T, cluster *controlplane.Cluster) {
	t.Helper()
	for _, name := range []string{"workload", "virtualservice", "rollout"} {
		kubectl(t, cluster, "", "apply", "-f", filepath.Join("..", "..", "examples", "seeds", "istio-walkthrough", name+".yaml"))
	}
	kubectl(t, cluster, "", "patch", "rollout", "rollouts-demo", "--type=merge", "-p", `{"spec":{"strategy":{"canary":{"abortScaleDownDelaySeconds":1}}}}`)
	kubectl(t, cluster, "", "wait", "rollout/rollouts-demo", "--for=jsonpath={.status.phase}=Healthy", "--timeout=600s")
	kubectl(t, cluster, "", "wait", "deployment/workload-demo", "--for=condition=Available", "--timeout=600s")
}

// change sets another version in the workload of the example.
func change(t *testing.T, cluster *controlplane.Cluster, version string) {
	t.Helper()
	kubectl(t, cluster, "", "patch", "deployment", "workload-demo", "-p",
		`{"spec":{"template":{"spec":{"containers":[{"name":"nginx", "env":[{"name":"version", "value":"`+version+`"}]}]}}}}`)
}

func TestAReleaseIsStoppedAndTriedAgain(t *testing.T) {
	t.Parallel()
	cluster := installed(t)
	run := startRun(t, cluster)
	demo(t, cluster)
	do := func(args ...string) (int, string, string) {
		return sluice(t.Context(), append(args, "--kubeconfig", cluster.Kubeconfig)...)
	}
	user := strings.TrimSpace(kubectl(t, cluster, "", "auth", "whoami", "-o", "jsonpath={.status.userInfo.username}"))

	code, out, errors := do("abort", "rollouts-demo", "--reason", "orders fail", "--wait", "--timeout", "600s")
	if code != 0 || !strings.Contains(out, "the release of Rollout default/rollouts-demo is aborted: ") || !strings.Contains(out, "orders fail") ||
		!strings.HasSuffix(out, "nothing of the canary of Rollout default/rollouts-demo is left\n") {
		t.Fatalf("abort ended with %d:\n%s%s", code, out, errors)
	}
	if want := "all traffic goes back to the stable version; the new version stays held until it is retried, replaced or rolled back (by " + user + ")\n"; !strings.HasPrefix(errors, want) {
		t.Errorf("abort foretells %q", errors)
	}
	_, out, _ = do("get", "rollout", "rollouts-demo")
	for _, want := range []string{"<- stopped here", "to try this one again, type:\n         sluice retry rollouts-demo\n", "http[0]  all requests -> service-demo\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("the tree of what was aborted lacks %q:\n%s", want, out)
		}
	}
	for _, verb := range []string{"abort", "approve"} {
		if code, _, errors := do(verb, "rollouts-demo"); code != 1 || !strings.Contains(errors, "abort") {
			t.Errorf("%s of what was aborted ended with %d: %s", verb, code, errors)
		}
	}

	code, out, errors = do("retry", "rollouts-demo", "--wait", "--timeout", "600s")
	want := "the release of Rollout default/rollouts-demo begins again\nRollout default/rollouts-demo is paused at step 1 of 3; approve it with: sluice approve rollouts-demo -n default\n"
	if code != 0 || out != want {
		t.Fatalf("retry ended with %d:\n%s%s", code, out, errors)
	}
	if code, _, errors := do("retry", "rollouts-demo"); code != 1 || !strings.Contains(errors, "was not aborted, so there is nothing to retry") {
		t.Errorf("a second retry ended with %d: %s", code, errors)
	}

	if code, _, errors := do("approve", "rollouts-demo", "--force", "--step", "2"); code != 1 || !strings.Contains(errors, "is at step 1, not at step 2") {
		t.Errorf("an approval of another step ended with %d: %s", code, errors)
	}
	code, out, errors = do("approve", "rollouts-demo", "--force", "--reason", "a test", "--wait", "--timeout", "600s")
	want = fmt.Sprintf("step 1 of Rollout default/rollouts-demo is approved by %s against its metrics\n"+
		"Rollout default/rollouts-demo is paused at step 2 of 3; approve it with: sluice approve rollouts-demo -n default\n", user)
	if code != 0 || out != want {
		t.Fatalf("approve --force ended with %d:\n%s%s", code, out, errors)
	}
	forced := kubectl(t, cluster, "", "get", "rollout", "rollouts-demo", "-o", "jsonpath={range .status.approvals[?(@.forced==true)]}{.step} {.actor} {.comment}{end}")
	if diff := cmp.Diff("1 "+user+" a test", forced); diff != "" {
		t.Errorf("what is recorded (-want +got):\n%s", diff)
	}

	run.stop(t)
	code, _, errors = do("abort", "rollouts-demo", "--timeout", "300ms")
	if code != codeUndecided || !strings.Contains(errors, "undecided: the command Abort for Rollout default/rollouts-demo is written, and no executor has taken it within 300ms.") {
		t.Errorf("without an executor it ended with %d: %s", code, errors)
	}
	startRun(t, cluster)
	kubectl(t, cluster, "", "wait", "rollout/rollouts-demo", "--for=jsonpath={.status.sluice.state}=Aborted", "--timeout=600s")
}

func TestACommandIsNotFollowed(t *testing.T) {
	t.Parallel()
	cluster := sharedCluster(t)
	lockWeb(t, cluster)
	const state = `{"status":{"phase":"Progressing","message":"waits","currentStepIndex":1,"currentStepState":"StepPaused",
		"canaryStatus":{"currentStepIndex":1,"currentStepState":"StepPaused"},"sluice":{"epoch":%d,"step":1,"state":"StepPaused","pauseSeq":%d}}}`
	patch := func(text string) func() {
		return func() {
			kubectl(t, cluster, "", "patch", "rollout", "web", "--subresource=status", "--type=merge", "-p", text)
		}
	}
	t.Run("the executor takes it away and does nothing", func(t *testing.T) {
		apply(t, cluster, web)
		patch(fmt.Sprintf(state, 3, 5))()
		ended := make(chan int, 1)
		var errors string
		go func() {
			var code int
			code, _, errors = sluice(t.Context(), "abort", "web", "-n", "default", "--kubeconfig", cluster.Kubeconfig)
			ended <- code
		}()
		kubectl(t, cluster, "", "wait", "rollout/web", "--for=jsonpath={.status.command.action}=Abort", "--timeout=600s")
		patch(`{"status":{"command":null,"message":"too late"}}`)()
		if code := <-ended; code != codeRefused || !strings.Contains(errors, "has moved on meanwhile and is in state StepPaused now: too late. Why, tells: kubectl describe rollout web -n default") {
			t.Errorf("it ended with %d: %s", code, errors)
		}
	})
	for name, test := range map[string]struct {
		args      []string
		meanwhile func() // before the command is written
		code      int
		errors    string
		command   string
	}{
		"an abort counts after another write": {
			args: []string{"abort", "web"}, meanwhile: func() { kubectl(t, cluster, "", "annotate", "--overwrite", "rollout", "web", "touched=yes") },
			code: codeUndecided, errors: "no executor has taken it within 200ms", command: "Abort 3",
		},
		"an approval does not go to a later pause": {
			args: []string{"approve", "web", "--force"}, meanwhile: patch(fmt.Sprintf(state, 3, 6)),
			code: 1, errors: "not given, the release has moved meanwhile and is at step 1, in state StepPaused, now: waits",
		},
		"an abort does not go to another release": {
			args: []string{"abort", "web"}, meanwhile: patch(fmt.Sprintf(state, 4, 6)),
			code: 1, errors: "not given, the release has moved meanwhile",
		},
	} {
		t.Run(name, func(t *testing.T) {
			apply(t, cluster, web)
			patch(fmt.Sprintf(state, 3, 5))()
			patch(`{"status":{"command":null}}`)()
			kubeconfig := beforeFirstPatch(t, cluster.Config, test.meanwhile)
			args := test.args
			if args[0] == "abort" {
				args = append(args, "--timeout", "200ms")
			}
			code, _, errors := sluice(t.Context(), append(args, "-n", "default", "--kubeconfig", kubeconfig)...)
			if code != test.code || !strings.Contains(errors, test.errors) {
				t.Errorf("it ended with %d, want %d: %s", code, test.code, errors)
			}
			got := kubectl(t, cluster, "", "get", "rollout", "web", "-o", "jsonpath={.status.command.action} {.status.command.epoch} {.status.command.pauseSeq}")
			if diff := cmp.Diff(test.command, strings.TrimSpace(got)); diff != "" {
				t.Errorf("the command (-want +got):\n%s", diff)
			}
		})
	}
}
