package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"sluice.dev/sluice/test/controlplane"
	"sluice.dev/sluice/test/natsdir"
)

// pages runs the commands of the documents in a cluster.
type pages struct {
	*controlplane.Cluster
	dir string
	env []string
}

// TestAClusterMovesOverAndUninstalls runs the commands of the pages on one control plane, which was a cluster of OpenKruise Rollouts before.
func TestAClusterMovesOverAndUninstalls(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it needs a control plane, which -short leaves out")
	}
	theirs := openKruise(t)
	first := filepath.Join(t.TempDir(), "first.yaml")
	if err := os.WriteFile(first, theirs.before(t), 0o600); err != nil {
		t.Fatal(err)
	}
	p := pages{Cluster: controlplane.ForTest(t, controlplane.Options{CRDs: []string{first}})}
	binary, err := controlplane.Binary() // kubectl is built in the same directory
	if err != nil {
		t.Fatal(err)
	}
	home := natsdir.ForTest(t) // `sluice run` keeps its NATS there
	p.dir, p.env = t.TempDir(), append(os.Environ(), "HOME="+home, "XDG_CACHE_HOME="+home,
		"KUBECONFIG="+p.Kubeconfig, "PATH="+os.Getenv("PATH")+string(filepath.ListSeparator)+filepath.Dir(binary))
	t.Run("the CRDs over those of OpenKruise keep all Rollouts", func(t *testing.T) { p.movesOver(t, theirs) })
	t.Run("an executor that went too early is made up for", p.makesUp)
	t.Run("uninstalled in the order of the page no workload is left held", p.uninstalls)
}

// commands returns the blocks of shell commands in a section of a page, in order.
func commands(t *testing.T, page, section string) (blocks []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", page))
	if err != nil {
		t.Fatal(err)
	}
	_, part, _ := strings.Cut(string(text), "\n## "+section+"\n")
	part, _, _ = strings.Cut(part, "\n## ")
	for _, m := range regexp.MustCompile("(?ms)^( *)```sh\n(.*?)^ *```$").FindAllStringSubmatch(part, -1) {
		blocks = append(blocks, strings.ReplaceAll("\n"+m[2], "\n"+m[1], "\n"))
	}
	return blocks
}

// patience bounds each wait.
const patience = 10 * time.Minute

// types runs a block of commands. Each command must succeed.
func (p pages) types(t *testing.T, block string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	c := exec.CommandContext(ctx, "bash", "-e", "-o", "pipefail", "-c", block)
	c.Dir, c.Env, c.WaitDelay = p.dir, p.env, time.Second
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%s\n%v\n%s", block, err, out)
	}
}

// kruiseRelease is a release of OpenKruise Rollouts, from its module.
type kruiseRelease struct {
	definitions, rest []string // manifests
	rollouts          map[string]any
	shipped           []*unstructured.Unstructured
}

// openKruise reads the release that test/luacompat compares with.
func openKruise(t *testing.T) (r kruiseRelease) {
	t.Helper()
	download := exec.CommandContext(t.Context(), "go", "mod", "download", "-json", "github.com/openkruise/rollouts")
	download.Dir = filepath.Join("..", "..", "test", "luacompat", "kruise")
	text, err := download.Output()
	var module struct{ Dir string }
	if err != nil || json.Unmarshal(text, &module) != nil || module.Dir == "" {
		t.Fatalf("download github.com/openkruise/rollouts: %v %s", err, text)
	}
	binary, err := controlplane.Binary() // kubectl is built in the same directory
	if err != nil {
		t.Fatal(err)
	}
	text, err = exec.CommandContext(t.Context(), filepath.Join(filepath.Dir(binary), "kubectl"), "kustomize", filepath.Join(module.Dir, "config", "default")).Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, manifest := range strings.Split(string(text), "\n---\n") {
		object := parse(t, manifest)
		switch {
		case object.GetKind() != "CustomResourceDefinition":
			r.rest = append(r.rest, manifest)
			continue
		case object.GetName() == "rollouts.rollouts.kruise.io":
			r.rollouts = object.Object
		}
		r.definitions = append(r.definitions, manifest)
	}
	examples, err := filepath.Glob(filepath.Join(module.Dir, "test", "e2e", "test_data", "*", "rollout*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range examples {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if object := parse(t, string(text)); object.GetKind() == "Rollout" {
			object.SetNamespace("default")
			object.SetName("shipped-" + strings.ReplaceAll(strings.TrimSuffix(filepath.Base(name), ".yaml"), "_", "-"))
			r.shipped = append(r.shipped, object)
		}
	}
	return r
}

func parse(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	object := &unstructured.Unstructured{}
	body, err := yaml.YAMLToJSON([]byte(text))
	if err == nil {
		err = object.UnmarshalJSON(body)
	}
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	return object
}

// before returns the definition of Rollouts from the time when v1alpha1 was the storage version.
func (r kruiseRelease) before(t *testing.T) []byte {
	t.Helper()
	old := &unstructured.Unstructured{Object: r.rollouts}
	old = old.DeepCopy()
	unstructured.RemoveNestedField(old.Object, "spec", "conversion")
	versions, _, _ := unstructured.NestedSlice(old.Object, "spec", "versions")
	for _, v := range versions {
		version := v.(map[string]any)
		version["storage"] = version["name"] == "v1alpha1"
	}
	if err := unstructured.SetNestedSlice(old.Object, versions, "spec", "versions"); err != nil {
		t.Fatal(err)
	}
	text, err := yaml.Marshal(old.Object)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// objects returns the Rollouts of a version that the release ships, and one that sets each field of its schema.
func (r kruiseRelease) objects(t *testing.T, version string) []*unstructured.Unstructured {
	t.Helper()
	full := &unstructured.Unstructured{}
	versions, _, _ := unstructured.NestedSlice(r.rollouts, "spec", "versions")
	for _, v := range versions {
		if v := v.(map[string]any); v["name"] == version {
			schema, _, _ := unstructured.NestedMap(v, "schema", "openAPIV3Schema")
			full.Object, _ = filled(schema).(map[string]any)
		}
	}
	full.Object["metadata"] = map[string]any{"name": "full-" + version, "labels": map[string]any{"team": "shop"}, "annotations": map[string]any{"note": ""}}
	full.SetAPIVersion("rollouts.kruise.io/" + version)
	full.SetKind("Rollout")
	list := []*unstructured.Unstructured{full}
	for _, o := range r.shipped {
		if o.GetAPIVersion() == full.GetAPIVersion() {
			list = append(list, o)
		}
	}
	if len(list) < 3 {
		t.Errorf("the release ships %d Rollouts of %s only", len(list)-1, version)
	}
	return list
}

// filled returns a value of a schema with each field set.
func filled(schema map[string]any) any {
	if values, ok := schema["enum"].([]any); ok {
		return values[0]
	}
	if schema["x-kubernetes-int-or-string"] == true {
		return "10%"
	}
	switch schema["type"] {
	case "object":
		object := map[string]any{}
		properties, _ := schema["properties"].(map[string]any)
		for name, property := range properties {
			object[name] = filled(property.(map[string]any))
		}
		if others, ok := schema["additionalProperties"].(map[string]any); ok {
			object["some"] = filled(others)
		}
		return object
	case "array":
		return []any{filled(schema["items"].(map[string]any))}
	case "integer":
		return int64(1)
	case "boolean":
		return true
	}
	if schema["format"] == "date-time" {
		return "2024-02-29T12:00:00Z"
	}
	return "some"
}

// make creates Rollouts, with their status, and returns them as the API server stores them.
func (p pages) make(t *testing.T, objects []*unstructured.Unstructured) (made []*unstructured.Unstructured) {
	t.Helper()
	for _, o := range objects {
		rollouts := p.rollouts(t, o.GroupVersionKind().Version)
		stored, err := rollouts.Create(t.Context(), o, metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict})
		if status, ok := o.Object["status"]; ok && err == nil {
			stored.Object["status"] = status
			stored, err = rollouts.UpdateStatus(t.Context(), stored, metav1.UpdateOptions{FieldValidation: metav1.FieldValidationStrict})
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, lost := range lacks(o.Object, stored.Object, "") {
			t.Errorf("OpenKruise's own CRD drops %s of %s", lost, o.GetName())
		}
		made = append(made, stored)
	}
	return made
}

// rollouts returns a client for Rollouts of the default namespace in a version.
func (p pages) rollouts(t *testing.T, version string) dynamic.ResourceInterface {
	t.Helper()
	client, err := dynamic.NewForConfig(p.Config)
	if err != nil {
		t.Fatal(err)
	}
	return client.Resource(schema.GroupVersionResource{Group: "rollouts.kruise.io", Version: version, Resource: "rollouts"}).Namespace("default")
}

// lacks returns the fields of one value that are missing or different in another value.
func lacks(was, is any, path string) (lost []string) {
	switch was := was.(type) {
	case map[string]any:
		fields, ok := is.(map[string]any)
		if !ok {
			return []string{path}
		}
		for name, value := range was {
			lost = append(lost, lacks(value, fields[name], path+"."+name)...)
		}
	case []any:
		list, _ := is.([]any)
		if len(list) != len(was) {
			return []string{path}
		}
		for i := range was {
			lost = append(lost, lacks(was[i], list[i], fmt.Sprintf("%s[%d]", path, i))...)
		}
	default:
		if was != is {
			return []string{fmt.Sprintf("%s: %v is %v", path, was, is)}
		}
	}
	slices.Sort(lost)
	return lost
}

func (p pages) movesOver(t *testing.T, theirs kruiseRelease) {
	made := p.make(t, theirs.objects(t, "v1alpha1"))
	apply(t, p.Cluster, strings.Join(theirs.definitions, "\n---\n"))
	// The API server can no longer read Rollouts stored as v1alpha1 in v1beta1, because OpenKruise's conversion webhook does not answer here.
	p.await(t, func() error {
		_, err := p.rollouts(t, "v1beta1").Get(t.Context(), made[0].GetName(), metav1.GetOptions{})
		if err == nil || !strings.Contains(err.Error(), "conversion webhook") {
			return fmt.Errorf("the API server does not ask the conversion webhook: %v", err)
		}
		return nil
	})
	made = append(made, p.make(t, theirs.objects(t, "v1beta1"))...)
	apply(t, p.Cluster, strings.Join(theirs.rest, "\n---\n"))

	blocks := commands(t, "from-openkruise.md", "Moving over")
	if len(blocks) != 2 {
		t.Fatalf("the page has %d blocks of commands, want one that stops OpenKruise and one that installs Sluice", len(blocks))
	}
	for _, block := range blocks {
		p.types(t, block)
	}
	p.served(t)
	for _, version := range []string{"v1alpha1", "v1beta1"} {
		list, err := p.rollouts(t, version).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		read := map[string]*unstructured.Unstructured{}
		for i := range list.Items {
			read[list.Items[i].GetName()] = &list.Items[i]
		}
		if len(read) != len(made) {
			t.Errorf("there are %d Rollouts in %s, %d were made", len(read), version, len(made))
		}
		for _, was := range made {
			is := read[was.GetName()]
			if is == nil {
				t.Errorf("Rollout %s is not there in %s", was.GetName(), version)
				continue
			}
			for _, field := range []string{"metadata", "spec", "status"} { // defaults of Sluice are additional
				for _, lost := range lacks(was.Object[field], is.Object[field], field) {
					t.Errorf("Rollout %s, read as %s, has lost %s", was.GetName(), version, lost)
				}
			}
		}
	}
	kubectl(t, p.Cluster, "", "delete", "rollouts", "-A", "--all")
}

// await waits until is returns no error.
func (p pages) await(t *testing.T, is func() error) {
	t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	end := time.Now().Add(patience)
	for err := is(); err != nil; err = is() {
		if time.Now().After(end) {
			t.Fatal(err)
		}
		<-tick.C
	}
}

// served waits until the API server serves Sluice's definition of Rollouts, a moment after the definition was written.
func (p pages) served(t *testing.T) {
	t.Helper()
	ours := parse(t, strings.Replace(web, "strategy: {canary: {", "strategy: {canary: {progressDeadlineSeconds: 600, ", 1))
	for _, version := range []string{"v1alpha1", "v1beta1"} {
		ours.SetAPIVersion("rollouts.kruise.io/" + version)
		p.await(t, func() error {
			_, err := p.rollouts(t, version).Create(t.Context(), ours, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}, FieldValidation: metav1.FieldValidationStrict})
			return err
		})
	}
}
