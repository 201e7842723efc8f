package traffic

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
	"sluice.dev/sluice/pkg/script"
)

type fataler interface {
	Helper()
	Fatalf(format string, args ...any)
}

// object parses a manifest into the form that the API server stores.
func object(t fataler, manifest string) *unstructured.Unstructured {
	t.Helper()
	body, err := yaml.YAMLToJSON([]byte(manifest))
	if err != nil {
		t.Fatalf("read manifest: %v", err)
	}
	obj := &unstructured.Unstructured{}
	if m, ok := fromJSON(body).(map[string]any); ok {
		obj.Object = m
	}
	return obj
}

func specOf(t fataler, manifest string) any {
	t.Helper()
	return object(t, "spec:\n"+manifest).Object["spec"]
}

// builtin is the shipped script of an Istio kind.
func builtin(t *testing.T, kind string) Script {
	t.Helper()
	source, err := os.ReadFile(filepath.Join("..", "..", "lua_configuration", "networking.istio.io", kind, "trafficRouting.lua"))
	if err != nil {
		t.Fatalf("read script: %v", err)
	}
	return compiled(t, kind, string(source))
}

func compiled(t *testing.T, name, source string) Script {
	t.Helper()
	program, err := script.Compile(name, source)
	if err != nil {
		t.Fatalf("compile: %v", err)
	}
	return LuaScript(t.Context(), script.Source{Program: program})
}

func weight(w rollout.Percent) Strategy { return Strategy{Weight: &w} }

func header(name, value string) Strategy {
	exact := api.MatchExact
	return Strategy{Matches: []api.HTTPRouteMatch{{Headers: []api.HTTPHeaderMatch{{Type: &exact, Name: name, Value: value}}}}}
}

// gateway is one object on a server that defaults as a CRD does, so that the stored object differs from the rendering.
type gateway struct {
	t    fataler
	ref  rollout.Ref
	live *unstructured.Unstructured
	run  Script
	// ingress returns the script of an Ingress, which reads the other Ingresses.
	ingress func(others []*unstructured.Unstructured) Script
	// others are objects of the kinds that the script may create; now is the time of the test.
	others []*unstructured.Unstructured
	now    time.Time
}

func (g *gateway) observe(rel Release, steps ...Strategy) (rollout.Route, *Plan) {
	byStep := map[int32]Strategy{}
	for i, s := range steps {
		byStep[int32(i+1)] = s
	}
	return g.observeSteps(rel, byStep)
}

func (g *gateway) observeSteps(rel Release, steps map[int32]Strategy) (rollout.Route, *Plan) {
	run := g.run
	if g.ingress != nil {
		run = g.ingress(g.others)
	}
	return ObserveRoute(g.ref, g.live.DeepCopy(), rel, steps, run, g.others...)
}

// write does the same as the executor: dry run, stamp, update.
func (g *gateway) write(desired *unstructured.Unstructured) {
	g.live = defaulted(StampRendered(desired, ContentDigest(defaulted(desired))))
}

func (g *gateway) step(rel Release, s Strategy) {
	g.t.Helper()
	g.prepare(rel, s)
	g.carryOut(rel, 1, s)
}

// carryOut carries out a step of that number.
func (g *gateway) carryOut(rel Release, n int32, s Strategy) {
	g.t.Helper()
	_, plan := g.observeSteps(rel, map[int32]Strategy{n: s})
	desired, beside, err := plan.DesiredObject(n)
	if err != nil {
		g.t.Fatalf("step of %s: %v", rel.Name, err)
	}
	g.take(beside.DeleteFirst)
	g.put(beside.Apply)
	if (desired == nil) != (g.ingress != nil) {
		g.t.Fatalf("a step of %s writes %v", rel.Name, desired)
	}
	if desired != nil {
		g.write(desired)
	}
	g.take(beside.DeleteLast)
	if route, _ := g.observeSteps(rel, map[int32]Strategy{n: s}); !route.Steps[n].Applied || !route.Shaped || route.Foreign != "" {
		g.t.Fatalf("step of %s is not applied after it was written: %+v", rel.Name, route)
	}
}

// prepare creates the objects that a step refers to.
func (g *gateway) prepare(rel Release, s Strategy) {
	g.t.Helper()
	_, plan := g.observe(rel, s)
	all, err := plan.ChildrenToPrepare(1)
	if err != nil {
		g.t.Fatalf("prepare a step of %s: %v", rel.Name, err)
	}
	g.put(all)
}

// put writes created objects, from the last on: each number is the greatest free one below the number of the next object.
func (g *gateway) put(all []*unstructured.Unstructured) {
	for _, u := range slices.Backward(all) {
		if key, numbers := NumberNeeded(u); key != "" {
			n := numbers.Max
			for slices.ContainsFunc(g.others, func(o *unstructured.Unstructured) bool { return numberOn(o, key) == n }) {
				n--
			}
			u = WithNumber(u, key, n)
		}
		if u.GetUID() == "" {
			u = StampCreation(u, g.now)
			u.SetUID(types.UID("u-" + u.GetName()))
		}
		g.take([]*unstructured.Unstructured{u})
		g.others = append(g.others, u)
	}
}

func (g *gateway) take(all []*unstructured.Unstructured) {
	g.others = slices.DeleteFunc(g.others, func(o *unstructured.Unstructured) bool { return findObject(all, o) != nil })
}

func (g *gateway) restore(rel Release) {
	g.t.Helper()
	_, plan := g.observe(rel)
	restored, err := plan.RestoredObject()
	if err != nil {
		g.t.Fatalf("restore %s: %v", rel.Name, err)
	}
	if restored != nil {
		g.write(restored)
	}
	g.take(plan.UnreferencedChildren())
	_, plan = g.observe(rel)
	g.take(plan.ReferencedChildren())
	if route, plan := g.observe(rel); route.Shaped || route.HasChildren {
		g.t.Fatalf("%s is still on the object: %v", rel.Name, plan.on)
	}
}

// apply does the same as kubectl apply with custom resources: it merges maps by the last applied manifest, and replaces lists.
func (g *gateway) apply(manifest *unstructured.Unstructured) { g.live = applied(g.live, manifest) }

func applied(live, manifest *unstructured.Unstructured) *unstructured.Unstructured {
	const key = "kubectl.kubernetes.io/last-applied-configuration"
	before, _ := fromJSON([]byte(live.GetAnnotations()[key])).(map[string]any)
	next := &unstructured.Unstructured{Object: threeWay(live.DeepCopy().Object, before, manifest.DeepCopy().Object)}
	annotations := next.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[key] = jsonOf(manifest.Object) + "\n"
	next.SetAnnotations(annotations)
	return defaulted(next)
}

func threeWay(live, before, manifest map[string]any) map[string]any {
	for k := range before {
		if _, ok := manifest[k]; !ok {
			delete(live, k)
		}
	}
	for k, v := range manifest {
		child, isMap := v.(map[string]any)
		if !isMap {
			live[k] = v
			continue
		}
		was, _ := before[k].(map[string]any)
		now, _ := live[k].(map[string]any)
		if now == nil {
			now = map[string]any{}
		}
		live[k] = threeWay(now, was, child)
	}
	return live
}

// replace does the same as kubectl replace: it keeps nothing of the live object.
func (g *gateway) replace(manifest *unstructured.Unstructured) { g.live = defaulted(manifest) }

// edit changes the live object in place, as kubectl edit, label and annotate do.
func (g *gateway) edit(change func(*unstructured.Unstructured)) {
	next := g.live.DeepCopy()
	change(next)
	g.live = defaulted(next)
}

// defaulted fills in the defaults of a schema.
func defaulted(obj *unstructured.Unstructured) *unstructured.Unstructured {
	next := obj.DeepCopy()
	next.SetAnnotations(orNil(next.GetAnnotations()))
	next.SetLabels(orNil(next.GetLabels()))
	spec, _ := next.Object["spec"].(map[string]any)
	rules, _ := spec["http"].([]any)
	for _, rule := range rules {
		matches, _ := rule.(map[string]any)["match"].([]any)
		for _, m := range matches {
			m.(map[string]any)["ignoreUriCase"] = false
		}
	}
	return next
}

func setAnnotation(obj *unstructured.Unstructured, key, value string) {
	annotations := maps.Clone(obj.GetAnnotations())
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[key] = value
	obj.SetAnnotations(annotations)
}

func setLabel(obj *unstructured.Unstructured, key, value string) {
	labels := maps.Clone(obj.GetLabels())
	if labels == nil {
		labels = map[string]string{}
	}
	labels[key] = value
	obj.SetLabels(labels)
}

// ourAnnotations lists the annotations of this package that an object carries.
func ourAnnotations(obj *unstructured.Unstructured) []string {
	var found []string
	for _, k := range slices.Sorted(maps.Keys(obj.GetAnnotations())) {
		if isReleaseAnnotation(k) {
			found = append(found, k)
		}
	}
	return found
}
