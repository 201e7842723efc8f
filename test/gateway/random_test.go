package gateway

import (
	"encoding/json"
	"flag"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"

	"sluice.dev/sluice/pkg/traffic"
	"sluice.dev/sluice/test/world"
)

var (
	drawn = flag.Int("gateway.drawn", 150, "how many random objects of each kind are drawn")
	seed  = flag.Uint64("gateway.seed", 1, "what they are drawn by")
)

// The test draws objects from the definition of a kind and keeps those that the API server accepts. The API server also
// accepts the shape of each step and the additional objects, and the restored object is equal to the original. Or a
// step is refused for a reason of the step or the object, never of the script. The steps use all capabilities of the
// kind.
func TestRandomObjectsAreShapedAndGivenBack(t *testing.T) {
	t.Parallel()
	w := world.Shared(t)
	for kind, s := range schemas(t) {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			j := aJudge(t, w.Config, w.Namespace(t))
			taken, led, shaped, refused, made := 0, 0, 0, 0, 0
			source, err := sourceOf(&unstructured.Unstructured{Object: map[string]any{"apiVersion": s.version, "kind": kind}})
			if err != nil {
				t.Fatal(err)
			}
			can := source.Capabilities
			for i := range *drawn {
				d := draw{rand.New(rand.NewPCG(*seed, uint64(i)))}
				u := s.object(d)
				if j.try(t.Context(), u.Object) != nil {
					continue
				}
				taken++
				if !slices.Contains(servicesOf(u), "web") {
					continue
				}
				led++
				rel := releaseOf(t, u, "web")
				asked := d.ask(can, &rel)
				outcome := play(t, u, rel, asked)
				for _, words := range []string{"mend the script", "attempt to", "must not"} {
					if strings.Contains(outcome.refused, words) {
						t.Errorf("object %d: %s\n%s\nsteps: %s", i, outcome.refused, text(t, u), told(t, asked))
					}
				}
				if outcome.refused != "" {
					refused++
				}
				if len(outcome.shaped) > 0 {
					shaped++
				}
				made += len(outcome.made)
				for _, after := range slices.Concat(outcome.shaped, outcome.made) {
					if err := j.try(t.Context(), after.Object); err != nil {
						t.Errorf("object %d: %v\nbefore:\n%s\nafter, %s:\n%s\nsteps: %s", i, err, text(t, u), after.GetKind(), text(t, after), told(t, asked))
					}
				}
				if t.Failed() {
					t.FailNow()
				}
			}
			t.Logf("the API server takes %d of %d, %d of them lead to the Service, %d of these are shaped, and a step of %d is refused; %d objects are made beside them",
				taken, *drawn, led, shaped, refused, made)
			if made == 0 && len(can.Creates) > 0 {
				t.Error("nothing is made beside them: draw better steps")
			}
			if shaped < *drawn/15 {
				t.Errorf("only %d of %d objects are shaped: draw better ones", shaped, *drawn)
			}
		})
	}
}

func text(t *testing.T, u *unstructured.Unstructured) string {
	t.Helper()
	body, err := yaml.Marshal(u.Object["spec"])
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// told returns steps in readable form.
func told(t *testing.T, steps []traffic.Strategy) string {
	t.Helper()
	body, err := json.Marshal(steps)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// schema is the definition of a kind from its CustomResourceDefinition.
type schema struct {
	version, kind string
	spec          map[string]any
}

// trafficRoute is the schema of a TrafficRoute from Kuma's documentation, because its definition accepts anything.
const trafficRoute = `
type: object
required: [sources, destinations, conf]
properties:
  sources: &selectors
    {type: array, minItems: 1, items: {type: object, required: [match], properties: {match: {type: object, additionalProperties: {type: string}}}}}
  destinations: *selectors
  conf:
    type: object
    oneOf: [{required: [destination]}, {required: [split]}]
    properties:
      destination: &destination
        {type: object, required: [kuma.io/service], properties: {kuma.io/service: {type: string}, version: {type: string}}}
      split: &split
        type: array
        minItems: 1
        items: {type: object, required: [destination, weight], properties: {destination: *destination, weight: {type: integer}}}
      loadBalancer: {type: object, properties: {roundRobin: {type: object}}}
      http:
        type: array
        items:
          type: object
          required: [match]
          oneOf: [{required: [destination]}, {required: [split]}]
          properties:
            match:
              type: object
              required: [path]
              properties:
                method: &matcher
                  {type: object, anyOf: [{required: [prefix]}], properties: {prefix: {type: string, enum: [/a, /a/b, b]}}}
                path: *matcher
                headers: {type: object, additionalProperties: *matcher}
            destination: *destination
            split: *split
            modify:
              type: object
              properties:
                path: {type: object, properties: {rewritePrefix: {type: string}}}
                requestHeaders:
                  type: object
                  properties:
                    add: {type: array, items: {type: object, required: [name, value], properties: {name: {type: string}, value: {type: string}, append: {type: boolean}}}}
                    remove: {type: array, items: {type: object, required: [name], properties: {name: {type: string}}}}
`

// schemas returns the definitions of the kinds with scripts.
func schemas(t *testing.T) map[string]schema {
	t.Helper()
	found := map[string]schema{}
	for _, name := range []string{"istio", "gateway-api", "traefik", "apisix"} {
		body, err := os.ReadFile(filepath.Join(world.Root(), "bin/crds", name+".yaml"))
		if err != nil {
			t.Fatal(err)
		}
		for _, doc := range document.Split(string(body), -1) {
			var crd struct {
				Spec struct {
					Group    string
					Names    struct{ Kind string }
					Versions []struct {
						Name   string
						Served bool
						Schema struct{ OpenAPIV3Schema map[string]any }
					}
				}
			}
			if err := yaml.Unmarshal([]byte(doc), &crd); err != nil {
				t.Fatal(err)
			}
			for _, v := range crd.Spec.Versions {
				u := &unstructured.Unstructured{}
				u.SetAPIVersion(crd.Spec.Group + "/" + v.Name)
				u.SetKind(crd.Spec.Names.Kind)
				if _, err := sourceOf(u); err != nil || !v.Served {
					continue
				}
				properties, _ := v.Schema.OpenAPIV3Schema["properties"].(map[string]any)
				spec, _ := properties["spec"].(map[string]any)
				found[u.GetKind()] = schema{u.GetAPIVersion(), u.GetKind(), spec}
			}
		}
	}
	var spec map[string]any
	if err := yaml.Unmarshal([]byte(trafficRoute), &spec); err != nil {
		t.Fatal(err)
	}
	found["TrafficRoute"] = schema{"kuma.io/v1alpha1", "TrafficRoute", spec}
	return found
}

func (s schema) object(d draw) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{"spec": d.value("spec", s.spec, 0)}}
	u.SetAPIVersion(s.version)
	u.SetKind(s.kind)
	u.SetName("drawn")
	return u.DeepCopy()
}

// draw draws values from schemas.
type draw struct{ *rand.Rand }

func (d draw) chance(percent int) bool { return d.IntN(100) < percent }

func one[T any](d draw, of ...T) T { return of[d.IntN(len(of))] }

// toBackends are the fields that lead the kinds to their backends. Most drawn objects should have them.
var toBackends = []string{"rules", "backendRefs", "http", "tcp", "route", "routes", "services", "weighted", "backends", "destination", "split", "weight", "port", "serviceName", "servicePort"}

func (d draw) value(field string, s map[string]any, depth int) any {
	if enum, ok := s["enum"].([]any); ok {
		return one(d, enum...)
	}
	switch s["type"] {
	case "object":
		return d.object(s, depth)
	case "array":
		items, _ := s["items"].(map[string]any)
		least, most := int(number(s, "minItems", 0)), int(number(s, "maxItems", 3))
		if slices.Contains(toBackends, field) {
			least = max(least, 1)
		}
		list := []any{}
		for range least + d.IntN(max(1, min(most, least+2)-least+1)) {
			list = append(list, d.value(field, items, depth+1))
		}
		return list
	case "integer", "number":
		least := number(s, "minimum", 0)
		most := min(number(s, "maximum", 100), least+100)
		return int64(least) + int64(d.IntN(int(most-least)+1))
	case "boolean":
		return d.chance(50)
	case "string":
		return d.string(field, s)
	}
	if s["x-kubernetes-int-or-string"] == true {
		return one[any](d, int64(80), "http")
	}
	return map[string]any{"list": []any{}, "map": map[string]any{}, "big": int64(9007199254740993)}
}

func (d draw) object(s map[string]any, depth int) any {
	out := map[string]any{}
	properties, _ := s["properties"].(map[string]any)
	required := d.required(s)
	left := d.alternatives(s)
	for _, field := range slices.Sorted(maps.Keys(properties)) {
		chance := 40 / (depth + 2)
		if slices.Contains(toBackends, field) {
			chance = 90
		}
		if member, ok := properties[field].(map[string]any); ok && !left[field] && (slices.Contains(required, field) || d.chance(chance)) {
			out[field] = d.value(field, member, depth+1)
		}
	}
	d.union(out, properties, depth)
	if more, ok := s["additionalProperties"].(map[string]any); ok {
		for range d.IntN(3) {
			out[one(d, "a", "b", "x-user")] = d.value("", more, depth+1)
		}
	}
	return out
}

// union keeps, of an object with a type, only the field named after the type, as the Gateway API wants it.
func (d draw) union(out, properties map[string]any, depth int) {
	said, _ := out["type"].(string)
	of, _ := properties["type"].(map[string]any)
	kinds, _ := of["enum"].([]any)
	for _, k := range kinds {
		name, _ := k.(string)
		field := strings.ToLower(name[:min(1, len(name))]) + name[min(1, len(name)):]
		member, ok := properties[field].(map[string]any)
		switch {
		case !ok:
		case name != said:
			delete(out, field)
		case out[field] == nil:
			out[field] = d.value(field, member, depth+1)
		}
	}
}

func (d draw) required(s map[string]any) []string {
	var fields []string
	list, _ := s["required"].([]any)
	for _, f := range list {
		if f, ok := f.(string); ok {
			fields = append(fields, f)
		}
	}
	anyOf, _ := s["anyOf"].([]any)
	if len(anyOf) > 0 {
		if first, ok := anyOf[0].(map[string]any); ok {
			fields = append(fields, d.required(first)...)
		}
	}
	return fields
}

// alternatives selects one of the fields of an object that exclude each other, and returns the others.
func (d draw) alternatives(s map[string]any) map[string]bool {
	var exclusive []string
	oneOf, _ := s["oneOf"].([]any)
	for _, option := range oneOf {
		if option, ok := option.(map[string]any); ok {
			exclusive = append(exclusive, d.required(option)...)
		}
	}
	left := map[string]bool{}
	if len(exclusive) > 0 {
		kept := one(d, exclusive...)
		for _, f := range exclusive {
			left[f] = f != kept
		}
	}
	return left
}

func (d draw) string(field string, s map[string]any) string {
	switch field {
	case "name", "serviceName":
		return one(d, "web", "web", "web", "other")
	case "host":
		return one(d, "web", "web", "web", "other", "web.default.svc.cluster.local")
	case "kuma.io/service":
		return one(d, "web_default_svc_80", "web_default_svc_80", "other_default_svc_80", "web_elsewhere_svc_80", "*")
	case "match":
		return one(d, "Host(`a`)", "Path(`/a`) || Header(`x`, `y`)", "PathPrefix(`/`)")
	case "timeout", "perTryTimeout", "backoff", "maxAge":
		return "5s"
	case "namespace":
		return one(d, "default", "elsewhere")
	}
	if pattern, ok := s["pattern"].(string); ok {
		return rapid.StringMatching(pattern).Example(d.IntN(1 << 20))
	}
	if s["format"] == "date-time" {
		return "2026-01-01T00:00:00Z"
	}
	words := []string{"a", "/a", "x-user", "5s", "10.0.0.1"}
	return words[d.IntN(len(words))]
}

func number(s map[string]any, field string, otherwise float64) float64 {
	if n, ok := s[field].(float64); ok {
		return n
	}
	return otherwise
}
