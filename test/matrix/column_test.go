package matrix

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"sluice.dev/sluice/test/world"
)

// column is one strategy on one kind of workload. A new one is a file of its own with a function that returns it, and a line in
// [columns].
type column struct {
	// name is that of the subtests; strategy, workload and traffic are what the page says.
	name, strategy, workload, traffic string
	resource                          schema.GroupVersionResource
	kind                              string
	// spec are lines of the workload's spec beside replicas, selector and template, indented by two.
	spec string
	// annotations are further ones of its template, each after a comma.
	annotations string
	// style is the field under spec.strategy, options are lines under it, indented by six.
	style, options string
	// beside tells that the new version has a workload of its own, so that the stable one keeps all its pods during the steps.
	beside bool
	// constant tells that the stable workload gives up pods as the one beside it gains them.
	constant bool
	// routed tells that a VirtualService sends the traffic, and matched that it does so by a header, which says the percentage of the step.
	routed, matched bool
	// attached tells that a policy is attached to the Service, which a release copies for the canary Service.
	attached bool
	// settled reports whether the workload's own controller runs the template in all pods, and all are available.
	settled func(*unstructured.Unstructured) bool
	// total and ready are how many pods there are by the workload's status, and how many of them are ready.
	total, ready func(*unstructured.Unstructured) int64
	// daemon tells that the workload has no replicas, but a pod on each node that its pods select.
	daemon bool
	// without is why the whole column does not stand yet, "" when it does.
	without string
	// except is why single cells do not stand, by "event", "event @ moment" or "@ moment".
	except map[string]string
}

// routeObject is an object that routes to the Service, or is attached to it.
type routeObject struct {
	resource schema.GroupVersionResource
	manifest string
}

// routeObjects are those that the cells of the column begin with.
func (c column) routeObjects() (list []routeObject) {
	if c.routed {
		list = append(list, routeObject{virtualServices(), routeManifest})
	}
	if c.attached {
		list = append(list, routeObject{world.DestinationRuleResource(), policyManifest})
	}
	return list
}

// columns are the columns of the grid, in the order of the page.
func columns() []column {
	list := append([]column{canaryRouted(), canaryPlain(), partitionRouted(), partitionPlain(), blueGreenRouted(), blueGreenPlain()}, kinds()...)
	return append(list, widenedRouted(), widenedPlain(), canaryConstant(), canaryMatched())
}

// reason is why a cell does not stand, "" when it does.
func (c column) reason(event, moment string) string {
	if c.without != "" {
		return c.without
	}
	for _, key := range []string{event + " @ " + moment, event, "@ " + moment} {
		if why := c.except[key]; why != "" {
			return why
		}
	}
	return ""
}

// adds reports whether the new pods come beside the stable ones, and not in their place.
func (c column) adds() bool { return c.beside || c.style == "blueGreen" }

// shares reports whether the workload's own controller keeps the share of the new pods when it is scaled, beside all the stable ones.
func (c column) shares() bool { return c.style == "blueGreen" && c.resource == deployments() }

// parks reports whether autoscalers are taken off the workload during its releases.
func (c column) parks() bool { return c.style == "blueGreen" || c.constant }

// stays is how many stable pods of a workload of n run beside so many new ones.
func (c column) stays(n, pods int) int {
	switch {
	case c.constant:
		return max(1, n-pods)
	case c.adds():
		return n
	}
	return n - pods
}

func (c column) apiVersion() string { return c.resource.GroupVersion().String() }

// step is one step of a Rollout: pods as the API takes them, and the percentage of the traffic.
type step struct {
	replicas string
	traffic  int
}

// of is how many pods of the new version the step allows beside so many replicas.
func (s step) of(replicas int) int {
	var n int
	if percent, ok := strings.CutSuffix(s.replicas, "%"); ok {
		_, _ = fmt.Sscan(percent, &n)
		n = (n*replicas + 99) / 100
	} else {
		_, _ = fmt.Sscan(s.replicas, &n)
	}
	return min(n, replicas)
}

// shareHeader is the header of a matched column.
const shareHeader = "share"

// threeSteps are the steps of all releases, unless an event wants others. None has all pods, so that each waits for its approval.
func threeSteps() []step { return []step{{"1", 20}, {"50%", 50}, {"3", 80}} }

// replicas are the pods of all workloads, unless an event wants others.
const replicas = 4

func (c column) steps(list []step) string {
	var text []string
	for _, s := range list {
		line := "{replicas: " + s.replicas
		switch {
		case c.matched:
			line += fmt.Sprintf(`, matches: [{headers: [{type: Exact, name: %s, value: "%d"}]}]`, shareHeader, s.traffic)
		case c.routed:
			line += fmt.Sprintf(", traffic: %d%%", s.traffic)
		}
		text = append(text, line+"}")
	}
	return "[" + strings.Join(text, ", ") + "]"
}

const serviceManifest = `apiVersion: v1
kind: Service
metadata: {name: app}
spec: {selector: {app: app}, ports: [{port: 80}]}
`

const routeManifest = `apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: app}
spec: {hosts: [app.example.com], http: [{route: [{destination: {host: app}}]}]}
`

// policyManifest is a policy of the Service, which a release with a canary Service copies.
const policyManifest = `apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: app}
spec: {host: app, trafficPolicy: {tls: {mode: SIMPLE}}}
`

const workloadText = `apiVersion: APIVERSION
kind: KIND
metadata: {name: app}
spec:
SPEC
  replicas: REPLICAS
  selector: {matchLabels: {app: app}}
  template:
    metadata: {labels: {app: app}, annotations: {example.com/team: shopANNOTATIONS}}
    spec: {terminationGracePeriodSeconds: 0, containers: [{name: c, image: "app:1"}]}
`

const rolloutText = `apiVersion: rollouts.kruise.io/v1beta1
kind: Rollout
metadata: {name: app}
spec:
  workloadRef: {apiVersion: APIVERSION, kind: KIND, name: app}
  strategy:
    STYLE:
      abortScaleDownDelaySeconds: 0
OPTIONS
      steps: STEPS
`

const routingText = `      trafficRoutings:
      - service: app
        gracePeriodSeconds: 0
        customNetworkRefs: [{apiVersion: networking.istio.io/v1, kind: VirtualService, name: app}]
`

// workloadManifest is the workload at version 1.
func (c column) workloadManifest(n int) string {
	text := strings.NewReplacer("APIVERSION", c.apiVersion(), "KIND", c.kind, "SPEC\n", c.spec, "REPLICAS", fmt.Sprint(n), "ANNOTATIONS", c.annotations).Replace(workloadText)
	if c.daemon {
		text = strings.Replace(text, fmt.Sprintf("  replicas: %d\n", n), "", 1)
	}
	return text
}

// rolloutManifest is the Rollout.
func (c column) rolloutManifest(list []step) string {
	text := strings.NewReplacer("APIVERSION", c.apiVersion(), "KIND", c.kind, "STYLE", c.style, "OPTIONS\n", c.options, "STEPS", c.steps(list)).Replace(rolloutText)
	if c.routed {
		text += routingText
	}
	return text
}
