package matrix

import (
	"fmt"
	"maps"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"sluice.dev/sluice/test/world"
)

// column is one strategy on one kind of workload. A new column has its own file with a function that returns it, and a
// line in [columns].
type column struct {
	// name is the name of the subtests; strategy, workload and traffic are the texts of the page.
	name, strategy, workload, traffic string
	resource                          schema.GroupVersionResource
	kind                              string
	// spec has lines of the workload's spec, except replicas, selector and template, indented by two.
	spec string
	// annotations are additional annotations of its template, each after a comma.
	annotations string
	// style is the field under spec.strategy, options are lines under it, indented by six.
	style, options string
	// The field beside reports whether the new version has its own workload, so that the stable workload keeps all its pods during
	// the steps.
	beside bool
	// constant reports that the executor scales the stable workload down as the canary workload grows.
	constant bool
	// routed reports that a VirtualService sends the traffic. matched reports that it does so by a header with the
	// percentage of the step.
	routed, matched bool
	// attached reports that a policy is attached to the Service. A release copies it for the canary Service.
	attached bool
	// governed reports that a fleet governs the Rollout. Its hub permits each version as soon as it waits.
	governed bool
	// settled reports whether the workload's own controller runs the template in all pods, and all are available.
	settled func(*unstructured.Unstructured) bool
	// total and ready return the numbers of all pods and of ready pods from the workload's status.
	total, ready func(*unstructured.Unstructured) int64
	// daemon reports that the workload has no replicas, but a pod on each node that its pods select.
	daemon bool
	// without is the reason why the whole column does not stand yet, "" if it stands.
	without string
	// except has the reasons why single cells do not stand, by "event", "event @ moment" or "@ moment".
	except map[string]string
}

// routeObject is an object that routes to the Service or is attached to it.
type routeObject struct {
	resource schema.GroupVersionResource
	manifest string
}

// routeObjects returns the objects that exist when the cells of the column begin.
func (c column) routeObjects() (list []routeObject) {
	if c.routed {
		list = append(list, routeObject{virtualServices(), routeManifest})
	}
	if c.attached {
		list = append(list, routeObject{world.DestinationRuleResource(), policyManifest})
	}
	return list
}

// columns returns the columns of the test matrix, in the order of the page.
func columns() []column {
	list := append([]column{canaryRouted(), canaryPlain(), partitionRouted(), partitionPlain(), blueGreenRouted(), blueGreenPlain()}, kinds()...)
	list = append(list, widenedRouted(), widenedPlain(), canaryConstant(), canaryMatched())
	return append(list, governed(canaryRouted()), governed(partitionRouted()), governed(blueGreenRouted()))
}

// reason returns the reason why a cell does not stand, "" if it stands.
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

// adds reports whether the new pods run in parallel with the stable ones and do not replace them.
func (c column) adds() bool { return c.beside || c.style == "blueGreen" }

// shares reports whether the workload's controller keeps the share of the new pods when the workload is scaled, in
// parallel with all stable pods.
func (c column) shares() bool { return c.style == "blueGreen" && c.resource == deployments() }

// parks reports whether the executor removes autoscalers from the workload during its releases.
func (c column) parks() bool { return c.style == "blueGreen" || c.constant }

// stays returns the number of stable pods that a workload of n runs together with the given number of new ones.
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

// of returns the number of pods of the new version that the step allows for a number of replicas.
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

// threeSteps are the steps of all releases, unless an event needs others. No step has all pods, so that each waits for
// its approval.
func threeSteps() []step { return []step{{"1", 20}, {"50%", 50}, {"3", 80}} }

// replicas is the number of pods of all workloads, unless an event needs another.
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

// policyManifest is a policy of the Service. A release with a canary Service copies it.
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
	if c.governed {
		text = strings.Replace(text, "spec:\n", "spec:\n  fleet: {namespace: shop, name: app}\n", 1)
	}
	return text
}

// governed returns a column whose Rollouts belong to a fleet.
func governed(c column) column {
	c.name, c.strategy, c.governed = c.name+"-governed", c.strategy+", in a fleet", true
	c.except = maps.Clone(c.except)
	if c.except == nil {
		c.except = map[string]string{}
	}
	c.except["Rollout deleted and workload kept"] = "a Rollout of a fleet gives the workload its stable version back"
	c.except["template changed under the rollout-id of the stable version"] = "in a fleet, each change of the template is a release"
	return c
}
