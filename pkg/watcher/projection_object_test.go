package watcher

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/traffic"
)

// change alters one object that was read from YAML.
type change func(*unstructured.Unstructured)

func set(value any, path ...string) change {
	return func(u *unstructured.Unstructured) {
		if err := unstructured.SetNestedField(u.Object, value, path...); err != nil {
			panic(err)
		}
	}
}

func unset(path ...string) change {
	return func(u *unstructured.Unstructured) { unstructured.RemoveNestedField(u.Object, path...) }
}

func all(changes ...change) change {
	return func(u *unstructured.Unstructured) {
		for _, c := range changes {
			c(u)
		}
	}
}

type wakes map[string]struct {
	change change
	want   urgency
}

// check compares the urgency of each change of the object.
func check[T metav1.Object](t *testing.T, project func(T) facts, text string, cases wakes) {
	t.Helper()
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before, after := read(t, text), read(t, text)
			c.change(after)
			if got := factOf(t, project, after).urgencySince(factOf(t, project, before)); got != c.want {
				t.Errorf("urgency %d, want %d", got, c.want)
			}
		})
	}
}

func read(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &u.Object); err != nil {
		t.Fatal(err)
	}
	u.Object = normal(u.Object).(map[string]any)
	return u
}

// normal converts whole numbers to the type that the API machinery decodes.
func normal(v any) any {
	switch v := v.(type) {
	case float64:
		return int64(v)
	case []any:
		for i := range v {
			v[i] = normal(v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = normal(v[k])
		}
	}
	return v
}

func factOf[T metav1.Object](t *testing.T, project func(T) facts, u *unstructured.Unstructured) *fact {
	t.Helper()
	kept, err := factTransform(project)(typed[T](t, u))
	if err != nil {
		t.Fatal(err)
	}
	return kept.(*fact)
}

// typed returns an object as a source of that type reads it.
func typed[T metav1.Object](t *testing.T, u *unstructured.Unstructured) T {
	t.Helper()
	if o, ok := any(u).(T); ok {
		return o
	}
	body, err := json.Marshal(u.Object)
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := any((*rolloutView)(nil)).(T); ok {
		return any(sightingOf(t, string(body))).(T)
	}
	o := reflect.New(reflect.TypeFor[T]().Elem()).Interface()
	if err := json.Unmarshal(body, o); err != nil {
		t.Fatal(err)
	}
	return o.(T)
}

func sightingOf(t *testing.T, text string) *rolloutView {
	t.Helper()
	var r rolloutText
	if err := decodeValue(json.NewDecoder(strings.NewReader(text)), &r); err != nil {
		t.Fatal(err)
	}
	return r.toRolloutView()
}

// rolloutFacts returns the facts of a new Rollout.
func rolloutFacts(s *rolloutView) facts { return newIndex().rolloutFacts(s) }

const pausedRollout = `
apiVersion: rollouts.kruise.io/v1beta1
kind: Rollout
metadata: {name: web, namespace: shop, uid: u, generation: 2, finalizers: [rollouts.kruise.io/rollout]}
spec:
  workloadRef: {apiVersion: apps/v1, kind: Deployment, name: web}
  strategy:
    canary:
      enableExtraWorkloadForCanary: true
      steps: [{replicas: 1, traffic: 20%}, {replicas: 100%, traffic: 50%}]
      trafficRoutings:
      - service: web
        customNetworkRefs: [{apiVersion: networking.istio.io/v1, kind: VirtualService, name: web}]
status:
  phase: Progressing
  message: waiting
  canaryStatus: {currentStepIndex: 1, nextStepIndex: 2, currentStepState: StepPaused, canaryReplicas: 1, canaryReadyReplicas: 1}
  sluice: {epoch: 1, step: 1, state: StepPaused, pauseSeq: 3, transitionSeq: 7}
`

func TestChangesOfARollout(t *testing.T) {
	t.Parallel()
	approve := set("StepReady", "status", "canaryStatus", "currentStepState")
	check(t, rolloutFacts, pausedRollout, wakes{
		"nothing":                     {func(*unstructured.Unstructured) {}, never},
		"our commit of progress":      {set("still waiting", "status", "message"), never},
		"the spec":                    {set(int64(3), "metadata", "generation"), atOnce},
		"a deletion":                  {set("2026-11-20T10:00:00Z", "metadata", "deletionTimestamp"), atOnce},
		"another Rollout of a name":   {set("v", "metadata", "uid"), atOnce},
		"a label":                     {set("b", "metadata", "labels", "a"), never},
		"an approval":                 {approve, atOnce},
		"a jump":                      {set(int64(1), "status", "canaryStatus", "nextStepIndex"), atOnce},
		"an index that leads nowhere": {set(int64(-1), "status", "canaryStatus", "nextStepIndex"), atOnce},
		"an edit to undo":             {set("StepUpgrade", "status", "canaryStatus", "currentStepState"), atOnce},
		"another step shown":          {set(int64(2), "status", "canaryStatus", "currentStepIndex"), atOnce},
		"our finalizer taken off":     {unset("metadata", "finalizers"), atOnce},
		"our commit of the next step": {all(
			set(int64(2), "status", "sluice", "step"), set("StepUpgrade", "status", "sluice", "state"),
			set(int64(2), "status", "canaryStatus", "currentStepIndex"), set(int64(-1), "status", "canaryStatus", "nextStepIndex"),
			set("StepUpgrade", "status", "canaryStatus", "currentStepState")), never},
	})
	approved := read(t, pausedRollout)
	approve(approved)
	taken := read(t, pausedRollout)
	all(set("StepReady", "status", "sluice", "state"), approve)(taken)
	if got := factOf(t, rolloutFacts, taken).urgencySince(factOf(t, rolloutFacts, approved)); got != never {
		t.Errorf("our commit that takes an approval up wakes with urgency %d", got)
	}
	again := read(t, pausedRollout)
	all(set(int64(4), "status", "sluice", "pauseSeq"), approve)(again)
	if got := factOf(t, rolloutFacts, again).urgencySince(factOf(t, rolloutFacts, approved)); got != atOnce {
		t.Errorf("the approval of the next pause wakes with urgency %d", got)
	}
}

// A blue-green release takes commands in its own status field.
func TestChangesOfABlueGreenRollout(t *testing.T) {
	t.Parallel()
	green := strings.NewReplacer("canaryStatus:", "blueGreenStatus:", "canary:\n      enableExtraWorkloadForCanary: true", "blueGreen:").Replace(pausedRollout)
	check(t, rolloutFacts, green, wakes{
		"an approval":                 {set("StepReady", "status", "blueGreenStatus", "currentStepState"), atOnce},
		"a jump":                      {set(int64(1), "status", "blueGreenStatus", "nextStepIndex"), atOnce},
		"an index that leads nowhere": {set(int64(-1), "status", "blueGreenStatus", "nextStepIndex"), atOnce},
		"our commit of the next step": {all(
			set(int64(2), "status", "sluice", "step"), set("StepUpgrade", "status", "sluice", "state"),
			set(int64(2), "status", "blueGreenStatus", "currentStepIndex"), set(int64(-1), "status", "blueGreenStatus", "nextStepIndex"),
			set("StepUpgrade", "status", "blueGreenStatus", "currentStepState")), never},
	})
}

const rollingDeployment = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop, uid: u, generation: 4, annotations: {rollouts.kruise.io/in-progressing: x}}
spec: {replicas: 4, strategy: {rollingUpdate: {maxUnavailable: 25%}}, template: {spec: {containers: [{name: c, image: "web:1"}]}}}
status: {observedGeneration: 4, replicas: 5, updatedReplicas: 3, readyReplicas: 3, availableReplicas: 3}
`

func TestChangesOfAWorkload(t *testing.T) {
	t.Parallel()
	count := func(total, updated, available int64) change {
		return all(set(total, "status", "replicas"), set(updated, "status", "updatedReplicas"), set(available, "status", "availableReplicas"))
	}
	check(t, deploymentFacts, rollingDeployment, wakes{
		"a new version":                        {set("b", "spec", "template", "spec", "hostname"), atOnce},
		"it is paused":                         {set(true, "spec", "paused"), atOnce},
		"it is scaled":                         {set(int64(5), "spec", "replicas"), atOnce},
		"another release id":                   {set("7", "metadata", "labels", api.LabelRolloutID), atOnce},
		"one more pod":                         {count(5, 3, 4), soon},
		"all pods updated, too few available":  {count(4, 4, 2), atOnce},
		"all pods updated, available enough":   {count(4, 4, 3), atOnce},
		"all pods updated, not yet observed":   {all(set(int64(5), "metadata", "generation"), count(4, 4, 4)), soon},
		"pods that are ready but not for long": {set(int64(4), "status", "readyReplicas"), never},
		"a mark taken off":                     {unset("metadata", "annotations"), atOnce},
		"managed fields":                       {set([]any{}, "metadata", "managedFields"), never},
	})
}

func TestChangesOfACanary(t *testing.T) {
	t.Parallel()
	const canary = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web-canary, namespace: shop, uid: u, generation: 1, labels: {sluice.dev/rollout-uid: r}}
spec: {replicas: 2, paused: false}
status: {observedGeneration: 1, replicas: 2, updatedReplicas: 2, availableReplicas: 1}
`
	check(t, deploymentFacts, canary, wakes{
		"all pods available":      {set(int64(2), "status", "availableReplicas"), atOnce},
		"no pod available":        {set(int64(0), "status", "availableReplicas"), soon},
		"we scaled it":            {all(set(int64(3), "spec", "replicas"), set(int64(2), "metadata", "generation")), soon},
		"somebody deletes it":     {set("2026-11-20T10:00:00Z", "metadata", "deletionTimestamp"), atOnce},
		"somebody edits its pods": {set("b", "spec", "template", "spec", "hostname"), atOnce},
	})
	if got := factOf(t, deploymentFacts, read(t, canary)).urgencySince(nil); got != soon {
		t.Errorf("a canary that we made wakes with urgency %d", got)
	}
}

func TestChangesOfServicesAndEndpoints(t *testing.T) {
	t.Parallel()
	const service = `
apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop, uid: u}
spec: {type: ClusterIP, selector: {app: web}}
`
	pin := set("h1", "spec", "selector", api.LabelPodTemplateHash)
	check(t, serviceFacts, service, wakes{
		"we pin it":         {pin, soon},
		"another selector":  {set("shop", "spec", "selector", "app"), atOnce},
		"it loses its type": {unset("spec", "type"), atOnce},
		"another port":      {set([]any{}, "spec", "ports"), never},
	})
	pinned := read(t, service)
	pin(pinned)
	if got := factOf(t, serviceFacts, read(t, service)).urgencySince(factOf(t, serviceFacts, pinned)); got != atOnce {
		t.Errorf("a pin taken away wakes with urgency %d", got)
	}
	const slice = `
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: web-canary-x, namespace: shop, uid: u, labels: {kubernetes.io/service-name: web-canary, sluice.dev/rollout-uid: r}}
endpoints: [{addresses: [10.0.0.1], conditions: {ready: true}}]
`
	more := func(ready bool) change {
		return func(u *unstructured.Unstructured) {
			list, _, _ := unstructured.NestedSlice(u.Object, "endpoints")
			set(append(list, map[string]any{"conditions": map[string]any{"ready": ready}}), "endpoints")(u)
		}
	}
	check(t, endpointFacts, slice, wakes{
		"one more that is ready":     {more(true), atOnce},
		"one more that is not ready": {more(false), never},
	})
	const stable = `
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: web-x, namespace: shop, uid: u, labels: {kubernetes.io/service-name: web}}
endpoints: [{addresses: [10.0.0.1], conditions: {ready: true}, targetRef: {kind: Pod, name: web-1}}]
ports: [{name: http, port: 8080}]
`
	check(t, endpointFacts, stable, wakes{
		"one more that is ready":     {more(true), soon},
		"one more that is not ready": {more(false), never},
		"another pod": {func(u *unstructured.Unstructured) {
			list, _, _ := unstructured.NestedSlice(u.Object, "endpoints")
			list[0].(map[string]any)["targetRef"] = map[string]any{"kind": "Pod", "name": "web-2"}
			set(list, "endpoints")(u)
		}, soon},
		"no port": {unset("ports"), soon},
		"a label": {set("b", "metadata", "labels", "a"), never},
	})
	f := factOf(t, endpointFacts, read(t, slice))
	if f.urgencySince(nil) != atOnce || f.service != "web-canary" {
		t.Errorf("a new EndpointSlice of Service %q wakes with urgency %d", f.service, f.urgencySince(nil))
	}
}

func TestChangesOfAGatewayObject(t *testing.T) {
	t.Parallel()
	const route = `
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: web, namespace: shop, uid: u, generation: 1}
spec: {hosts: [web]}
status: {conditions: [{type: Accepted, status: "False", observedGeneration: 1}]}
`
	ours := func(u *unstructured.Unstructured) {
		set("{}", "metadata", "annotations", api.AnnotationReleases)(u)
		set("{}", "metadata", "annotations", api.AnnotationOriginalSpec)(u)
		u.Object = traffic.StampRendered(u, traffic.ContentDigest(u)).Object
	}
	accepted := set([]any{map[string]any{"type": "Accepted", "status": "True", "observedGeneration": int64(1)}}, "status", "conditions")
	check(t, routeFacts, route, wakes{
		"somebody edits it":                   {set("b", "spec", "x"), atOnce},
		"we write it":                         {ours, never},
		"somebody edits what we wrote":        {all(ours, set("b", "spec", "x")), atOnce},
		"its owner lets a namespace shape it": {set("shop", "metadata", "annotations", api.AnnotationAllowNamespaces), atOnce},
		"the gateway accepts it":              {accepted, atOnce},
		"the gateway says it again": {set([]any{map[string]any{"type": "Accepted", "status": "False", "observedGeneration": int64(1),
			"lastTransitionTime": "later"}}, "status", "conditions"), never},
	})
	written, stripped := read(t, route), read(t, route)
	ours(written)
	all(ours, unset("metadata", "annotations", api.AnnotationReleases))(stripped)
	if got := factOf(t, routeFacts, stripped).urgencySince(factOf(t, routeFacts, written)); got != atOnce {
		t.Errorf("our marks taken off wake with urgency %d", got)
	}
	mesh := strings.Replace(route, ", namespace: shop", "", 1)
	entries := `{"u":{"namespace":"shop","name":"web","service":"web"},"v":{"namespace":"cart","name":"gray","kind":"TrafficRouting","service":"web"}}`
	lists := set(entries, "metadata", "annotations", api.AnnotationReleases)
	check(t, routeFacts, mesh, wakes{"a release is on it": {lists, soon}, "and as we write it": {all(ours, lists), soon}})
	listed := read(t, mesh)
	lists(listed)
	want := map[string][]types.NamespacedName{"": {{Namespace: "shop", Name: "web"}}, "TrafficRouting": {{Namespace: "cart", Name: "gray"}}}
	if diff := cmp.Diff(want, factOf(t, routeFacts, listed).listed); diff != "" {
		t.Errorf("what an object of no namespace lists (-want +got):\n%s", diff)
	}
	allowed, refused := read(t, route), read(t, route)
	all(set("shop", "metadata", "annotations", api.AnnotationAllowNamespaces), ours)(allowed)
	all(set("shop", "metadata", "annotations", api.AnnotationAllowNamespaces), ours, unset("metadata", "annotations", api.AnnotationAllowNamespaces))(refused)
	if got := factOf(t, routeFacts, allowed).urgencySince(factOf(t, routeFacts, refused)); got != atOnce {
		t.Errorf("an owner who allows again what we had written wakes with urgency %d", got)
	}
}

func TestLittleIsKeptOfAnObject(t *testing.T) {
	t.Parallel()
	u := read(t, rollingDeployment)
	all(set([]any{map[string]any{"manager": "x"}}, "metadata", "managedFields"), set("y", "metadata", "annotations", "x"))(u)
	f := factOf(t, deploymentFacts, u)
	name := types.NamespacedName{Namespace: "shop", Name: "web"}
	f.now, f.soon = factDigest{}, factDigest{}
	if diff := cmp.Diff(&fact{name: name, uid: "u", calls: []string{"bears no type", "bears no claim"}}, f, cmp.AllowUnexported(fact{}, keptFacts{})); diff != "" {
		t.Errorf("what is kept (-want +got):\n%s", diff)
	}
	o, err := meta.Accessor(f)
	if err != nil || o.GetNamespace() != "shop" || o.GetName() != "web" || o.GetUID() != "u" {
		t.Errorf("a cache sees %v, %v", o, err)
	}
}
