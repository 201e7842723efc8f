package scenario

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/test/world"
)

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

func slug(name string) string { return strings.ToLower(strings.ReplaceAll(name, " ", "-")) }

// service and deployment return the two halves of the walkthrough's workload. One replica is enough to hold.
func service(t *testing.T) string {
	text, _, _ := strings.Cut(world.Seed(t, "istio-walkthrough/workload.yaml"), "---\n")
	return text
}

func deployment(t *testing.T) string {
	_, text, _ := strings.Cut(world.Seed(t, "istio-walkthrough/workload.yaml"), "---\n")
	return strings.Replace(text, "replicas: 3", "replicas: 1", 1)
}

func route(t *testing.T) string { return world.Seed(t, "istio-walkthrough/virtualservice.yaml") }

func release(t *testing.T) string { return world.Seed(t, "istio-walkthrough/rollout.yaml") }

// through returns the walkthrough's Rollout with another kind of gateway object.
func through(t *testing.T, kind string) string {
	return swap(t, release(t), "networking.istio.io/v1alpha3", "roads.example.com/v1", "kind: VirtualService", "kind: "+kind, "name: vs-demo", "name: road")
}

// swap replaces parts of a text. Each part must be there.
func swap(t *testing.T, text string, oldnew ...string) string {
	t.Helper()
	for i := 0; i < len(oldnew); i += 2 {
		if !strings.Contains(text, oldnew[i]) {
			t.Fatalf("%q is not in\n%s", oldnew[i], text)
		}
		text = strings.Replace(text, oldnew[i], oldnew[i+1], 1)
	}
	return text
}

// unsupported returns a Rollout with a field that this version does not carry out.
func unsupported(t *testing.T) string {
	return swap(t, release(t), "enableExtraWorkloadForCanary: true", "capacity: Constant")
}

const laneScript = `local data = obj.data
data.spec["canary"] = obj.canaryService
return data
`

// crd returns the definition of an unknown gateway kind.
func crd(kind string) string {
	plural := strings.ToLower(kind) + "s"
	return swapAll(`apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: PLURAL.roads.example.com}
spec:
  group: roads.example.com
  names: {kind: KIND, listKind: KINDList, plural: PLURAL, singular: SINGULAR}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`, kind, plural)
}

func grant(kind string) string {
	return swapAll(`apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: road-KIND
  labels: {sluice.dev/aggregate-to-executor: "true", sluice.dev/aggregate-to-watcher: "true"}
rules:
- {apiGroups: [roads.example.com], resources: [PLURAL], verbs: [get, list, watch, update, patch]}
`, strings.ToLower(kind), strings.ToLower(kind)+"s")
}

func laneOf(kind string) string {
	return swapAll("apiVersion: roads.example.com/v1\nkind: KIND\nmetadata: {name: road}\nspec: {to: service-demo}\n", kind, "")
}

func swapAll(text, kind, plural string) string {
	return strings.NewReplacer("KIND", kind, "PLURAL", plural, "SINGULAR", strings.ToLower(kind)).Replace(text)
}

const foreignDeployment = `apiVersion: apps/v1
kind: Deployment
metadata: {name: workload-demo-canary}
spec:
  replicas: 1
  selector: {matchLabels: {app: somebody-else}}
  template:
    metadata: {labels: {app: somebody-else}}
    spec: {containers: [{name: c, image: c}]}
`

const foreignService = `apiVersion: v1
kind: Service
metadata: {name: service-demo-canary}
spec: {selector: {app: somebody-else}, ports: [{port: 80}]}
`

func apply(text string) func(*testing.T, *world.World, string, string) {
	return func(t *testing.T, w *world.World, ns, _ string) { t.Helper(); w.Apply(t, ns, text) }
}

// correct replaces the whole object, so that removed fields go.
func correct(text string) func(*testing.T, *world.World, string, string) {
	return func(t *testing.T, w *world.World, ns, _ string) {
		t.Helper()
		if _, err := w.KubectlStdin(t.Context(), text, "replace", "-n", ns, "-f", "-"); err != nil {
			t.Fatal(err)
		}
	}
}

func rollBackAndCorrect(text string) func(*testing.T, *world.World, string, string) {
	return func(t *testing.T, w *world.World, ns, _ string) {
		t.Helper()
		w.Do(t, "-n", ns, "patch", "deployment", "workload-demo", "-p", strings.Replace(patchVersion, "canary", "base", 1))
		w.Await(t, ns, "rollouts-demo", world.Healthy)
		correct(text)(t, w, ns, "")
		w.Await(t, ns, "rollouts-demo", func(r *api.Rollout) bool { return world.Condition(r, api.ConditionStalled) == nil })
		w.Do(t, "-n", ns, "patch", "deployment", "workload-demo", "-p", patchVersion)
	}
}

func deleteObject(kind, name string) func(*testing.T, *world.World, string, string) {
	return func(t *testing.T, w *world.World, ns, _ string) { t.Helper(); w.Do(t, "-n", ns, "delete", kind, name) }
}

// addScript puts the script of a kind into the ConfigMap, and creates the ConfigMap if it is missing.
func addScript(kind, text string) func(*testing.T, *world.World, string, string) {
	return func(t *testing.T, w *world.World, _, _ string) {
		t.Helper()
		setScript(t, w, "lua.traffic.routing."+kind+".roads.example.com", text)
	}
}

func setScript(t *testing.T, w *world.World, key, text string) {
	t.Helper()
	if _, err := w.Kubectl(t.Context(), "get", "namespace", api.ScriptNamespace); err != nil {
		w.Do(t, "create", "namespace", api.ScriptNamespace)
		w.Do(t, "-n", api.ScriptNamespace, "create", "configmap", api.ScriptConfigMap)
	}
	patch, err := json.Marshal(map[string]any{"data": map[string]string{key: text}})
	if err != nil {
		t.Fatal(err)
	}
	w.Do(t, "-n", api.ScriptNamespace, "patch", "configmap", api.ScriptConfigMap, "--type=merge", "-p", string(patch))
}

// revokeRamp removes the permission and waits until this takes effect: roles are aggregated a moment later.
func revokeRamp(t *testing.T, w *world.World, _, _ string) {
	t.Helper()
	w.Do(t, "delete", "clusterrole", "road-ramp")
	const executor = "--as=system:serviceaccount:" + api.DefaultNamespace + ":" + api.DefaultExecutor
	for {
		// can-i fails when the answer is no.
		if out, _ := w.Kubectl(t.Context(), "auth", "can-i", "get", "ramps.roads.example.com", executor); strings.TrimSpace(out) == "no" {
			return
		}
		if t.Context().Err() != nil {
			t.Fatal("the permission is still there")
		}
	}
}

// applyPrinted follows the message: it applies the YAML at the end of the message.
func applyPrinted(t *testing.T, w *world.World, ns, message string) {
	t.Helper()
	at := strings.Index(message, "apiVersion:")
	if at < 0 {
		t.Fatalf("the message holds no YAML to apply:\n%s", message)
	}
	w.Apply(t, ns, message[at:])
}

// installFerry first installs the kind. It creates the object only after the release has noticed the kind.
func installFerry(t *testing.T, w *world.World, ns, _ string) {
	t.Helper()
	w.Apply(t, ns, crd("Ferry"))
	w.Await(t, ns, "rollouts-demo", func(r *api.Rollout) bool { return strings.Contains(r.Status.Message, "Ferry road does not exist") })
	w.Apply(t, ns, laneOf("Ferry"))
}
