package traffic

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	luaconfiguration "sluice.dev/sluice/lua_configuration"
	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
	"sluice.dev/sluice/pkg/script"
	"sluice.dev/sluice/pkg/script/cases"
)

// edge is an Ingress with its children, on a server that does all that a plan says.
type edge struct {
	*testing.T
	ref    rollout.Ref
	live   *unstructured.Unstructured
	others []*unstructured.Unstructured
	script func(others []*unstructured.Unstructured) Script
	writes int
}

const edgeManifest = `{"apiVersion":"networking.k8s.io/v1","kind":"Ingress","metadata":{"name":"web","namespace":"shop","uid":"u-web",
  "labels":{"team":"shop"},"annotations":{"alb.ingress.kubernetes.io/order":"50"}},
 "spec":{"rules":[{"host":"a"},{"host":"b","http":{"paths":[
   {"path":"/","pathType":"Prefix","backend":{"service":{"name":"web","port":{"number":80}}}},
   {"path":"/api","pathType":"Prefix","backend":{"service":{"name":"api","port":{"number":80}}}}]}}]}}`

func anEdge(t *testing.T, class string) *edge {
	t.Helper()
	source, err := script.NewLibrary(luaconfiguration.FS, "").FindIngress(class, script.ConfigMap{})
	if err != nil {
		t.Fatal(err)
	}
	return &edge{T: t, ref: rollout.IngressRef("web", class), live: object(t, edgeManifest),
		script: func(others []*unstructured.Unstructured) Script { return IngressScript(t.Context(), source, others) }}
}

func (e *edge) observe(rel Release, steps ...Strategy) (rollout.Route, *Plan) {
	byStep := map[int32]Strategy{}
	for i, s := range steps {
		byStep[int32(i+1)] = s
	}
	return ObserveRoute(e.ref, e.live, rel, byStep, e.script(e.others), e.others...)
}

// step applies a step and reports how many objects it wrote.
func (e *edge) step(rel Release, s Strategy) int {
	e.Helper()
	_, plan := e.observe(rel, s)
	desired, b, err := plan.DesiredObject(1)
	if err != nil {
		e.Fatal(err)
	}
	if desired != nil {
		e.Fatalf("the Ingress would be written: %v", desired)
	}
	e.remove(b.DeleteFirst)
	limit := 1 << 30
	for i := len(b.Apply) - 1; i >= 0; i-- {
		u := b.Apply[i]
		if key, numbers := NumberNeeded(u); key != "" {
			limit = min(limit, numbers.Max) - 1
			u = WithNumber(u, key, limit)
		}
		e.writes++
		u.SetResourceVersion(fmt.Sprint(e.writes))
		if u.GetUID() == "" {
			u.SetUID(types.UID("u-" + u.GetName()))
		}
		e.remove([]*unstructured.Unstructured{u})
		e.others = append(e.others, u)
	}
	e.remove(b.DeleteLast)
	if route, _ := e.observe(rel, s); !route.Steps[1].Applied || route.Foreign != "" || route.DeletingChild != "" {
		e.Fatalf("it is not applied: %+v", route)
	}
	return len(b.DeleteFirst) + len(b.Apply) + len(b.DeleteLast)
}

func (e *edge) remove(gone []*unstructured.Unstructured) {
	var kept []*unstructured.Unstructured
	for _, o := range e.others {
		if findObject(gone, o) == nil {
			kept = append(kept, o)
		}
	}
	e.others = kept
}

func (e *edge) restore(rel Release) {
	e.Helper()
	_, plan := e.observe(rel)
	if restored, err := plan.RestoredObject(); err != nil || restored != nil {
		e.Fatalf("the Ingress would be written: %v, %v", restored, err)
	}
	e.remove(plan.LiveChildren())
	if route, _ := e.observe(rel); route.Shaped {
		e.Fatal("it is still there")
	}
}

func (e *edge) there() map[string]map[string]string {
	all := map[string]map[string]string{}
	for _, o := range e.others {
		all[o.GetName()] = Content{Annotations: o.GetAnnotations()}.withoutReleaseAnnotations().Annotations
	}
	return all
}

var (
	web  = Release{UID: "u-1", Namespace: "shop", Name: "web", Service: "web", CanaryService: "web-canary", Epoch: 1}
	api2 = Release{UID: "u-2", Namespace: "shop", Name: "api", Service: "api", CanaryService: "api-canary", Epoch: 1}
)

const onALB = "alb.ingress.kubernetes.io/"

// Steps go forward and back. A step deletes objects that it does not need, and a repeated step writes nothing. Numbers stay while they are in order.
func TestWhatIsMadeBesideAnObjectFollowsTheSteps(t *testing.T) {
	t.Parallel()
	e := anEdge(t, "aliyun-alb")
	both := Strategy{Weight: weight(30).Weight, Matches: header("user", "beta").Matches}
	weighted := map[string]string{onALB + "canary": "true", onALB + "canary-weight": "30", onALB + "order": "48"}
	matched := map[string]string{onALB + "canary": "true", onALB + "canary-by-header": "user", onALB + "canary-by-header-value": "beta", onALB + "order": "47"}
	for i, c := range []struct {
		asked  Strategy
		writes int
		want   map[string]map[string]string
	}{
		{both, 2, map[string]map[string]string{"web-canary": matched, "web-canary-weight": weighted}},
		{both, 0, map[string]map[string]string{"web-canary": matched, "web-canary-weight": weighted}},
		{header("user", "beta"), 1, map[string]map[string]string{"web-canary": matched}},
		{weight(0), 1, map[string]map[string]string{"web-canary": {onALB + "canary": "true", onALB + "canary-weight": "0", onALB + "order": "47"}}},
		{both, 2, map[string]map[string]string{"web-canary": matched, "web-canary-weight": weighted}},
	} {
		if got := e.step(web, c.asked); got != c.writes {
			t.Errorf("step %d writes %d objects, not %d", i, got, c.writes)
		}
		if diff := cmp.Diff(c.want, e.there()); diff != "" {
			t.Errorf("step %d (-want +got):\n%s", i, diff)
		}
	}
	e.restore(web)
}

// Each release creates its own Ingress, the second under another name, and leaves the other one unchanged.
func TestTwoReleasesMakeTheirOwnBesideOneIngress(t *testing.T) {
	t.Parallel()
	e := anEdge(t, "nginx")
	e.step(web, weight(20))
	e.step(api2, weight(50))
	e.step(web, weight(40))
	var to []string
	for _, o := range e.others {
		rules, _, _ := unstructured.NestedSlice(o.Object, "spec", "rules")
		to = append(to, fmt.Sprintf("%s: %s %v", o.GetName(), o.GetAnnotations()["nginx.ingress.kubernetes.io/canary-weight"], sortedBackends(backendsIn(rules))))
	}
	want := []string{"web-api-canary: 50 [api-canary]", "web-canary: 40 [web-canary]"}
	if diff := cmp.Diff(want, sorted(to)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if route, _ := e.observe(api2, weight(50)); route.Weight != 50 {
		t.Errorf("the weight is %s", route.Weight)
	}
	e.restore(web)
	if diff := cmp.Diff([]string{"web-api-canary"}, sorted(keysOf(e.there()))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	e.restore(api2)
}

// ingress-nginx accepts one canary Ingress for a host and path, and ignores others. While another owner has one, the step is refused.
func TestAHostAndPathHasOneCanaryIngress(t *testing.T) {
	t.Parallel()
	const manifest = `{"apiVersion":"networking.k8s.io/v1","kind":"Ingress","metadata":{"name":"theirs","namespace":"shop","uid":"u-theirs","annotations":{"nginx.ingress.kubernetes.io/canary":"true"}},
		"spec":{"rules":[{"host":"b","http":{"paths":[{"path":"/","pathType":"Prefix","backend":{"service":{"name":"beta","port":{"number":80}}}}]}}]}}`
	for name, c := range map[string]struct {
		class, old, new string
		refused         bool
	}{
		"a canary of the same host and path":            {"nginx", "", "", true},
		"a canary of another path":                      {"nginx", `"path":"/"`, `"path":"/beta"`, false},
		"a canary of another host":                      {"nginx", `"host":"b"`, `"host":"c"`, false},
		"a canary of another class":                     {"nginx", `"spec":{`, `"spec":{"ingressClassName":"other",`, false},
		"a canary of the same class, by its annotation": {"nginx", `"annotations":{`, `"annotations":{"kubernetes.io/ingress.class":"other",`, false},
		"a canary of a path that is not said":           {"nginx", `"path":"/",`, ``, true},
		"an Ingress that is no canary":                  {"nginx", `"true"`, `"false"`, false},
		"a canary that is being deleted":                {"nginx", `"uid":`, `"deletionTimestamp":"2026-11-20T10:00:00Z","uid":`, false},
		"a class that takes any number of them":         {"higress", "", "", false},
		"a class whose annotations are other ones":      {"aliyun-alb", "", "", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := anEdge(t, c.class)
			e.others = append(e.others, object(t, strings.Replace(manifest, c.old, c.new, 1)))
			route, _ := e.observe(web, weight(20))
			const says = "Ingress theirs is a canary of the same host and path, and its controller uses only one; delete it, or wait until its release has ended"
			if got := route.Steps[1].Refused; strings.Contains(got, says) != c.refused || !c.refused && got != "" {
				t.Errorf("refused: %q", got)
			}
		})
	}
}

// For each case of a class, the release creates its Ingresses and leaves the owner's Ingress unchanged. A created Ingress has exactly the paths to the
// Service, with all their fields and hosts, and the annotations of the case.
func TestEachCaseOfAClassIsMadeBesideItsIngress(t *testing.T) {
	t.Parallel()
	all, err := cases.LoadIngressCases(luaconfiguration.FS)
	if err != nil {
		t.Fatal(err)
	}
	library := script.NewLibrary(luaconfiguration.FS, "")
	for _, c := range all {
		t.Run(c.Path, func(t *testing.T) {
			t.Parallel()
			source, err := c.Source(library)
			if err != nil {
				t.Fatal(err)
			}
			for i, in := range c.Steps {
				out, err := IngressScript(t.Context(), source, nil)(in)
				if c.Refused != "" {
					if err == nil || !strings.Contains(err.Error(), c.Refused) {
						t.Errorf("step %d: got %v, want %s", i+1, err, c.Refused)
					}
					continue
				}
				if err != nil {
					t.Fatalf("step %d: %v", i+1, err)
				}
				if diff := cmp.Diff(script.Output{Spec: c.Original["spec"]}, script.Output{Spec: out.Spec, Labels: out.Labels, Annotations: out.Annotations}); diff != "" {
					t.Errorf("step %d: the Ingress (-want +got):\n%s", i+1, diff)
				}
				want := c.Created[i]
				if len(out.Create) != len(want) {
					t.Fatalf("step %d: %d Ingresses are made, want %d", i+1, len(out.Create), len(want))
				}
				for j, made := range out.Create {
					madeAsTheCaseSays(t, in, made, want[j], source.Capabilities.Orders)
				}
			}
		})
	}
}

func madeAsTheCaseSays(t *testing.T, in script.Input, made, want map[string]any, orders *script.Orders) {
	t.Helper()
	annotations := (&unstructured.Unstructured{Object: made}).GetAnnotations()
	if orders != nil { // the executor sets the order when it writes the object
		if _, numbers := NumberNeeded(&unstructured.Unstructured{Object: made}); numbers.Max < orders.Min {
			t.Errorf("step %d: it has no order", in.Step)
		}
		delete(annotations, orders.Annotation)
	}
	told := (&unstructured.Unstructured{Object: map[string]any{"metadata": want}}).GetAnnotations()
	if diff := cmp.Diff(told, annotations); diff != "" {
		t.Errorf("step %d: the annotations (-want +got):\n%s", in.Step, diff)
	}
	if diff := cmp.Diff(besidePaths(in.Spec), besidePaths(made["spec"])); diff != "" {
		t.Errorf("step %d: class and TLS (-of the Ingress +of the canary Ingress):\n%s", in.Step, diff)
	}
	if diff := cmp.Diff(pathsTo(in.Spec, in.StableService), pathsTo(made["spec"], in.CanaryService)); diff != "" {
		t.Errorf("step %d: the paths (-of the Ingress +of the canary Ingress):\n%s", in.Step, diff)
	}
	if diff := cmp.Diff(pathsTo(made["spec"], in.CanaryService), pathsTo(made["spec"], "")); diff != "" {
		t.Errorf("step %d: the canary Ingress leads elsewhere, too (-to the canary +all):\n%s", in.Step, diff)
	}
}

// besidePaths returns the fields of an Ingress other than its paths and backends.
func besidePaths(spec any) map[string]any {
	of, _ := fromJSON([]byte(jsonOf(spec))).(map[string]any)
	delete(of, "rules")
	delete(of, "defaultBackend")
	return of
}

// pathsTo returns the paths of an Ingress that lead to a Service, each with its host and without the name of the Service. Without a Service it returns all
// paths.
func pathsTo(spec any, service string) (found []string) {
	of, _ := fromJSON([]byte(jsonOf(spec))).(map[string]any)
	rules, _, _ := unstructured.NestedSlice(of, "rules")
	for _, rule := range rules {
		rule, _ := rule.(map[string]any)
		paths, _, _ := unstructured.NestedSlice(rule, "http", "paths")
		for _, path := range paths {
			to, _ := path.(map[string]any)["backend"].(map[string]any)["service"].(map[string]any)
			if service != "" && to["name"] != service {
				continue
			}
			delete(to, "name")
			found = append(found, fmt.Sprint(rule["host"], " ", jsonOf(path)))
		}
	}
	return found
}

// A change by others is reported as theirs and overwritten. An addition by others stays. The release waits for an object that is being deleted.
func TestWhatOthersDoToWhatWasMade(t *testing.T) {
	t.Parallel()
	e := anEdge(t, "nginx")
	e.step(web, weight(20))
	setAnnotation(e.others[0], "example.com/controller", "seen")
	if route, _ := e.observe(web, weight(20)); !route.Steps[1].Applied || route.Foreign != "" {
		t.Errorf("an annotation of the controller counts as a change: %+v", route)
	}
	setAnnotation(e.others[0], "nginx.ingress.kubernetes.io/canary-weight", "90")
	if route, _ := e.observe(web, weight(20)); route.Steps[1].Applied || route.Foreign == "" {
		t.Errorf("another weight does not count as a change: %+v", route)
	}
	e.step(web, weight(30))
	want := map[string]map[string]string{"web-canary": {"nginx.ingress.kubernetes.io/canary": "true", "nginx.ingress.kubernetes.io/canary-weight": "30",
		"alb.ingress.kubernetes.io/order": "50", "example.com/controller": "seen"}}
	if diff := cmp.Diff(want, e.there()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	now := metav1.Now()
	e.others[0].SetDeletionTimestamp(&now)
	if route, _ := e.observe(web, weight(30)); route.DeletingChild != "Ingress web-canary" || route.Shaped {
		t.Errorf("it is not waited for: %+v", route)
	}
}

// A Rollout that was removed by force leaves its created objects behind, and a Rollout of the same name takes them over.
func TestWhatANamesakeMadeIsTakenOver(t *testing.T) {
	t.Parallel()
	e := anEdge(t, "nginx")
	e.step(web, weight(20))
	next := web
	next.UID = "u-next"
	if route, _ := e.observe(next); !route.Shaped {
		t.Fatal("it is nobody's")
	}
	e.restore(next)
}

func TestWhatMayNotBeMadeIsRefused(t *testing.T) {
	t.Parallel()
	foreign := object(t, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"taken","namespace":"shop"}}`)
	for says, made := range map[string]map[string]any{
		"in namespace other; it may only create objects in the namespace of Ingress web": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "a", "namespace": "other"}},
		"the script makes Ingress web twice":                                             {"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": map[string]any{"name": "web"}},
		"ConfigMap taken exists, and this release did not make it":                       {"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "taken"}},
		"the script adds the backend other": {"apiVersion": "x/v1", "kind": "Split", "metadata": map[string]any{"name": "a"},
			"spec": map[string]any{"backends": []any{map[string]any{"service": "other"}}}},
	} {
		run := func(in script.Input) (script.Output, error) {
			return script.Output{Spec: in.Spec, Create: []map[string]any{made}}, nil
		}
		route, _ := ObserveRoute(rollout.IngressRef("web", ""), object(t, edgeManifest), web, map[int32]Strategy{1: weight(20)}, run, foreign)
		if got := route.Steps[1].Refused; !strings.Contains(got, says) {
			t.Errorf("want %q, got %q", says, got)
		}
	}
}

// A script may create objects of any kind. The release owns all their fields. delete names the objects to delete before the others are written.
func TestAScriptMakesAndDeletesObjectsOfItsKinds(t *testing.T) {
	t.Parallel()
	e := anEdge(t, "nginx")
	one := func(name, of string) map[string]any {
		return map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": name, "labels": map[string]any{"a": of}}, "data": map[string]any{of: of}}
	}
	e.script = func([]*unstructured.Unstructured) Script {
		return func(in script.Input) (script.Output, error) {
			if in.CanaryWeight == 20 {
				return script.Output{Spec: in.Spec, Create: []map[string]any{one("x", "first"), one("y", "first")}}, nil
			}
			return script.Output{Spec: in.Spec, Create: []map[string]any{one("x", "second")}, Delete: []script.Reference{{APIVersion: "v1", Kind: "ConfigMap", Name: "y"}}}, nil
		}
	}
	e.step(web, weight(20))
	_, plan := e.observe(web, weight(30))
	_, b, err := plan.DesiredObject(1)
	if err != nil || len(b.DeleteFirst) != 1 || len(b.Apply) != 1 || len(b.DeleteLast) != 0 {
		t.Fatalf("it does %+v, %v", b, err)
	}
	if diff := cmp.Diff(map[string]any{"second": "second"}, b.Apply[0].Object["data"]); diff != "" {
		t.Errorf("its data (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]string{"a": "second", api.LabelRolloutUID: "u-1"}, b.Apply[0].GetLabels()); diff != "" {
		t.Errorf("its labels (-want +got):\n%s", diff)
	}
	e.step(web, weight(30))
}

func keysOf(m map[string]map[string]string) (names []string) {
	for name := range m {
		names = append(names, name)
	}
	return names
}

func sorted(list []string) []string {
	slices.Sort(list)
	return list
}
