package world_test

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"sluice.dev/sluice/test/world"
)

func TestRequestsThatNobodyAnswersAreTold(t *testing.T) {
	t.Parallel()
	rollout := exposed(t, canaryStyle, executor, `{sluice: {epoch: 1, step: 1, state: StepUpgrade}}`)
	accepted := exposed(t, strings.Replace(canaryStyle, "strategy: {", "strategy: {allowUnreachableStable: true, allowDroppedEndpoints: true, ", 1), executor, `{sluice: {epoch: 1, step: 1, state: StepUpgrade}}`)
	const controller = "system:serviceaccount:kube-system:endpointslice-controller"
	listsBy := func(manager string, pods ...string) world.Write {
		var endpoints []any
		for _, pod := range pods {
			endpoints = append(endpoints, map[string]any{"targetRef": map[string]any{"name": pod}, "conditions": map[string]any{"ready": true}})
		}
		slice := &unstructured.Unstructured{Object: map[string]any{"endpoints": endpoints}}
		slice.SetLabels(map[string]string{"kubernetes.io/service-name": "app", "endpointslice.kubernetes.io/managed-by": manager})
		return world.Write{Verb: "update", User: controller, Resource: "endpointslices", Name: "app-" + manager, Code: 200, Object: slice}
	}
	lists := func(pods ...string) world.Write { return listsBy("endpointslice-controller.k8s.io", pods...) }
	service := func(user string, selector map[string]any) world.Write {
		return wrote(user, "patch", "services", "app", map[string]any{"selector": selector})
	}
	free, narrowed := service("alice", map[string]any{"app": "app"}), service(executor, map[string]any{"app": "app", "pod-template-hash": "h1"})
	route := func(weight int64) world.Write {
		to := func(host string, weight int64) any {
			return map[string]any{"destination": map[string]any{"host": host}, "weight": weight}
		}
		return wrote(executor, "update", "virtualservices", "app", map[string]any{"http": []any{map[string]any{"route": []any{to("app", 100-weight), to("app-canary", weight)}}}})
	}
	for name, c := range map[string]struct {
		writes []world.Write
		want   string
	}{
		"a step as it should be":                   {[]world.Write{rollout, free, lists("app-h1-a"), narrowed, route(20)}, ""},
		"a share while no pod is listed":           {[]world.Write{rollout, free, lists("app-h1-a"), narrowed, lists(), route(20)}, "sends 20% to app-canary for Rollout app, and Service app lists no pod"},
		"of an HTTPRoute":                          {[]world.Write{rollout, free, lists("app-h1-a"), narrowed, lists(), httpRoute(20)}, "httproutes/app sends 20% to app-canary for Rollout app, and Service app lists no pod"},
		"of an Ingress":                            {[]world.Write{rollout, free, lists("app-h1-a"), narrowed, lists(), canaryIngress("20")}, "ingresses/app-canary sends 20% to app-canary for Rollout app, and Service app lists no pod"},
		"a share while only a foreign slice lists": {[]world.Write{rollout, free, lists("app-h1-a"), narrowed, lists(), listsBy("mesh", "app-h1-a"), route(20)}, "Service app lists no pod"},
		"others of a foreign slice":                {[]world.Write{rollout, free, lists("app-h1-a"), listsBy("mesh", "batch-1"), narrowed}, ""},
		"less of it":                               {[]world.Write{rollout, free, lists("app-h1-a"), narrowed, route(20), lists(), route(0)}, ""},
		"a share that its owner accepts":           {[]world.Write{accepted, free, lists("app-h1-a"), narrowed, lists(), route(20)}, ""},
		"a share after somebody has deleted pods":  {[]world.Write{rollout, free, narrowed, lists(), deleted("alice", "pods", "app-h1-a"), route(20)}, ""},
		"a Service that selects all versions":      {[]world.Write{rollout, free, lists(), route(20)}, ""},
		"a Service that is narrowed beside others": {[]world.Write{rollout, free, lists("app-h1-a", "batch-1"), narrowed}, "Service app was narrowed for Rollout app while it had pods of others: [batch-1]"},
		"others whose end its owner accepts":       {[]world.Write{accepted, free, lists("app-h1-a", "batch-1"), narrowed}, ""},
		"a user who narrows a Service":             {[]world.Write{rollout, free, lists("batch-1"), service("alice", map[string]any{"pod-template-hash": "h1"})}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := strings.Join(world.StableServes(slices.Clone(c.writes)), "\n")
			if c.want == "" && got != "" || !strings.Contains(got, c.want) {
				t.Errorf("breaches are %q, want %q", got, c.want)
			}
		})
	}
}
