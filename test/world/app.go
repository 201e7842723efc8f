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

// App is what users make to release something: a Service, a workload with the image app:1, a VirtualService and a Rollout, all of
// one name. It is for tests of many releases, or of one again and again; those of a single story show their own manifests.
type App struct {
	Name         string
	Replicas     int64
	Steps        []Step
	GraceSeconds int
	// Kind is how the pods of a new version come; a canary Deployment runs beside the workload where none is named.
	Kind AppKind
}

// AppKind is a kind of [App].
type AppKind string

const (
	// InPlace is a Deployment that replaces its own pods.
	InPlace AppKind = "partition"
	// Daemons is a DaemonSet that does so. It has a pod on each node, whatever Replicas says.
	Daemons AppKind = "daemonset"
	// Ordered is a StatefulSet that does so.
	Ordered AppKind = "statefulset"
	// Cloned is a CloneSet that does so, for which OpenKruise's controllers have to run.
	Cloned AppKind = "cloneset"
	// BlueGreen is a Deployment that has both versions, whole.
	BlueGreen AppKind = "blue-green"
	// Recreated is a Deployment with a canary beside it that takes all of its own pods before it makes others.
	Recreated AppKind = "recreate"
	// Ingressed is a canary Deployment beside the workload, which a canary Ingress leads to.
	Ingressed AppKind = "ingress"
	// Attached is a canary Deployment beside the workload, and a DestinationRule of the Service.
	Attached AppKind = "policy"
)

// change makes the manifests those of a kind.
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

// Resource is that of the workload.
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

// IngressResource is that of Ingresses.
func IngressResource() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "networking.k8s.io", Version: "v1", Resource: "ingresses"}
}

// DestinationRuleResource is that of DestinationRules.
func DestinationRuleResource() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "networking.istio.io", Version: "v1", Resource: "destinationrules"}
}

// Step is one of an [App]: how many canary pods, and which percentage of the traffic.
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

// Create makes it in a namespace, without a wait.
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
		if _, err := client.Resource(kinds[i]).Namespace(namespace).Create(ctx, u, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("create %s of application %s: %w", kinds[i].Resource, a.Name, err)
		}
	}
	return nil
}
