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

// App is what users make to release something: a Service, a Deployment with the image app:1, a VirtualService and a Rollout, all of
// one name. It is for tests of many releases, or of one again and again; those of a single story show their own manifests.
type App struct {
	Name         string
	Replicas     int64
	Steps        []Step
	GraceSeconds int
	// InPlace has the Deployment replace its own pods, where otherwise a canary Deployment runs beside it.
	InPlace bool
}

// Step is one of an [App]: how many canary pods, and which percentage of the traffic.
type Step struct{ Replicas, Weight int64 }

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
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: NAME}
spec: {hosts: [NAME.example.com], http: [{route: [{destination: {host: NAME}}]}]}
---
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
        customNetworkRefs: [{apiVersion: networking.istio.io/v1, kind: VirtualService, name: NAME}]
`

// Create makes it in a namespace, without a wait.
func (a App) Create(ctx context.Context, client dynamic.Interface, namespace string) error {
	var steps []string
	for _, s := range a.Steps {
		steps = append(steps, fmt.Sprintf("{replicas: %d, traffic: %d%%}", s.Replicas, s.Weight))
	}
	text := strings.NewReplacer("NAME", a.Name, "REPLICAS", fmt.Sprint(a.Replicas), "STEPS", strings.Join(steps, ", "), "GRACE", fmt.Sprint(a.GraceSeconds)).
		Replace(appManifests)
	if a.InPlace {
		text = strings.Replace(text, "      enableExtraWorkloadForCanary: true\n", "", 1)
	}
	kinds := []schema.GroupVersionResource{
		{Version: "v1", Resource: "services"}, {Group: "apps", Version: "v1", Resource: "deployments"},
		{Group: "networking.istio.io", Version: "v1", Resource: "virtualservices"}, api.RolloutResource(),
	}
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
