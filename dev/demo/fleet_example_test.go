package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/cel-go/cel"
	lua "github.com/yuin/gopher-lua"
	"k8s.io/apimachinery/pkg/util/yaml"
)

const fleetExamples = "../../examples/fleet"

// objectsOf reads the objects of a manifest.
func objectsOf(t *testing.T, text string) (objects []map[string]any) {
	t.Helper()
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader([]byte(text)), 4096)
	for {
		var object map[string]any
		if err := decoder.Decode(&object); err == io.EOF {
			return objects
		} else if err != nil {
			t.Fatal(err)
		}
		objects = append(objects, object)
	}
}

func example(t *testing.T, name string) []map[string]any {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(fleetExamples, name))
	if err != nil {
		t.Fatal(err)
	}
	return objectsOf(t, string(text))
}

func TestArgoCDShowsTheHealthOfHeldObjects(t *testing.T) {
	t.Parallel()
	const held = `annotations: {rollouts.kruise.io/in-progressing: '{"rolloutName":"checkout"}'}`
	scripts := example(t, "argocd/argocd-cm.yaml")[0]["data"].(map[string]any)
	for name, c := range map[string]struct{ kind, object, want string }{
		"held, and the old pods serve": {"apps_Deployment",
			`{metadata: {generation: 2, ` + held + `}, spec: {replicas: 4, paused: true}, status: {observedGeneration: 2, replicas: 4, availableReplicas: 4}}`, "Healthy"},
		"held, and a pod is missing": {"apps_Deployment",
			`{metadata: {generation: 2, ` + held + `}, spec: {replicas: 4, paused: true}, status: {observedGeneration: 2, replicas: 4, availableReplicas: 3}}`, "Progressing"},
		"paused by its owner": {"apps_Deployment",
			`{metadata: {generation: 2}, spec: {replicas: 4, paused: true}, status: {observedGeneration: 2, replicas: 4, availableReplicas: 4}}`, "Suspended"},
		"just changed": {"apps_Deployment",
			`{metadata: {generation: 3, ` + held + `}, spec: {replicas: 4, paused: true}, status: {observedGeneration: 2, replicas: 4, availableReplicas: 4}}`, "Progressing"},
		"at rest": {"apps_Deployment",
			`{metadata: {generation: 2}, spec: {replicas: 4}, status: {observedGeneration: 2, replicas: 4, updatedReplicas: 4, availableReplicas: 4}}`, "Healthy"},
		"updated without Sluice": {"apps_Deployment",
			`{metadata: {generation: 2}, spec: {replicas: 4}, status: {observedGeneration: 2, replicas: 5, updatedReplicas: 4, availableReplicas: 4}}`, "Progressing"},
		"stuck without Sluice": {"apps_Deployment",
			`{metadata: {generation: 2}, spec: {replicas: 4}, status: {observedGeneration: 2, conditions: [{type: Progressing, reason: ProgressDeadlineExceeded, message: m}]}}`, "Degraded"},
		"scaled to nothing": {"apps_Deployment", `{metadata: {generation: 1}, spec: {replicas: 0}, status: {observedGeneration: 1}}`, "Healthy"},
		"a Rollout that waits for a permit": {"rollouts.kruise.io_Rollout",
			`{metadata: {generation: 1}, status: {observedGeneration: 1, phase: Progressing, message: waiting for a permit}}`, "Healthy"},
		"a Rollout at rest":         {"rollouts.kruise.io_Rollout", `{metadata: {generation: 1}, status: {observedGeneration: 1, phase: Healthy}}`, "Healthy"},
		"a new Rollout":             {"rollouts.kruise.io_Rollout", `{metadata: {generation: 1}}`, "Progressing"},
		"a Rollout that was edited": {"rollouts.kruise.io_Rollout", `{metadata: {generation: 2}, status: {observedGeneration: 1, phase: Healthy}}`, "Progressing"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			state := lua.NewState()
			defer state.Close()
			state.SetGlobal("obj", luaValue(state, objectsOf(t, c.object)[0]))
			if err := state.DoString(scripts["resource.customizations.health."+c.kind].(string)); err != nil {
				t.Fatal(err)
			}
			if got := state.GetField(state.Get(-1), "status").String(); got != c.want {
				t.Errorf("its health is %s, want %s", got, c.want)
			}
		})
	}
}

// luaValue converts a value of YAML.
func luaValue(state *lua.LState, value any) lua.LValue {
	switch v := value.(type) {
	case map[string]any:
		table := state.NewTable()
		for key, item := range v {
			table.RawSetString(key, luaValue(state, item))
		}
		return table
	case []any:
		table := state.NewTable()
		for _, item := range v {
			table.Append(luaValue(state, item))
		}
		return table
	case string:
		return lua.LString(v)
	case bool:
		return lua.LBool(v)
	case int64:
		return lua.LNumber(v)
	case float64:
		return lua.LNumber(v)
	}
	return lua.LNil
}

func TestFluxShowsTheHealthOfRollouts(t *testing.T) {
	t.Parallel()
	checks := example(t, "flux/kustomization.yaml")[1]["spec"].(map[string]any)["healthCheckExprs"].([]any)[0].(map[string]any)
	for name, c := range map[string]struct {
		object              string
		inProgress, current bool
	}{
		"one that waits for a permit": {`{metadata: {generation: 1}, status: {observedGeneration: 1, phase: Progressing}}`, false, true},
		"one at rest":                 {`{metadata: {generation: 1}, status: {observedGeneration: 1, phase: Healthy}}`, false, true},
		"one that was edited":         {`{metadata: {generation: 2}, status: {observedGeneration: 1, phase: Healthy}}`, true, true},
		"one that was just seen":      {`{metadata: {generation: 1}, status: {}}`, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for expression, want := range map[string]bool{"inProgress": c.inProgress, "current": c.current} {
				if got := evaluate(t, checks[expression].(string), objectsOf(t, c.object)[0]); got != want {
					t.Errorf("%s is %t, want %t", expression, got, want)
				}
			}
		})
	}
}

// evaluate evaluates an expression as Flux does, which has the fields of the object as variables.
func evaluate(t *testing.T, expression string, object map[string]any) bool {
	t.Helper()
	env, err := cel.NewEnv(cel.Variable("metadata", cel.DynType), cel.Variable("status", cel.DynType))
	if err != nil {
		t.Fatal(err)
	}
	ast, issues := env.Compile(expression)
	if issues.Err() != nil {
		t.Fatal(issues.Err())
	}
	program, err := env.Program(ast)
	if err != nil {
		t.Fatal(err)
	}
	value, _, err := program.Eval(object)
	if err != nil {
		t.Fatal(err)
	}
	return value.Value() == true
}
