package validate

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"sluice.dev/sluice/pkg/api"
)

// checkVersions writes random Rollouts in one version, reads them in the other and writes them back. It then finds all
// set fields unchanged, including 0 and false, and in addition only defaults.
func (s server) checkVersions(t *testing.T) {
	dice := rand.New(rand.NewPCG(20, 1))
	ran := map[string]int{}
	for n := range 60 {
		name := fmt.Sprintf("round-%d", n)
		legacy := dice.IntN(2) == 0
		there, back := api.V1beta1, api.V1alpha1
		if dice.IntN(2) == 0 {
			there, back = back, there
		}
		spec := anySpec(dice, legacy)
		for field := range spec["strategy"].(map[string]any) {
			ran[field]++
		}
		sent := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
		sent.SetKind(api.KindRollout)
		sent.SetName(name)
		sent.SetAPIVersion(api.Group + "/" + there)
		options := metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict}
		made, err := s.client(t, "", sent, &warnings{}).Create(t.Context(), sent, options)
		if err != nil {
			t.Fatalf("%v\n%v", err, spec)
		}
		wantKept(t, name, "spec", spec, made.Object["spec"])

		other := made.DeepCopy()
		other.SetAPIVersion(api.Group + "/" + back)
		through := s.client(t, "", other, &warnings{})
		read, err := through.Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		read.SetLabels(map[string]string{"seen": "true"})
		written, err := through.Update(t.Context(), read, metav1.UpdateOptions{FieldValidation: metav1.FieldValidationStrict})
		if err != nil {
			t.Fatal(err)
		}
		again, err := s.client(t, "", sent, &warnings{}).Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for way, u := range map[string]*unstructured.Unstructured{"read": read, "written": written, "read back": again} {
			if diff := cmp.Diff(made.Object["spec"], u.Object["spec"]); diff != "" {
				t.Errorf("%s through %s (-%s +%s):\n%s", way, back, there, back, diff)
			}
		}
	}
	if ran["canary"] < 10 || ran["blueGreen"] < 10 {
		t.Errorf("the Rollouts show too little: %v", ran)
	}
}

// wantKept checks that all sent fields are there.
func wantKept(t *testing.T, name, path string, sent, got any) {
	t.Helper()
	switch sent := sent.(type) {
	case map[string]any:
		fields, _ := got.(map[string]any)
		for field, value := range sent {
			wantKept(t, name, path+"."+field, value, fields[field])
		}
	case []any:
		list, _ := got.([]any)
		if len(list) != len(sent) {
			t.Errorf("%s: %s has %d elements, %d were sent", name, path, len(list), len(sent))
			return
		}
		for i := range sent {
			wantKept(t, name, fmt.Sprintf("%s[%d]", path, i), sent[i], list[i])
		}
	default:
		if sent != got {
			t.Errorf("%s: %s is %v, %v was sent", name, path, got, sent)
		}
	}
}

func pick[T any](dice *rand.Rand, of ...T) T { return of[dice.IntN(len(of))] }

// some sets a random selection of fields of an object.
func some(dice *rand.Rand, object map[string]any, fields map[string]func() any) map[string]any {
	for _, field := range slices.Sorted(maps.Keys(fields)) {
		if dice.IntN(2) == 0 {
			object[field] = fields[field]()
		}
	}
	return object
}

// anySpec returns a valid spec, with legacy in the form of v1alpha1.
func anySpec(dice *rand.Rand, legacy bool) map[string]any {
	workload := map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "name": "demo"}
	spec := map[string]any{"workloadRef": workload}
	if legacy {
		spec = map[string]any{"objectRef": map[string]any{"workloadRef": workload}}
	}
	style := "canary"
	if !legacy && dice.IntN(2) == 0 {
		style = "blueGreen"
	}
	strategy := map[string]any{"steps": anySteps(dice, legacy)}
	some(dice, strategy, map[string]func() any{
		"failureThreshold":             func() any { return pick[any](dice, int64(0), int64(2), "0%", "35%") },
		"disableGenerateCanaryService": func() any { return pick(dice, true, false) },
		"trafficRoutings":              func() any { return []any{anyRouting(dice)} },
		"progressDeadlineSeconds":      func() any { return int64(1 + dice.IntN(900)) },
		"abortScaleDownDelaySeconds":   func() any { return int64(dice.IntN(3)) },
	})
	if style == "canary" {
		some(dice, strategy, map[string]func() any{
			"enableExtraWorkloadForCanary": func() any { return pick(dice, true, false) },
			"patchPodTemplateMetadata": func() any {
				return map[string]any{"labels": map[string]any{"tier": "canary"}, "annotations": map[string]any{"note": ""}}
			},
		})
	}
	spec["strategy"] = some(dice, map[string]any{style: strategy}, map[string]func() any{"paused": func() any { return pick(dice, true, false) }})
	return some(dice, spec, map[string]func() any{"disabled": func() any { return pick(dice, true, false) }})
}

func anySteps(dice *rand.Rand, legacy bool) (steps []any) {
	for n := range 1 + dice.IntN(4) {
		step := map[string]any{"replicas": fmt.Sprintf("%d%%", 10*(n+1))}
		some(dice, step, map[string]func() any{
			"pause": func() any { return map[string]any{"duration": int64(dice.IntN(2) * 30)} },
			"requestHeaderModifier": func() any {
				return map[string]any{"set": []any{map[string]any{"name": "x-canary", "value": "1"}}, "remove": []any{"x-old"}}
			},
			"matches": func() any { return anyMatches(dice) },
		})
		switch {
		case legacy && dice.IntN(2) == 0:
			step["weight"] = int64(1 + dice.IntN(100))
		case !legacy && dice.IntN(2) == 0:
			step["traffic"] = fmt.Sprintf("%d%%", 1+dice.IntN(100))
		}
		steps = append(steps, step)
	}
	return steps
}

func anyMatches(dice *rand.Rand) (matches []any) {
	pair := func(name string) any {
		return map[string]any{"type": pick(dice, "Exact", "RegularExpression"), "name": name, "value": "b"}
	}
	for range 1 + dice.IntN(3) {
		matches = append(matches, some(dice, map[string]any{"path": map[string]any{"type": pick(dice, "Exact", "PathPrefix"), "value": "/v2"}}, map[string]func() any{
			"headers":     func() any { return []any{pair("user"), pair("agent")} },
			"queryParams": func() any { return []any{pair("beta")} },
		}))
	}
	return matches
}

func anyRouting(dice *rand.Rand) map[string]any {
	routing := map[string]any{"service": "demo"}
	some(dice, routing, map[string]func() any{"gracePeriodSeconds": func() any { return int64(dice.IntN(3)) }})
	switch dice.IntN(3) {
	case 0:
		routing["ingress"] = some(dice, map[string]any{"name": "demo"}, map[string]func() any{"classType": func() any { return "nginx" }})
	case 1:
		routing["gateway"] = map[string]any{"httpRouteName": "demo"}
	default:
		routing["customNetworkRefs"] = []any{map[string]any{"apiVersion": "networking.istio.io/v1", "kind": "VirtualService", "name": "demo"}}
	}
	return routing
}
