package analysis

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/test/world"
)

const manifests = `apiVersion: v1
kind: Service
metadata: {name: app}
spec: {selector: {app: app}, ports: [{port: 80}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: app}
spec:
  replicas: 2
  selector: {matchLabels: {app: app}}
  template:
    metadata: {labels: {app: app}}
    spec: {containers: [{name: c, image: "app:1"}]}
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: app}
spec: {hosts: [app.example.com], http: [{route: [{destination: {host: app}}]}]}
---
apiVersion: rollouts.kruise.io/v1beta1
kind: Rollout
metadata: {name: app}
spec:
  workloadRef: {apiVersion: apps/v1, kind: Deployment, name: app}
  strategy:
    RELEASE
    canary:
      enableExtraWorkloadForCanary: true
      abortScaleDownDelaySeconds: 0
      steps: [STEPS]
      trafficRoutings:
      - service: app
        gracePeriodSeconds: 0
        customNetworkRefs: [{apiVersion: networking.istio.io/v1, kind: VirtualService, name: app}]
`

// Templates for measurements every second.
const (
	// success wants 95 % of the canary's requests to succeed, three times.
	success = `apiVersion: sluice.dev/v1alpha1
kind: AnalysisTemplate
metadata: {name: success}
spec:
  args: [{name: prometheus}, {name: limit, value: "0.95"}, {name: noData, value: ""}]
  metrics:
  - name: success
    interval: 1s
    count: 3
    noData: {deadline: 5s}
    error: {deadline: 5s}
    minSamples:
      query: sum(increase(http_requests_total{namespace="{{args.namespace}}",service="{{args.canaryService}}"}[2s]))
      atLeast: 10
    prometheus:
      address: "{{args.prometheus}}"
      timeout: 1s
      query: |
        sum(rate(http_requests_total{namespace="{{args.namespace}}",service="{{args.canaryService}}",code!~"5.."}[2s]))
        / sum(rate(http_requests_total{namespace="{{args.namespace}}",service="{{args.canaryService}}"}[2s]))
    passWhen: value >= double(args.limit)
`
	// watch measures during the whole release.
	watch = `apiVersion: sluice.dev/v1alpha1
kind: AnalysisTemplate
metadata: {name: watch}
spec:
  args: [{name: prometheus}]
  metrics:
  - name: watch
    interval: 1s
    prometheus:
      address: "{{args.prometheus}}"
      query: |
        sum(rate(http_requests_total{namespace="{{args.namespace}}",service="{{args.canaryService}}",code!~"5.."}[1s]))
        / sum(rate(http_requests_total{namespace="{{args.namespace}}",service="{{args.canaryService}}"}[1s]))
    failWhen: value < 0.95
`
	// worse compares both versions' errors and latency.
	worse = `apiVersion: sluice.dev/v1alpha1
kind: AnalysisTemplate
metadata: {name: worse}
spec:
  args: [{name: prometheus}]
  metrics:
  - name: errors
    interval: 1s
    prometheus: {address: "{{args.prometheus}}"}
    compare:
      longestBurst: 0s
      counts:
        canaryBad: sum(increase(http_requests_total{namespace="{{args.namespace}}",service="{{args.canaryService}}",code=~"5.."}[{{args.interval}}]))
        canaryTotal: sum(increase(http_requests_total{namespace="{{args.namespace}}",service="{{args.canaryService}}"}[{{args.interval}}]))
        stableBad: sum(increase(http_requests_total{namespace="{{args.namespace}}",service="{{args.stableService}}",code=~"5.."}[{{args.interval}}]))
        stableTotal: sum(increase(http_requests_total{namespace="{{args.namespace}}",service="{{args.stableService}}"}[{{args.interval}}]))
  - name: latency
    interval: 1s
    prometheus: {address: "{{args.prometheus}}"}
    compare:
      longestBurst: 0s
      latency:
        canary: sum by (le) (increase(http_request_duration_seconds_bucket{namespace="{{args.namespace}}",service="{{args.canaryService}}"}[{{args.interval}}]))
        stable: sum by (le) (increase(http_request_duration_seconds_bucket{namespace="{{args.namespace}}",service="{{args.stableService}}"}[{{args.interval}}]))
`
)

// app is an application in its own namespace, with traffic on it.
type app struct {
	*traffic
	w  *world.World
	ns string
}

// plan has the parts of a Rollout that a test sets, in flow style.
type plan struct {
	// release is the value of strategy.analysis, steps are the steps.
	release   string
	steps     []string
	templates []string
	// rate is the number of requests per second for each version; 0 means 200.
	rate float64
	// provider is the address of a stand-in; empty means the real Prometheus.
	provider string
}

// use returns a reference to a template, with additional fields of the analysis.
func (p *plan) use(t *testing.T, template, more string) string {
	address := p.provider
	if address == "" {
		address = theProvider(t).Address
	}
	return fmt.Sprintf("{templates: [{name: %s}], args: [{name: prometheus, value: %q}]%s}", template, address, more)
}

func start(t *testing.T, p plan) *app {
	t.Helper()
	return startIn(t, world.Shared(t), p)
}

func startIn(t *testing.T, w *world.World, p plan) *app {
	t.Helper()
	if p.rate == 0 {
		p.rate = 200
	}
	a := &app{w: w, ns: w.Namespace(t)}
	a.traffic = flow(t, a.ns, p.rate)
	release := ""
	if p.release != "" {
		release = "analysis: " + p.release
	}
	rollout := strings.NewReplacer("RELEASE", release, "STEPS", strings.Join(p.steps, ", ")).Replace(manifests)
	w.Apply(t, a.ns, strings.Join(append([]string{rollout}, p.templates...), "\n---\n"))
	w.Available(t, a.ns, "app")
	a.await(t, world.Healthy)
	return a
}

func (a *app) await(t *testing.T, goal world.Goal) *api.Rollout {
	t.Helper()
	return a.w.Await(t, a.ns, "app", goal)
}

// deploy changes the image of the application.
func (a *app) deploy(t *testing.T, version string) {
	t.Helper()
	if err := a.w.Patch(t, a.ns, "deployment", "app", fmt.Sprintf(`{"spec":{"template":{"spec":{"containers":[{"name":"c","image":"app:%s"}]}}}}`, version)); err != nil {
		t.Fatal(err)
	}
}

// deployAs deploys a version with a rollout-id.
func (a *app) deployAs(t *testing.T, version, id string) {
	t.Helper()
	if err := a.w.Patch(t, a.ns, "deployment", "app", fmt.Sprintf(
		`{"metadata":{"annotations":{%q:%q}},"spec":{"template":{"spec":{"containers":[{"name":"c","image":"app:%s"}]}}}}`, api.AnnotationRolloutID, id, version)); err != nil {
		t.Fatal(err)
	}
}

// image returns the image that the Deployment wants to run.
func (a *app) image(t *testing.T) string {
	t.Helper()
	containers, _, err := unstructured.NestedSlice(a.w.Get(t, a.ns, "deployment", "app").Object, "spec", "template", "spec", "containers")
	if err != nil || len(containers) != 1 {
		t.Fatalf("%v: %v", containers, err)
	}
	image, _ := containers[0].(map[string]any)["image"].(string)
	return image
}

// weight returns the share of the canary on the live route.
func weight(u *unstructured.Unstructured) int64 {
	if u == nil {
		return -1
	}
	rules, _, _ := unstructured.NestedSlice(u.Object, "spec", "http")
	for _, rule := range rules {
		routes, _, _ := unstructured.NestedSlice(rule.(map[string]any), "route")
		for _, r := range routes {
			if host, _, _ := unstructured.NestedString(r.(map[string]any), "destination", "host"); host == "app-canary" {
				share, _, _ := unstructured.NestedInt64(r.(map[string]any), "weight")
				return share
			}
		}
	}
	return 0
}

// onStable waits until the route sends no traffic to the canary.
func (a *app) onStable(t *testing.T) time.Time {
	t.Helper()
	a.w.AwaitObject(t, a.ns, "virtualservice", "app", "to be on stable", func(u *unstructured.Unstructured) bool { return weight(u) == 0 })
	return time.Now()
}

// aborted is the goal that a release was stopped.
func aborted(r *api.Rollout) bool {
	c := world.Condition(r, api.ConditionProgressing)
	return c != nil && c.Reason == api.ReasonAborted
}

// analysing is the goal that a step waits for its metrics.
func analysing(step int32) world.Goal {
	return func(r *api.Rollout) bool {
		return r.Status.CurrentStepState == api.StepMetricsAnalysis && r.Status.CurrentStepIndex == step
	}
}

// says is the goal that the analysis of the step is in a phase.
func says(phase api.AnalysisPhase) world.Goal {
	return func(r *api.Rollout) bool {
		return r.Status.Analysis != nil && r.Status.Analysis.Step != nil && r.Status.Analysis.Step.Phase == phase
	}
}
