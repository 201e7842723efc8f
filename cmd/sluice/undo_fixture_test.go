package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice.dev/sluice/test/controlplane"
)

// threeVersions creates a workload of a kind with revisions 1 to 3, with the images v1 to v3, and a Rollout for it.
func threeVersions(t *testing.T, cluster *controlplane.Cluster, kind, name string) {
	t.Helper()
	more := map[string]string{"Deployment": "replicas: 1, ", "StatefulSet": "replicas: 1, serviceName: none, ", "DaemonSet": ""}[kind]
	apply(t, cluster, fmt.Sprintf(`
apiVersion: apps/v1
kind: %[1]s
metadata: {name: %[2]s, annotations: {kubernetes.io/change-cause: the first, mine: stays, rollouts.kruise.io/in-progressing: stays, rollouts.kruise.io/rollout-id: v1}}
spec: {%[3]s selector: {matchLabels: {app: %[2]s}}, template: {metadata: {labels: {app: %[2]s}}, spec: {containers: [{name: app, image: v1}]}}}
---
apiVersion: rollouts.kruise.io/v1beta1
kind: Rollout
metadata: {name: %[2]s}
spec: {workloadRef: {apiVersion: apps/v1, kind: %[1]s, name: %[2]s}, strategy: {canary: {steps: [{replicas: 100%%}]}}}
`, kind, name, more))
	workload := strings.ToLower(kind) + "/" + name
	kubectl(t, cluster, "", "rollout", "status", workload, "--timeout=600s")
	for _, image := range []string{"v2", "v3"} {
		kubectl(t, cluster, "", "patch", workload, "--type=merge", "-p",
			fmt.Sprintf(`{"metadata":{"annotations":{"kubernetes.io/change-cause":"to %s","rollouts.kruise.io/rollout-id":"%[1]s"}},"spec":{"template":{"spec":{"containers":[{"name":"app","image":"%[1]s"}]}}}}`, image))
		kubectl(t, cluster, "", "rollout", "status", workload, "--timeout=600s")
	}
}

func TestRevisions(t *testing.T) {
	t.Parallel()
	cluster := sharedCluster(t)
	t.Run("are given again", func(t *testing.T) { t.Parallel(); undo(t, cluster) })
	t.Run("are not given again over a newer change", func(t *testing.T) { t.Parallel(); undoBesides(t, cluster) })
	t.Run("are shown with the releases that brought them", func(t *testing.T) { t.Parallel(); showHistory(t, cluster) })
}

// offered returns the completions of a command line.
func offered(t *testing.T, cluster *controlplane.Cluster, args ...string) string {
	_, out, _ := sluice(t.Context(), append([]string{"__complete", "-n", "default", "--kubeconfig", cluster.Kubeconfig}, args...)...)
	return out
}

func undo(t *testing.T, cluster *controlplane.Cluster) {
	for _, kind := range []string{"Deployment", "StatefulSet", "DaemonSet"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			name := "web-" + strings.ToLower(kind)
			threeVersions(t, cluster, kind, name)
			do := func(args ...string) (int, string, string) {
				return sluice(t.Context(), append(args, "-n", "default", "--kubeconfig", cluster.Kubeconfig)...)
			}
			image := func() string {
				return kubectl(t, cluster, "", "get", strings.ToLower(kind), name, "-o", `jsonpath={.spec.template.spec.containers[0].image} {.spec.template.metadata.labels} {.metadata.annotations.kubernetes\.io/change-cause} {.metadata.annotations.mine} {.metadata.annotations.rollouts\.kruise\.io/in-progressing} {.metadata.annotations.rollouts\.kruise\.io/rollout-id}`)
			}
			is := func(version, cause string) string {
				return fmt.Sprintf(`%s {"app":"%s"} %s stays stays %[1]s`, version, name, cause)
			}
			rolledBack := func(revision int, note string) string {
				return fmt.Sprintf("%s.apps/%s rolled back to revision %d%s\n", strings.ToLower(kind), name, revision, note)
			}

			for _, step := range []struct {
				args   []string
				code   int
				out    string
				errors string
				want   string
			}{
				{[]string{"undo", name, "--dry-run"}, 0, rolledBack(2, " (dry run)"), "It asks for v2 again.\nIts rollout-id is v2 again.\nThe Rollout does not hold the workload (its phase is \"\"), so that the template goes out at once.", is("v3", "to v3")},
				{[]string{"undo", name}, 0, rolledBack(2, ""), "kubectl rollout status " + strings.ToLower(kind) + "/" + name + " -n default", is("v2", "to v2")},
				{[]string{"undo", "rollout/" + name, "--to-revision", "1"}, 0, rolledBack(1, ""), "It asks for v1 again.", is("v1", "the first")},
				{[]string{"undo", "rollouts", name, "--to-revision", "77"}, 1, "", kind + " " + name + " has no revision 77; choose one with --to-revision: ", is("v1", "the first")},
				{[]string{"undo", name, "--to-revision", "0"}, 1, "", "--to-revision 0: give the number of a revision that sluice history " + name + " shows", is("v1", "the first")},
			} {
				code, out, errors := do(step.args...)
				if code != step.code || out != step.out || !strings.Contains(errors, step.errors) {
					t.Fatalf("%v ended with %d:\n%s%s", step.args, code, out, errors)
				}
				if diff := cmp.Diff(step.want, image()); diff != "" {
					t.Fatalf("%v (-want +got):\n%s", step.args, diff)
				}
				kubectl(t, cluster, "", "rollout", "status", strings.ToLower(kind)+"/"+name, "--timeout=600s")
			}

			choice := offered(t, cluster, "undo", name, "--to-revision", "")
			if !strings.HasPrefix(choice, "5\tv1\n4\tv2\n3\tv3\n") {
				t.Errorf("offered are\n%s", choice)
			}
			code, _, errors := do("undo", name, "--to-revision", strings.Split(choice, "\t")[0])
			if code != 1 || !strings.Contains(errors, "there is nothing to undo: "+kind+" "+name+" has the template of revision") {
				t.Errorf("going back to what is there ended with %d: %s", code, errors)
			}
		})
	}
}

func undoBesides(t *testing.T, cluster *controlplane.Cluster) {
	lockWeb(t, cluster)
	threeVersions(t, cluster, "Deployment", "web")
	for _, test := range []struct {
		name, meanwhile string
		code            int
		errors, image   string
	}{
		{"does not undo a newer change", `{"spec":{"template":{"spec":{"containers":[{"name":"app","image":"v4"}]}}}}`, 1,
			"error: not undone, the template of Deployment web was changed meanwhile; look at it with: sluice get rollout web -n default\n", "v4"},
		{"is done where the template is still the same", `{"metadata":{"annotations":{"touched":"yes"}}}`, 0, "It asks for v3 again.\n", "v3"},
	} {
		t.Run(test.name, func(t *testing.T) {
			kubectl(t, cluster, "", "rollout", "status", "deployment/web", "--timeout=600s")
			kubeconfig := beforeFirstPatch(t, cluster.Config, func() {
				kubectl(t, cluster, "", "patch", "deployment", "web", "--type=merge", "-p", test.meanwhile)
			})
			code, _, errors := sluice(t.Context(), "undo", "web", "-n", "default", "--kubeconfig", kubeconfig)
			if code != test.code || !strings.HasPrefix(errors, test.errors) {
				t.Errorf("it ended with %d: %s", code, errors)
			}
			kubectl(t, cluster, "", "rollout", "status", "deployment/web", "--timeout=600s")
			if got := kubectl(t, cluster, "", "get", "deployment", "web", "-o", "jsonpath={.spec.template.spec.containers[0].image}"); got != test.image {
				t.Errorf("the image is %s, want %s", got, test.image)
			}
		})
	}
}

func showHistory(t *testing.T, cluster *controlplane.Cluster) {
	threeVersions(t, cluster, "Deployment", "shop")
	do := func(args ...string) (int, string, string) {
		return sluice(t.Context(), append(args, "-n", "default", "--kubeconfig", cluster.Kubeconfig)...)
	}
	code, out, errors := do("history", "shop")
	if code != 0 || errors != "No release of Rollout default/shop is recorded.\n" || !strings.HasPrefix(out, "REVISION   IMAGES   AGE ") || !strings.Contains(out, "\n3          v3 ") || !strings.Contains(out, "present   to v3\n") {
		t.Fatalf("without records it ended with %d:\n%s%s", code, out, errors)
	}

	uid := kubectl(t, cluster, "", "get", "rollout", "shop", "-o", "jsonpath={.metadata.uid}")
	hash := kubectl(t, cluster, "", "get", "replicasets", "-l", "app=shop", "-o", `jsonpath={.items[?(@.spec.template.spec.containers[0].image=="v2")].metadata.labels.pod-template-hash}`)
	record := func(epoch int, uid, status string) {
		apply(t, cluster, fmt.Sprintf(`
apiVersion: rollouts.kruise.io/v1alpha1
kind: RolloutHistory
metadata: {name: shop-%d-%s, labels: {rollouts.kruise.io/rollout-name: shop, sluice.dev/rollout-uid: %[2]s}}
spec: {rollout: {name: shop, data: {strategy: {canary: {steps: [{replicas: 1}, {replicas: 2}]}}}}}
status: %[3]s
`, epoch, uid, status))
	}
	record(2, uid, `{epoch: 2, outcome: Aborted, images: [v3], startedAt: "2026-11-20T10:00:00.000000Z", endedAt: "2026-11-20T10:02:00.000000Z", steps: [{step: 1}]}`)
	record(1, uid, `{epoch: 1, outcome: Completed, canaryRevision: "`+hash+`", images: [v2], startedAt: "2026-11-20T09:00:00.000000Z", endedAt: "2026-11-20T09:10:00.000000Z",
		steps: [{step: 1, approvedBy: kim}, {step: 2, approvedBy: kim}]}`)
	record(9, "another", `{epoch: 9}`)

	code, out, errors = do("history", "rollout/shop")
	want := `RELEASE   REVISION   OUTCOME     IMAGES   STARTED                TOOK   STEPS   APPROVED BY
1         2          Completed   v2       2026-11-20T09:00:00Z   10m    2/2     kim
2                    Aborted     v3       2026-11-20T10:00:00Z   2m     1/2

REVISION   IMAGES   AGE `
	if code != 0 || errors != "" || !strings.HasPrefix(out, want) {
		t.Errorf("it ended with %d:\n%s\n%s", code, cmp.Diff(want, out), errors)
	}
	for _, test := range []struct {
		args       []string
		code       int
		out, error string
	}{
		{[]string{"--release", "1"}, 0, "Release     1 of Rollout default/shop\nOutcome     Completed\nStarted     2026-11-20T09:00:00Z\n", ""},
		{[]string{"--release", "9"}, 1, "", "release 9 of Rollout default/shop is not recorded; list what is with: sluice history shop -n default"},
		{[]string{"--revision", "2"}, 0, "Revision    2 of Deployment default/shop\nCreated  ", ""},
		{[]string{"--revision", "9"}, 1, "", "Deployment shop has no revision 9; list them with: sluice history shop -n default"},
		{[]string{"--release", "1", "-o", "yaml"}, 0, "apiVersion: rollouts.kruise.io/v1alpha1\nkind: RolloutHistory\n", ""},
		{[]string{"-o", "json"}, 0, "{\n    \"apiVersion\": \"v1\",\n    \"items\": [\n", ""},
		{[]string{"-o", "name"}, 0, "rollouthistory.rollouts.kruise.io/shop-1-" + uid + "\nrollouthistory.rollouts.kruise.io/shop-2-" + uid + "\n", ""},
		{[]string{"-o", "wide"}, 1, "", `--output "wide": use json, yaml or name`},
		{[]string{"--release", "1", "--revision", "2"}, 1, "", "if any flags in the group [release revision] are set"},
	} {
		code, out, errors := do(append([]string{"history", "shop"}, test.args...)...)
		if code != test.code || !strings.HasPrefix(out, test.out) || !strings.Contains(errors, test.error) || test.error == "" && errors != "" {
			t.Errorf("%v ended with %d:\n%s%s", test.args, code, out, errors)
		}
	}
	if got := offered(t, cluster, "history", "shop", "--release", ""); !strings.HasPrefix(got, "2\tAborted\n1\tCompleted\n:") {
		t.Errorf("offered are\n%s", got)
	}
	kubectl(t, cluster, "", "delete", "deployment", "shop")
	if code, _, errors := do("undo", "shop"); code != 1 || errors != "Error from server (NotFound): deployments.apps \"shop\" not found: create it, or correct spec.workloadRef of Rollout default/shop\n" {
		t.Errorf("an undo without the workload ended with %d: %s", code, errors)
	}
	if code, out, errors := do("history", "shop"); code != 0 || !strings.HasPrefix(out, "RELEASE ") || !strings.HasPrefix(errors, "The revisions of the workload cannot be shown: ") {
		t.Errorf("without the workload it ended with %d:\n%s%s", code, out, errors)
	}
}
