package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// released returns a workload of each release style that holds workloads, with a Rollout of the same name.
func released() map[string]string {
	return map[string]string{"deployment/canary": "enableExtraWorkloadForCanary: true, ", "deployment/partition": "", "statefulset/ordered": "", "daemonset/daemon": ""}
}

// resting is an adopted workload without a release under way.
const resting = "deployment/resting"

// workload returns the manifest of a workload in a version, with its Rollout.
func workload(of, style, version string) string {
	kinds := map[string]string{"deployment": "Deployment", "statefulset": "StatefulSet", "daemonset": "DaemonSet"}
	resource, name, _ := strings.Cut(of, "/")
	replicas := "replicas: 2, "
	if resource == "daemonset" {
		replicas = ""
	}
	return fmt.Sprintf(`
{apiVersion: apps/v1, kind: %[1]s, metadata: {name: %[2]s}, spec: {%[3]sselector: {matchLabels: {app: %[2]s}},
  template: {metadata: {labels: {app: %[2]s}}, spec: {containers: [{name: app, image: "app:%[5]s"}]}}}}
---
{apiVersion: rollouts.kruise.io/v1beta1, kind: Rollout, metadata: {name: %[2]s}, spec: {workloadRef: {apiVersion: apps/v1, kind: %[1]s, name: %[2]s},
  strategy: {canary: {%[4]ssteps: [{replicas: 1, pause: {}}, {replicas: 100%%}]}}}}
`, kinds[resource], name, replicas, style, version)
}

// owned returns the workloads without the fields and annotations that Kubernetes and kubectl add.
func (p pages) owned(t *testing.T) map[string]any {
	t.Helper()
	var list unstructured.UnstructuredList
	if err := json.Unmarshal([]byte(kubectl(t, p.Cluster, "", "get", "deployments,statefulsets,daemonsets", "-n", "default", "-o", "json")), &list); err != nil {
		t.Fatal(err)
	}
	all := map[string]any{}
	for _, o := range list.Items {
		annotations := o.GetAnnotations()
		for _, noted := range []string{"kubectl.kubernetes.io/last-applied-configuration", "deployment.kubernetes.io/revision", "deprecated.daemonset.template.generation"} {
			delete(annotations, noted)
		}
		partition := []string{"spec", "updateStrategy", "rollingUpdate"}
		if n, is, _ := unstructured.NestedInt64(o.Object, append(partition, "partition")...); is && n == 0 { // the same as no partition
			unstructured.RemoveNestedField(o.Object, partition...)
		}
		all[strings.ToLower(o.GetKind())+"/"+o.GetName()] = map[string]any{"labels": o.GetLabels(), "annotations": annotations, "spec": o.Object["spec"]}
	}
	return all
}

// change changes the version of workloads.
func (p pages) change(t *testing.T, version string, workloads ...string) {
	t.Helper()
	kubectl(t, p.Cluster, "", append(append([]string{"set", "image", "-n", "default"}, workloads...), "app=app:"+version)...)
}

// rolledOut waits until workloads run their newest version everywhere.
func (p pages) rolledOut(t *testing.T, workloads ...string) {
	t.Helper()
	kubectl(t, p.Cluster, "", append([]string{"rollout", "status", "-n", "default", "--timeout=600s"}, workloads...)...)
}

// become waits until a status field of each workload's Rollout has a value.
func (p pages) become(t *testing.T, field string, workloads []string) {
	t.Helper()
	name, value, _ := strings.Cut(field, "=")
	wait := []string{"wait", "rollouts", "-n", "default", "--for=jsonpath={.status." + name + "}=" + value, "--timeout=600s"}
	for _, workload := range workloads {
		_, name, _ := strings.Cut(workload, "/")
		wait = append(wait, name)
	}
	kubectl(t, p.Cluster, "", wait...)
}

// held starts `sluice run`, which adopts each workload and holds all but one in the middle of a release. It returns the fields that the owners wrote before,
// with the new version.
func (p pages) held(t *testing.T) (run running, owned map[string]any) {
	t.Helper()
	_, manifests, _ := sluice(t.Context(), "install", "--print", "--part", "namespace,crds,policies,rbac")
	kubectl(t, p.Cluster, manifests, "apply", "--server-side", "--force-conflicts", "-f", "-")
	p.served(t)
	made := func(version string) (text string) {
		for name, style := range released() {
			text += "---" + workload(name, style, version)
		}
		return text + "---" + workload(resting, "", "1")
	}
	// Apply the new version first, so that the API server completes the fields that owners omit.
	kubectl(t, p.Cluster, made("2"), "apply", "-n", "default", "-f", "-")
	owned = p.owned(t)
	kubectl(t, p.Cluster, made("1"), "apply", "-n", "default", "-f", "-")
	p.rolledOut(t, slices.Collect(maps.Keys(owned))...)
	run = startRun(t, p.Cluster)
	p.become(t, "phase=Healthy", slices.Collect(maps.Keys(owned)))
	workloads := slices.Collect(maps.Keys(released()))
	p.change(t, "2", workloads...)
	p.become(t, "currentStepState=StepPaused", workloads)
	for name, now := range p.owned(t) {
		if cmp.Equal(owned[name], now) {
			t.Errorf("%s is neither adopted nor held", name)
		}
	}
	return run, owned
}

// wantLetGo checks that every workload is as its owner wrote it, runs the owner's version everywhere, and follows a change at once.
func (p pages) wantLetGo(t *testing.T, owned map[string]any) {
	t.Helper()
	if diff := cmp.Diff(owned, p.owned(t)); diff != "" {
		t.Errorf("what is left on the workloads (-owner's +there):\n%s", diff)
		return
	}
	p.rolledOut(t, slices.Collect(maps.Keys(owned))...)
	p.change(t, "3", resting)
	p.rolledOut(t, resting)
}

func (p pages) uninstalls(t *testing.T) {
	run, owned := p.held(t)
	blocks := commands(t, "installing.md", "Uninstalling")
	if len(blocks) != 2 {
		t.Fatalf("the page has %d blocks of commands, want the order and what makes up for an executor that went too early", len(blocks))
	}
	p.types(t, blocks[0])
	run.end() // it reports errors, because its roles are gone
	p.wantLetGo(t, owned)
	_, manifests, _ := sluice(t.Context(), "install", "--print")
	if left := kubectl(t, p.Cluster, manifests, "get", "--ignore-not-found", "-o", "name", "-f", "-"); left != "" {
		t.Errorf("of the installation there is left:\n%s", left)
	}
}

// The user deletes the namespace first, and the executor with it.
func (p pages) makesUp(t *testing.T) {
	run, owned := p.held(t)
	run.stop(t)
	kubectl(t, p.Cluster, "", "delete", "namespace", "sluice-system")
	kubectl(t, p.Cluster, "", "delete", "rollouts", "-A", "--all", "--wait=false")
	p.change(t, "2", resting)
	if paused := kubectl(t, p.Cluster, "", "get", resting, "-n", "default", "-o", "jsonpath={.spec.paused}"); paused != "true" {
		t.Errorf("without an executor a change of an adopted workload has paused=%q, and so is not held", paused)
	}
	blocks := commands(t, "installing.md", "Uninstalling")
	p.types(t, blocks[len(blocks)-1]+"kill $!\nwait\n")
	if left := kubectl(t, p.Cluster, "", "get", "rollouts", "-A", "-o", "name"); left != "" {
		t.Errorf("there are Rollouts left:\n%s", left)
	}
	template := owned[resting].(map[string]any)["spec"].(map[string]any)["template"].(map[string]any)["spec"].(map[string]any)
	template["containers"].([]any)[0].(map[string]any)["image"] = "app:2"
	p.wantLetGo(t, owned)
}
