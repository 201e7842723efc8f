package gateway

import (
	"cmp"
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	diff "github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	luaconfiguration "sluice.dev/sluice/lua_configuration"
	"sluice.dev/sluice/pkg/rollout"
	"sluice.dev/sluice/pkg/script"
	"sluice.dev/sluice/pkg/traffic"
)

// namespaceOf returns the namespace of an object's Services. An object without a namespace names it with each Service.
func namespaceOf(u *unstructured.Unstructured) string {
	if u.GetKind() == "TrafficRoute" {
		text, _ := json.Marshal(u.Object["spec"])
		if found := inMesh.FindSubmatch(text); found != nil {
			return string(found[1])
		}
	}
	return cmp.Or(u.GetNamespace(), "default")
}

var inMesh = regexp.MustCompile(`"[a-z0-9-]+_([a-z0-9-]+)_svc_`)

// sourceOf returns the built-in script of an object's kind. Ingresses have the class nginx.
func sourceOf(u *unstructured.Unstructured) (script.Source, error) {
	kind := u.GroupVersionKind()
	if isIngress(u) {
		return script.NewLibrary(luaconfiguration.FS, "").FindIngress("nginx", script.ConfigMap{})
	}
	return script.NewLibrary(luaconfiguration.FS, "").FindScript(kind.Group, kind.Kind, script.ConfigMap{})
}

func isIngress(u *unstructured.Unstructured) bool {
	return u.GetAPIVersion() == "networking.k8s.io/v1" && u.GetKind() == "Ingress"
}

func known(u *unstructured.Unstructured) bool {
	_, err := sourceOf(u)
	return err == nil && u.Object["spec"] != nil
}

// steps returns steps with a share of the traffic, and with headers if the kind has them.
func steps(kind string) []traffic.Strategy {
	var all []traffic.Strategy
	for _, text := range []string{"weight: 20", "matches: [{headers: [{name: x-sluice, value: canary}]}]"} {
		var s traffic.Strategy
		if err := yaml.Unmarshal([]byte(text), &s); err != nil {
			panic(err)
		}
		if len(s.Matches) > 0 && slices.Contains([]string{"TCPRoute", "TLSRoute", "TraefikService"}, kind) {
			continue
		}
		all = append(all, s)
	}
	return all
}

// releaseOf returns a release of a Service that an object leads to.
func releaseOf(t *testing.T, u *unstructured.Unstructured, service string) traffic.Release {
	t.Helper()
	source, err := sourceOf(u)
	if err != nil {
		t.Fatal(err)
	}
	rel := traffic.Release{UID: "release", Namespace: namespaceOf(u), Name: "release", Service: service, CanaryService: service + "-canary", Epoch: 1}
	if source.Capabilities.Referenced { // it selects both versions behind one Service
		rel.CanaryService = service
	}
	return rel
}

// outcome is the result for an object: its shapes, the additional objects, and the reason why a step was refused.
type outcome struct {
	shaped, made []*unstructured.Unstructured
	refused      string
}

// play takes an object through steps of a release, and back. If the restored object differs from the original, the test
// fails.
func play(t *testing.T, original *unstructured.Unstructured, rel traffic.Release, steps []traffic.Strategy) (out outcome) {
	t.Helper()
	source, err := sourceOf(original)
	if err != nil {
		t.Fatal(err)
	}
	if isIngress(original) {
		return playIngress(t, original, source, rel, steps)
	}
	run := traffic.LuaScript(t.Context(), source)
	ref := rollout.Ref{APIVersion: original.GetAPIVersion(), Kind: original.GetKind(), Name: original.GetName()}
	live := original.DeepCopy()
	live.SetUID("object")
	var beside []*unstructured.Unstructured
	put := func(all []*unstructured.Unstructured) {
		for _, u := range all {
			beside = slices.DeleteFunc(beside, func(o *unstructured.Unstructured) bool {
				return o.GetKind() == u.GetKind() && o.GetName() == u.GetName()
			})
			beside, out.made = append(beside, traffic.StampCreation(u, time.Unix(0, 0))), append(out.made, u)
		}
	}
	for _, s := range steps {
		observe := func() (rollout.Route, *traffic.Plan) {
			return traffic.ObserveRoute(ref, live, rel, map[int32]traffic.Strategy{1: s}, run, beside...)
		}
		route, plan := observe()
		if why := route.Steps[1].Refused; why != "" {
			out.refused = cmp.Or(out.refused, because(original, rel, why))
			continue
		}
		named, err := plan.ChildrenToPrepare(1)
		if err != nil {
			t.Fatal(err)
		}
		put(named)
		_, plan = observe()
		desired, with, err := plan.DesiredObject(1)
		if err != nil {
			t.Fatal(err)
		}
		put(with.Apply)
		if desired == nil {
			continue
		}
		live = traffic.StampRendered(desired, traffic.ContentDigest(desired))
		if route, _ := observe(); !route.Steps[1].Applied || route.Foreign != "" {
			t.Errorf("%s %s is not as the step wants it: %+v", original.GetKind(), original.GetName(), route)
		}
		bare := original.DeepCopy()
		bare.Object["spec"] = live.DeepCopy().Object["spec"]
		out.shaped = append(out.shaped, bare)
	}
	_, plan := traffic.ObserveRoute(ref, live, rel, nil, run, beside...)
	restored, err := plan.RestoredObject()
	if err != nil && out.refused == "" {
		t.Fatal(err)
	}
	if restored == nil {
		return out // the object was never written
	}
	if d := diff.Diff(traffic.ContentOf(original), traffic.ContentOf(restored)); d != "" {
		t.Errorf("%s %s (-before +after):\n%s", original.GetKind(), original.GetName(), d)
	}
	if taken := len(plan.UnreferencedChildren()) + len(plan.ReferencedChildren()); taken != len(beside) {
		t.Errorf("%s %s: %d of the %d objects that were made go in the end", original.GetKind(), original.GetName(), taken, len(beside))
	}
	return out
}

// because returns a refusal without the names of this object.
func because(original *unstructured.Unstructured, rel traffic.Release, why string) string {
	_, why, _ = strings.Cut(why, " cannot carry out step 1: ")
	return original.GetKind() + ": " + strings.ReplaceAll(why, rel.Service, "S")
}

// playIngress does the same with an Ingress, which the executor never writes. shaped has the created Ingresses. All of
// them must be gone in the end.
func playIngress(t *testing.T, original *unstructured.Unstructured, source script.Source, rel traffic.Release, steps []traffic.Strategy) outcome {
	t.Helper()
	live := original.DeepCopy()
	live.SetUID("object")
	var shaped, beside []*unstructured.Unstructured
	observe := func(steps map[int32]traffic.Strategy) (rollout.Route, *traffic.Plan) {
		return traffic.ObserveRoute(rollout.IngressRef(original.GetName(), "nginx"), live, rel, steps, traffic.IngressScript(t.Context(), source, beside), beside...)
	}
	for _, s := range steps {
		route, plan := observe(map[int32]traffic.Strategy{1: s})
		if why := route.Steps[1].Refused; why != "" {
			return outcome{refused: because(original, rel, why)}
		}
		desired, made, err := plan.DesiredObject(1)
		if err != nil || desired != nil || len(made.Apply) != 1 || len(made.DeleteFirst)+len(made.DeleteLast) > 0 {
			t.Fatalf("Ingress %s: %v, the Ingress becomes %v, beside it %+v", original.GetName(), err, desired, made)
		}
		beside = made.Apply
		if to := servicesOf(beside[0]); !slices.Equal(to, []string{rel.CanaryService}) {
			t.Errorf("Ingress %s leads to %v, and not to %s alone", beside[0].GetName(), to, rel.CanaryService)
		}
		shaped = append(shaped, made.Apply[0])
	}
	_, plan := observe(nil)
	if restored, err := plan.RestoredObject(); err != nil || restored != nil || len(plan.UnreferencedChildren()) != len(beside) {
		t.Errorf("Ingress %s: in the end it becomes %v, and of %d beside it %d go (%v)", original.GetName(), restored, len(beside), len(plan.UnreferencedChildren()), err)
	}
	return outcome{shaped: shaped}
}

// servicesOf returns the Services of an object's namespace that receive its requests or connections, by the fields of
// each kind.
func servicesOf(u *unstructured.Unstructured) []string {
	ns := namespaceOf(u)
	found := map[string]bool{}
	var walk func(field string, v any)
	walk = func(field string, v any) {
		switch v := v.(type) {
		case []any:
			for _, e := range v {
				walk(field, e)
			}
		case map[string]any:
			if name := serviceOf(field, v, ns); name != "" && v["weight"] != int64(0) && v["weight"] != float64(0) {
				found[name] = true
			}
			for key, e := range v {
				if key != "filters" && key != "mirror" && key != "mirrors" {
					walk(key, e)
				}
			}
		}
	}
	walk("", u.Object["spec"])
	if u.GetKind() == "DestinationRule" {
		spec, _ := u.Object["spec"].(map[string]any)
		if name := serviceOf("", map[string]any{"destination": spec}, ns); name != "" {
			found[name] = true
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// serviceOf returns the Service that a part of an object names, by its field.
func serviceOf(field string, part map[string]any, ns string) string {
	text := func(m map[string]any, key string) string { s, _ := m[key].(string); return s }
	to, _ := part["destination"].(map[string]any)
	switch {
	case text(to, "kuma.io/service") != "":
		parts := strings.Split(text(to, "kuma.io/service"), "_")
		if len(parts) > 2 && parts[1] == ns {
			return parts[0]
		}
	case text(to, "host") != "":
		parts := strings.Split(text(to, "host"), ".")
		if len(parts) == 1 || parts[1] == ns && (len(parts) == 2 || parts[2] == "svc") {
			return parts[0]
		}
	case slices.Contains([]string{"backends", "backend"}, field):
		return text(part, "serviceName")
	case slices.Contains([]string{"backendRefs", "services", "service", "mirroring", "fallback"}, field):
		kind, group, of := text(part, "kind"), text(part, "group"), text(part, "namespace")
		if (kind == "" || kind == "Service") && group == "" && (of == "" || of == ns) {
			return text(part, "name")
		}
	}
	return ""
}
