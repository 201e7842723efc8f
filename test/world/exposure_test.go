package world_test

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"sluice.dev/sluice/test/world"
)

// exposed is a Rollout of three steps whose status is what is given, in flow style.
func exposed(t *testing.T, user, status string) world.Write {
	t.Helper()
	u := &unstructured.Unstructured{}
	text := `{metadata: {name: app}, spec: {workloadRef: {apiVersion: apps/v1, kind: Deployment, name: app}, strategy: {canary: {
		enableExtraWorkloadForCanary: true, steps: [{replicas: 1, traffic: 20%}, {replicas: 50%, traffic: 50%}, {replicas: 3, traffic: 80%}],
		trafficRoutings: [{service: app, customNetworkRefs: [{apiVersion: networking.istio.io/v1, kind: VirtualService, name: app}]}]}}}, status: ` + status + `}`
	if err := yaml.Unmarshal([]byte(text), &u.Object); err != nil {
		t.Fatal(err)
	}
	return world.Write{Verb: "update", User: user, Resource: "rollouts", Subresource: "status", Name: "app", Code: 200, Object: u}
}

func TestExposureAboveTheApprovedStepIsToldAndLawfulExposureIsNot(t *testing.T) {
	t.Parallel()
	at := func(step int, state string) world.Write {
		return exposed(t, executor, fmt.Sprintf(`{sluice: {epoch: 1, step: %d, state: %s}, canaryStatus: {currentStepIndex: %d, currentStepState: %s, nextStepIndex: %d}}`, step, state, step, state, step+1))
	}
	user := func(status string) world.Write { return exposed(t, "alice", status) }
	approve := user(`{sluice: {epoch: 1, step: 1, state: StepPaused}, canaryStatus: {currentStepIndex: 1, currentStepState: StepReady, nextStepIndex: 2}}`)
	jump := user(`{sluice: {epoch: 1, step: 1, state: StepPaused}, canaryStatus: {currentStepIndex: 1, currentStepState: StepPaused, nextStepIndex: 3}}`)
	promote := user(`{sluice: {epoch: 1, step: 1, state: StepPaused}, command: {action: Promote, epoch: 1, actor: alice}, canaryStatus: {currentStepIndex: 1, currentStepState: StepPaused, nextStepIndex: 2}}`)
	ended := exposed(t, executor, `{sluice: {epoch: 1, step: 3, state: Finalising, finaliseReason: Success}}`)
	workload := wrote("alice", "create", "deployments", "app", map[string]any{"replicas": float64(4)})
	autoscaler := wrote("alice", "create", "horizontalpodautoscalers", "app", map[string]any{"maxReplicas": float64(8), "scaleTargetRef": map[string]any{"name": "app"}})
	canary := func(n float64) world.Write {
		w := wrote(executor, "update", "deployments", "app-canary", map[string]any{"replicas": n})
		labels := w.Object.GetLabels()
		labels["rollouts.kruise.io/canary-deployment"] = "app"
		w.Object.SetLabels(labels)
		return w
	}
	route := func(weight float64) world.Write {
		return wrote(executor, "update", "virtualservices", "app", map[string]any{"http": []any{map[string]any{"route": []any{
			map[string]any{"destination": map[string]any{"host": "app"}, "weight": 100 - weight},
			map[string]any{"destination": map[string]any{"host": "app-canary"}, "weight": weight},
		}}}})
	}
	for name, c := range map[string]struct {
		writes []world.Write
		want   string
	}{
		"what the step allows":               {[]world.Write{workload, at(1, "StepUpgrade"), canary(1), route(20), at(1, "StepPaused")}, ""},
		"a step that was approved":           {[]world.Write{workload, at(1, "StepPaused"), approve, at(2, "StepUpgrade"), canary(2), route(50)}, ""},
		"a step that nobody approved":        {[]world.Write{workload, at(1, "StepPaused"), at(2, "StepUpgrade")}, "step 1 of release 1 of Rollout app was passed without an approval"},
		"two steps for one approval":         {[]world.Write{at(1, "StepPaused"), approve, at(3, "StepUpgrade")}, "step 2 of release 1"},
		"a jump":                             {[]world.Write{workload, at(1, "StepPaused"), jump, at(3, "StepUpgrade"), canary(3)}, ""},
		"a success before the last step":     {[]world.Write{at(1, "StepPaused"), approve, ended}, "step 2 of release 1"},
		"a success that somebody asked for":  {[]world.Write{at(1, "StepPaused"), promote, ended}, ""},
		"pods of a step to come":             {[]world.Write{workload, at(1, "StepUpgrade"), canary(2)}, "the canary app-canary got 2 pods when Rollout app had come to a step of 1"},
		"pods of a workload that was scaled": {[]world.Write{workload, autoscaler, at(1, "StepPaused"), approve, at(2, "StepUpgrade"), canary(4)}, ""},
		"traffic of a step to come":          {[]world.Write{workload, at(1, "StepTrafficRouting"), route(50)}, "sends 50% to app-canary when Rollout app was at a step of 20%"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := strings.Join(world.Overexposed(c.writes), "\n")
			if c.want == "" && got != "" || !strings.Contains(got, c.want) {
				t.Errorf("breaches are %q, want %q", got, c.want)
			}
		})
	}
}
