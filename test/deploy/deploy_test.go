// Package deploy checks the manifests of deploy/ and docker-compose.yaml with a real API server and with the programs
// that they start.
package deploy

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	sluicedeploy "sluice.dev/sluice/deploy"
	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/test/world"
)

func TestMain(m *testing.M) {
	code := m.Run()
	world.StopShared()
	os.Exit(code)
}

func base() string { return filepath.Join(world.Root(), "deploy") }

// The shared world has applied the base once.
func TestTheBaseAppliesAgainWithoutChange(t *testing.T) {
	w := world.Shared(t)
	if out, err := w.Kubectl(t.Context(), "diff", "--server-side", "-k", base()); err != nil {
		t.Errorf("kubectl diff: %v\n%s", err, out)
	}
	before := versions(t, w)
	w.Do(t, "apply", "--server-side", "-k", base())
	if diff := cmp.Diff(before, versions(t, w)); diff != "" {
		t.Errorf("resource versions (-first +second):\n%s", diff)
	}
}

// versions returns the resource versions of all objects of the base, except objects that the cluster's own controllers
// write.
func versions(t *testing.T, w *world.World) map[string]string {
	t.Helper()
	out := w.Do(t, "get", "-k", base(), "-o", `jsonpath={range .items[*]}{.kind}/{.metadata.name} {.metadata.generation} {.metadata.resourceVersion}{"\n"}{end}`)
	list := map[string]string{}
	for line := range strings.Lines(out) {
		name, version, _ := strings.Cut(strings.TrimSpace(line), " ")
		generation, version, _ := strings.Cut(version, " ")
		if generation != "" { // controllers write to the status of these
			version = generation
		}
		list[name] = version
	}
	delete(list, "Namespace/sluice-system") // the second apply records a label that the server gives every namespace
	return list
}

func TestPrintedManifestsAreTheKustomizeBase(t *testing.T) {
	t.Parallel()
	w := world.Shared(t)
	printed, err := sluicedeploy.Manifests(api.DefaultInstallation())
	if err != nil {
		t.Fatal(err)
	}
	built := world.ReadManifests(t, []byte(w.Do(t, "kustomize", base())))
	// kustomize adds blank lines to folded text, which have no effect.
	words := cmp.Comparer(func(a, b string) bool { return slices.Equal(strings.Fields(a), strings.Fields(b)) })
	if diff := cmp.Diff(built, world.ReadManifests(t, printed), words); diff != "" {
		t.Errorf("(-kustomize +printed):\n%s", diff)
	}
	if len(built) < 20 {
		t.Errorf("the base holds %d objects only", len(built))
	}
}

func manifests(t *testing.T) map[string]map[string]any {
	t.Helper()
	text, err := sluicedeploy.Manifests(api.DefaultInstallation())
	if err != nil {
		t.Fatal(err)
	}
	return world.ReadManifests(t, text)
}

// The pods of all components pass the strictest level of the Pod Security Standards.
func TestPodsPassTheRestrictedLevel(t *testing.T) {
	t.Parallel()
	w := world.Shared(t)
	all := manifests(t)
	w.Do(t, "label", "namespace", "sluice-system", "pod-security.kubernetes.io/enforce=restricted", "--overwrite")
	pods := 0
	for _, key := range slices.Sorted(maps.Keys(all)) {
		kind := all[key]["kind"]
		if kind != "Deployment" && kind != "StatefulSet" {
			continue
		}
		pods++
		spec, _ := all[key]["spec"].(map[string]any)
		template, _ := spec["template"].(map[string]any)
		pod := template["spec"].(map[string]any)
		if claims, ok := spec["volumeClaimTemplates"].([]any); ok {
			for _, c := range claims {
				name := c.(map[string]any)["metadata"].(map[string]any)["name"]
				volumes, _ := pod["volumes"].([]any)
				pod["volumes"] = append(volumes, map[string]any{"name": name, "emptyDir": map[string]any{}})
			}
		}
		body, err := yaml.Marshal(map[string]any{"apiVersion": "v1", "kind": "Pod",
			"metadata": map[string]any{"name": "trial", "namespace": "sluice-system"}, "spec": pod})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.KubectlStdin(t.Context(), string(body), "create", "--dry-run=server", "-f", "-"); err != nil {
			t.Errorf("a pod of %s: %v", key, err)
		}
	}
	if pods != 4 {
		t.Errorf("%d of 4 parts were tried", pods)
	}
	const careless = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"careless","namespace":"sluice-system"},"spec":{"containers":[{"name":"c","image":"c"}]}}`
	if _, err := w.KubectlStdin(t.Context(), careless, "create", "--dry-run=server", "-f", "-"); err == nil {
		t.Error("a careless pod passes as well, so this test proves nothing")
	}
}
