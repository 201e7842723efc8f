package workload

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// routed adds a VirtualService that sends the traffic of each step.
func routed(all objects) {
	all["VirtualService"] = &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "networking.istio.io/v1", "kind": "VirtualService", "metadata": map[string]any{"name": name},
		"spec": map[string]any{
			"hosts": []any{"shop.example.com"},
			"http":  []any{map[string]any{"route": []any{map[string]any{"destination": map[string]any{"host": name}}}}},
		},
	}}
	steps(all, func(n int, step map[string]any) { step["traffic"] = fmt.Sprintf("%d%%", weights[n]) })
	set(all["Rollout"], []any{map[string]any{
		"service":           name,
		"customNetworkRefs": []any{map[string]any{"apiVersion": "networking.istio.io/v1", "kind": "VirtualService", "name": name}},
	}}, "spec", "strategy", "canary", "trafficRoutings")
}

// plain leaves the traffic to the Service.
func plain(all objects) {
	delete(all, "VirtualService")
	unstructured.RemoveNestedField(all["Rollout"].Object, "spec", "strategy", "canary", "trafficRoutings")
	steps(all, func(_ int, step map[string]any) { delete(step, "traffic") })
}

// steps changes each step of the Rollout.
func steps(all objects, change func(int, map[string]any)) {
	list, _, _ := unstructured.NestedSlice(all["Rollout"].Object, "spec", "strategy", "canary", "steps")
	for n := range list {
		change(n, list[n].(map[string]any))
	}
	set(all["Rollout"], list, "spec", "strategy", "canary", "steps")
}

// hasty removes the wait for traffic, and the delay for pods of an aborted release.
func hasty(all objects) {
	set(all["Rollout"], int64(0), "spec", "strategy", "canary", "abortScaleDownDelaySeconds")
	routings, found, _ := unstructured.NestedSlice(all["Rollout"].Object, "spec", "strategy", "canary", "trafficRoutings")
	if !found {
		return
	}
	routings[0].(map[string]any)["gracePeriodSeconds"] = int64(0)
	set(all["Rollout"], routings, "spec", "strategy", "canary", "trafficRoutings")
}

// strategy sets a field of the workload's update strategy.
func strategy(value any, fields ...string) option {
	return func(all objects) {
		set(all["workload"], value, append([]string{"spec", "updateStrategy"}, fields...)...)
	}
}
