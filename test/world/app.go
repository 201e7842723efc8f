package world

import (
	"context"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"sluice.dev/sluice/pkg/api"
)

// App has the objects that users create for a release: a Service, a workload with the image app:1, a VirtualService and
// a Rollout. All have the same name. App is for tests with many releases. A test of a single story shows its own
// manifests.
type App struct {
	Name         string
	Replicas     int64
	Steps        []Step
	GraceSeconds int
	// Kind is the kind of the application. The empty kind is a Deployment with a canary Deployment.
	Kind AppKind
	// Governed: a fleet governs the Rollout.
	Governed bool
}

// AppKind is a kind of [App].
type AppKind string

const (
	// InPlace is a Deployment that replaces its own pods.
	InPlace AppKind = "partition"
	// Daemons is a DaemonSet that replaces its own pods. It has a pod on each node, regardless of Replicas.
	Daemons AppKind = "daemonset"
	// Ordered is a StatefulSet that replaces its own pods.
	Ordered AppKind = "statefulset"
	// Cloned is a CloneSet that replaces its own pods. It needs the controllers of OpenKruise.
	Cloned AppKind = "cloneset"
	// BlueGreen is a Deployment that runs both versions, each with all its pods.
	BlueGreen AppKind = "blue-green"
	// Recreated is a Deployment with a canary Deployment. It deletes all of its own pods before it creates others.
	Recreated AppKind = "recreate"
	// Ingressed is a Deployment with a canary Deployment that a canary Ingress leads to.
	Ingressed AppKind = "ingress"
	// Attached is a Deployment with a canary Deployment, and a DestinationRule of the Service.
	Attached AppKind = "policy"
)

// change adapts the manifests to the kind.
func (k AppKind) change(text string) string {
	const beside = "      enableExtraWorkloadForCanary: true\n"
	switch k {
	case InPlace:
		return strings.Replace(text, beside, "", 1)
	case Daemons:
		return strings.NewReplacer(beside, "", "kind: Deployment", "kind: DaemonSet", "  replicas: REPLICAS\n", "").Replace(text)
	case Ordered:
		return strings.NewReplacer(beside, "", "kind: Deployment", "kind: StatefulSet").Replace(text)
	case Cloned:
		return strings.NewReplacer(beside, "", "apps/v1", "apps.kruise.io/v1alpha1", "kind: Deployment", "kind: CloneSet").Replace(text)
	case BlueGreen:
		return strings.NewReplacer(beside, "", "    canary:\n", "    blueGreen:\n").Replace(text)
	case Recreated:
		return strings.Replace(text, "  replicas: REPLICAS\n", "  replicas: REPLICAS\n  strategy: {type: Recreate}\n", 1)
	case Attached:
		return strings.Replace(text, virtualService, virtualService+"---\n"+destinationRule, 1)
	case Ingressed:
		return strings.NewReplacer(virtualService, ingress, referToVirtualService, "ingress: {name: NAME, classType: nginx}").Replace(text)
	}
	return text
}

// Resource returns the resource of the workload.
func (k AppKind) Resource() schema.GroupVersionResource {
	apps := schema.GroupVersion{Group: "apps", Version: "v1"}
	switch k {
	case Daemons:
		return apps.WithResource("daemonsets")
	case Ordered:
		return apps.WithResource("statefulsets")
	case Cloned:
		return schema.GroupVersionResource{Group: "apps.kruise.io", Version: "v1alpha1", Resource: "clonesets"}
	}
	return apps.WithResource("deployments")
}

// IngressResource returns the resource of Ingresses.
func IngressResource() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "networking.k8s.io", Version: "v1", Resource: "ingresses"}
}

// DestinationRuleResource returns the resource of DestinationRules.
func DestinationRuleResource() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "networking.istio.io", Version: "v1", Resource: "destinationrules"}
}

// Step is a step of an [App]: a number of canary pods, and a percentage of the traffic.
type Step struct{ Replicas, Weight int64 }

const (
	virtualService = `apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: NAME}
spec: {hosts: [NAME.example.com], http: [{route: [{destination: {host: NAME}}]}]}
`
	destinationRule = `apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: NAME}
spec: {host: NAME, trafficPolicy: {tls: {mode: SIMPLE}}}
`
	referToVirtualService = "customNetworkRefs: [{apiVersion: networking.istio.io/v1, kind: VirtualService, name: NAME}]"
	ingress               = `apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: NAME}
spec: {rules: [{host: NAME.example.com, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: NAME, port: {number: 80}}}}]}}]}
`
)

const appManifests = `apiVersion: v1
kind: Service
metadata: {name: NAME}
spec: {selector: {app: NAME}, ports: [{port: 80}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: NAME}
spec:
  replicas: REPLICAS
  selector: {matchLabels: {app: NAME}}
  template:
    metadata: {labels: {app: NAME}}
    spec: {containers: [{name: c, image: "app:1"}]}
---
` + virtualService + `---
apiVersion: rollouts.kruise.io/v1beta1
kind: Rollout
metadata: {name: NAME}
spec:
  workloadRef: {apiVersion: apps/v1, kind: Deployment, name: NAME}
  strategy:
    canary:
      enableExtraWorkloadForCanary: true
      steps: [STEPS]
      trafficRoutings:
      - service: NAME
        gracePeriodSeconds: GRACE
        ` + referToVirtualService + `
`

// Create creates the objects of the application in a namespace. It does not wait for them.
func (a App) Create(ctx context.Context, client dynamic.Interface, namespace string) error {
	var steps []string
	for _, s := range a.Steps {
		steps = append(steps, fmt.Sprintf("{replicas: %d, traffic: %d%%}", s.Replicas, s.Weight))
	}
	text := strings.NewReplacer("NAME", a.Name, "REPLICAS", fmt.Sprint(a.Replicas), "STEPS", strings.Join(steps, ", "), "GRACE", fmt.Sprint(a.GraceSeconds)).
		Replace(a.Kind.change(appManifests))
	route := schema.GroupVersionResource{Group: "networking.istio.io", Version: "v1", Resource: "virtualservices"}
	if a.Kind == Ingressed {
		route = IngressResource()
	}
	kinds := []schema.GroupVersionResource{{Version: "v1", Resource: "services"}, a.Kind.Resource(), route}
	if a.Kind == Attached {
		kinds = append(kinds, DestinationRuleResource())
	}
	kinds = append(kinds, api.RolloutResource())
	for i, manifest := range strings.Split(text, "---\n") {
		u := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(manifest), &u.Object); err != nil {
			return fmt.Errorf("read %s of application %s: %w", kinds[i].Resource, a.Name, err)
		}
		if a.Governed && kinds[i] == api.RolloutResource() {
			if err := unstructured.SetNestedMap(u.Object, map[string]any{"namespace": "shop", "name": a.Name}, "spec", "fleet"); err != nil {
				return err
			}
		}
		if _, err := client.Resource(kinds[i]).Namespace(namespace).Create(ctx, u, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("create %s of application %s: %w", kinds[i].Resource, a.Name, err)
		}
	}
	return nil
}
