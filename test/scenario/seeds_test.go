package scenario

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/test/world"
)

// An API server that refuses unknown fields accepts the manifests of the examples.
func TestEveryManifestOfTheExamplesAppliesStrictly(t *testing.T) {
	t.Parallel()
	w := world.Shared(t)
	for _, ns := range []string{"foo", "shop", api.ScriptNamespace} {
		if _, err := w.Kubectl(t.Context(), "get", "namespace", ns); err != nil {
			w.Do(t, "create", "namespace", ns)
		}
	}
	var files []string
	for pattern, atLeast := range map[string]int{"examples/seeds/*/*.yaml": 9, "examples/fleet/hub/*.yaml": 3, "examples/fleet/cluster/*.yaml": 3} {
		found, err := filepath.Glob(filepath.Join(world.Root(), pattern))
		if err != nil || len(found) < atLeast {
			t.Fatalf("%s matches %d manifests: %v", pattern, len(found), err)
		}
		files = append(files, found...)
	}
	for _, file := range files {
		if filepath.Base(file) == "kustomization.yaml" {
			continue
		}
		t.Run(filepath.Base(filepath.Dir(file))+" "+filepath.Base(file), func(t *testing.T) {
			w.Do(t, "apply", "--dry-run=server", "--validate=strict", "-f", file)
		})
	}
}

// A user's script wins over the built-in one when its ConfigMap says so. A directory adds kinds, and wins over the
// built-in ones as well. The status has the source and the version of the script.
func TestUsersScriptsWinWhereTheySaySo(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it needs a control plane, which -short leaves out")
	}
	dir := t.TempDir()
	addToDirectory(t, dir, "roads.example.com", "Tunnel", strings.Replace(laneScript, `"canary"`, `"fromDirectory"`, 1))
	// A cluster of its own: the annotation counts for all releases of a cluster.
	w := world.ForTest(t, world.Options{LuaDir: dir})
	setScript(t, w, "lua.traffic.routing.VirtualService.networking.istio.io", userScript)
	w.Do(t, "-n", api.ScriptNamespace, "annotate", "configmap", api.ScriptConfigMap, api.AnnotationOverride+"=true")
	w.Apply(t, "default", crd("Tunnel"))
	w.Do(t, "wait", "--for=condition=Established", "crd", "tunnels.roads.example.com")
	w.Apply(t, "default", grant("Tunnel"))

	for _, ns := range []string{"override", "directory"} {
		w.Do(t, "create", "namespace", ns)
		w.Judge(t, ns, world.Breaches, world.Overexposed, world.StableServes)
	}
	begin(t, w, "override", route(t), release(t))
	begin(t, w, "directory", laneOf("Tunnel"), through(t, "Tunnel"))

	wantScript(t, w, "override", "ConfigMap kruise-rollout/kruise-rollout-configuration", "lua.traffic.routing.VirtualService.networking.istio.io")
	if exported := toJSON(t, w.Object(t, "override", "virtualservice", "vs-demo").Object["spec"]); !strings.Contains(exported, "users-script") {
		t.Errorf("the user's script did not run: %s", exported)
	}
	wantScript(t, w, "directory", "directory "+dir, "roads.example.com/Tunnel/trafficRouting.lua")
	if spec := toJSON(t, w.Object(t, "directory", "tunnel", "road").Object["spec"]); !strings.Contains(spec, `"fromDirectory":"service-demo-canary"`) {
		t.Errorf("the script of the directory did not run: %s", spec)
	}

	// Without the annotation the built-in script is back, and the change of the ConfigMap wakes the release.
	first := w.Await(t, "override", "rollouts-demo", world.PausedAt(1)).Status.Sluice.Scripts[0].Hash
	w.Do(t, "-n", api.ScriptNamespace, "annotate", "configmap", api.ScriptConfigMap, api.AnnotationOverride+"-")
	r := w.Await(t, "override", "rollouts-demo", func(r *api.Rollout) bool { return r.Status.Sluice.Scripts[0].Source == "built-in" })
	if s := r.Status.Sluice.Scripts[0]; s.Hash == first || s.Key != "networking.istio.io/VirtualService/trafficRouting.lua" {
		t.Errorf("the script shown is %+v", s)
	}
}

const userScript = `local data = obj.data
data.spec.exportTo = {"users-script"}
table.insert(data.spec.http, 1, {
  match = {{headers = {version = {exact = "canary"}}}},
  route = {{destination = {host = obj.canaryService}}},
})
return data
`

func addToDirectory(t *testing.T, dir, group, kind, text string) {
	t.Helper()
	folder := filepath.Join(dir, group, kind)
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(folder, "trafficRouting.lua"), text)
}

// begin takes a release of the walkthrough to its first pause.
func begin(t *testing.T, w *world.World, ns, gateway, release string) {
	t.Helper()
	for _, text := range []string{service(t), deployment(t), gateway, release} {
		w.Apply(t, ns, text)
	}
	w.Await(t, ns, "rollouts-demo", resting)
	w.Do(t, "-n", ns, "rollout", "status", "deployment/workload-demo")
	w.Do(t, "-n", ns, "patch", "deployment", "workload-demo", "-p", patchVersion)
	w.Await(t, ns, "rollouts-demo", world.PausedAt(1))
}

func wantScript(t *testing.T, w *world.World, ns, source, key string) {
	t.Helper()
	scripts := w.Await(t, ns, "rollouts-demo", world.PausedAt(1)).Status.Sluice.Scripts
	if len(scripts) != 1 || scripts[0].Source != source || scripts[0].Key != key || len(scripts[0].Hash) != 12 {
		t.Errorf("the scripts shown are %+v; want %s of %s with a hash", scripts, key, source)
	}
}
