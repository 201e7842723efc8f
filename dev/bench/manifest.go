package main

import (
	"encoding/json"
	"fmt"

	"sluice.dev/sluice/pkg/api"
)

// label holds the name of the set of an object.
const label = "bench.sluice.dev/set"

type object = map[string]any

// shape describes the objects of a set.
type shape struct {
	replicas, steps, grace int
	style                  string
	// adopted: the Deployments have the marks of their Rollouts from the start.
	adopted bool
	// governed: a FleetRollout of the same namespace and name governs each Rollout.
	governed bool
}

func labelsOf(set string) object { return object{label: set} }

// manifests returns the objects of one release, in the order of their creation, with the path of their collection.
func (s shape) manifests(set, namespace, name string) []struct {
	path string
	body object
} {
	meta := object{"name": name, "labels": labelsOf(set)}
	workload := meta
	if s.adopted {
		workload = object{"name": name, "labels": object{label: set, api.LabelWorkloadType: api.WorkloadTypeDeployment},
			"annotations": object{api.AnnotationRollout: name}}
	}
	return []struct {
		path string
		body object
	}{
		{collection("/api/v1", namespace, "services"), service(meta, name)},
		{collection(virtualServicesPath, namespace, "virtualservices"), virtualService(meta, name)},
		{collection(deploymentsPath, namespace, "deployments"), deployment(workload, name, s.replicas)},
		{collection(rolloutsPath, namespace, "rollouts"), s.governedRollout(meta, namespace, name)},
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

// routed sets the routing of a step in a VirtualService, with annotations as long as an executor's.
func routed(route object, name, rolloutUID string, share int) {
	meta, spec := route["metadata"].(object), route["spec"].(object)
	original, _ := json.Marshal(object{"spec": spec, "labels": meta["labels"]})
	releases, _ := json.Marshal(object{rolloutUID: object{"name": name, "service": name, "canaryService": name + api.SuffixCanary, "epoch": 1, "weight": share}})
	meta["annotations"] = object{api.AnnotationOriginalSpec: string(original), api.AnnotationReleases: string(releases),
		api.AnnotationRendered: `{"desired":"d544600f86a86f53.3f9fc2bbff962e1a","kept":"d544600f86a86f53.3f9fc2bbff962e1a"}`}
	to := func(host string, weight int) object {
		return object{"destination": object{"host": host}, "weight": weight}
	}
	spec["http"] = []any{object{"route": []any{to(name, 100-share), to(name+api.SuffixCanary, share)}}}
}

// share returns the percentage of pods and traffic of a step. The steps are evenly spaced.
func (s shape) share(step int) int { return 100 * step / (s.steps + 1) }

// rollout returns a Rollout with steps that wait for approval; none of them has all replicas.
func (s shape) rollout(meta object, name string) object {
	steps := make([]any, 0, s.steps)
	for i := 1; i <= s.steps; i++ {
		share := fmt.Sprintf("%d%%", s.share(i))
		steps = append(steps, object{"replicas": share, "traffic": share, "pause": object{}})
	}
	return object{"apiVersion": "rollouts.kruise.io/v1beta1", "kind": "Rollout", "metadata": meta, "spec": object{
		"workloadRef": object{"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
		"strategy": s.strategy(object{"steps": steps,
			"trafficRoutings": []any{object{"service": name, "gracePeriodSeconds": s.grace, "customNetworkRefs": []any{
				object{"apiVersion": "networking.istio.io/v1beta1", "kind": "VirtualService", "name": name},
			}}},
		}),
	}}
}

// governedRollout returns a Rollout, with its fleet if the shape has one.
func (s shape) governedRollout(meta object, namespace, name string) object {
	r := s.rollout(meta, name)
	if s.governed {
		r["spec"].(object)["fleet"] = object{"namespace": namespace, "name": name}
	}
	return r
}

// strategy returns the strategy with the steps at the place for their style.
func (s shape) strategy(of object) object {
	if s.style == styleBlueGreen {
		return object{"blueGreen": of}
	}
	of["enableExtraWorkloadForCanary"] = s.style == styleCanary
	return object{"canary": of}
}

// newVersion returns the patch of a Deployment that begins a release. A fleet knows the version by its name.
func (s shape) newVersion(version string) string {
	metadata := ""
	if s.governed {
		metadata = fmt.Sprintf(`"metadata":{"annotations":{%q:%q}},`, api.AnnotationVersion, version)
	}
	return fmt.Sprintf(`{%s"spec":{"template":{"spec":{"containers":[{"name":"main","env":[{"name":"version","value":%q}]}]}}}}`, metadata, version)
}

// approval returns the patch of a Rollout's status with which clients approve.
func (s shape) approval() string {
	if s.style == styleBlueGreen {
		return `{"status":{"blueGreenStatus":{"currentStepState":"StepReady"}}}`
	}
	return `{"status":{"canaryStatus":{"currentStepState":"StepReady"}}}`
}
