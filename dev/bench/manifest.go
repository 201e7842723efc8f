package main

import "fmt"

// label carries the name of the fleet that an object belongs to.
const label = "bench.sluice.dev/fleet"

type object = map[string]any

// shape is what the objects of a fleet look like.
type shape struct {
	replicas, steps, grace int
	style                  string
}

// manifests are the objects of one release, in the order in which they are created, by the path of their collection.
func (s shape) manifests(fleet, namespace, name string) []struct {
	path string
	body object
} {
	meta := object{"name": name, "labels": object{label: fleet}}
	return []struct {
		path string
		body object
	}{
		{collection("/api/v1", namespace, "services"), service(meta, name)},
		{collection("/apis/networking.istio.io/v1beta1", namespace, "virtualservices"), virtualService(meta, name)},
		{collection(deploymentsPath, namespace, "deployments"), deployment(meta, name, s.replicas)},
		{collection(rolloutsPath, namespace, "rollouts"), s.rollout(meta, name)},
	}
}

func service(meta object, name string) object {
	return object{"apiVersion": "v1", "kind": "Service", "metadata": meta,
		"spec": object{"selector": object{"app": name}, "ports": []any{object{"name": "http", "port": 80}}}}
}

func virtualService(meta object, name string) object {
	return object{"apiVersion": "networking.istio.io/v1beta1", "kind": "VirtualService", "metadata": meta,
		"spec": object{"hosts": []any{name + ".example"}, "gateways": []any{"gateway"},
			"http": []any{object{"route": []any{object{"destination": object{"host": name}}}}}}}
}

func deployment(meta object, name string, replicas int) object {
	return object{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta, "spec": object{
		"replicas": replicas, "revisionHistoryLimit": 1, "selector": object{"matchLabels": object{"app": name}},
		"template": object{"metadata": object{"labels": object{"app": name}}, "spec": object{"containers": []any{
			object{"name": "main", "image": "app", "env": []any{object{"name": "version", "value": "0"}}, "ports": []any{object{"containerPort": 80}}},
		}}},
	}}
}

// rollout has steps that share the way evenly and wait for approval, so that no step has all replicas.
func (s shape) rollout(meta object, name string) object {
	steps := make([]any, 0, s.steps)
	for i := 1; i <= s.steps; i++ {
		share := fmt.Sprintf("%d%%", 100*i/(s.steps+1))
		steps = append(steps, object{"replicas": share, "traffic": share, "pause": object{}})
	}
	return object{"apiVersion": "rollouts.kruise.io/v1beta1", "kind": "Rollout", "metadata": meta, "spec": object{
		"workloadRef": object{"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
		"strategy": object{"canary": object{
			"enableExtraWorkloadForCanary": s.style == "canary", "steps": steps,
			"trafficRoutings": []any{object{"service": name, "gracePeriodSeconds": s.grace, "customNetworkRefs": []any{
				object{"apiVersion": "networking.istio.io/v1beta1", "kind": "VirtualService", "name": name},
			}}},
		}},
	}}
}

// newVersion is the patch of a Deployment that begins a release.
func newVersion(version string) string {
	return fmt.Sprintf(`{"spec":{"template":{"spec":{"containers":[{"name":"main","env":[{"name":"version","value":%q}]}]}}}}`, version)
}

// approval is the patch of a Rollout's status that everybody approves with.
const approval = `{"status":{"canaryStatus":{"currentStepState":"StepReady"}}}`
