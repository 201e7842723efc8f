package workload

import (
	"encoding/json"
	"testing"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"sluice.dev/sluice/pkg/rollout"
)

func scaler(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &u.Object); err != nil {
		t.Fatal(err)
	}
	return u
}

const (
	theirHPA = `{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, metadata: {name: web, uid: u, resourceVersion: "7"},
  spec: {scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}, minReplicas: 2, maxReplicas: 9}}`
	parkedHPA = `{apiVersion: autoscaling/v1, kind: HorizontalPodAutoscaler, metadata: {name: web, uid: u, resourceVersion: "7"},
  spec: {scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web-DisableByRollout}, maxReplicas: 9}}`
	kedaHPA = `{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, metadata: {name: keda-hpa-web,
  ownerReferences: [{apiVersion: keda.sh/v1alpha1, kind: ScaledObject, name: web, uid: k, controller: true}]},
  spec: {scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}}}`
	theirKEDA  = `{apiVersion: keda.sh/v1alpha1, kind: ScaledObject, metadata: {name: web, uid: k, resourceVersion: "8"}, spec: {scaleTargetRef: {name: web}}}`
	pausedKEDA = `{apiVersion: keda.sh/v1alpha1, kind: ScaledObject, metadata: {name: web, uid: k, resourceVersion: "8",
  annotations: {autoscaling.keda.sh/paused: "true"}}, spec: {scaleTargetRef: {name: web, kind: Deployment}}}`
	oddKEDA = `{apiVersion: keda.sh/v1alpha1, kind: ScaledObject, metadata: {name: web}, spec: {scaleTargetRef: {name: web, priority: 3}}}`
)

func TestSeeScaler(t *testing.T) {
	t.Parallel()
	type seen struct {
		Parked, Ok bool
	}
	for name, c := range map[string]struct {
		text       string
		deployment string
		want       seen
	}{
		"one that scales the Deployment":             {theirHPA, "web", seen{Ok: true}},
		"one that scales another":                    {theirHPA, "api", seen{}},
		"one that a release has taken off":           {parkedHPA, "web", seen{Parked: true, Ok: true}},
		"one that KEDA writes is KEDA's":             {kedaHPA, "web", seen{}},
		"KEDA's own, which takes a kind for granted": {theirKEDA, "web", seen{Ok: true}},
		"KEDA's own for another":                     {theirKEDA, "api", seen{}},
		"one that its owner has paused is not ours":  {pausedKEDA, "web", seen{Ok: true}},
		"a target that holds more than text":         {oddKEDA, "web", seen{Ok: true}},
		"one that scales something else": {
			`{kind: HorizontalPodAutoscaler, metadata: {name: web}, spec: {scaleTargetRef: {apiVersion: apps/v1, kind: StatefulSet, name: web}}}`, "web", seen{},
		},
		"one of a Deployment of another group": {
			`{kind: HorizontalPodAutoscaler, metadata: {name: web}, spec: {scaleTargetRef: {apiVersion: example.com/v1, kind: Deployment, name: web}}}`, "web", seen{},
		},
		"another kind": {`{kind: Deployment, spec: {scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}}}`, "web", seen{}},
	} {
		s, ok := ObserveAutoscaler(scaler(t, c.text), aDeployment(c.deployment))
		if diff := cmp.Diff(c.want, seen{s.Disabled && ok, ok}); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func aDeployment(name string) rollout.Ref {
	return rollout.Ref{APIVersion: "apps/v1", Kind: "Deployment", Name: name}
}

func TestAutoscalersOfACloneSetAreKnown(t *testing.T) {
	t.Parallel()
	of := rollout.Ref{APIVersion: "apps.kruise.io/v1alpha1", Kind: "CloneSet", Name: "web"}
	for name, c := range map[string]struct {
		text string
		want bool
	}{
		"one that scales it": {
			`{kind: HorizontalPodAutoscaler, metadata: {name: web}, spec: {scaleTargetRef: {apiVersion: apps.kruise.io/v1alpha1, kind: CloneSet, name: web}}}`, true,
		},
		"one that scales it in another version": {
			`{kind: HorizontalPodAutoscaler, metadata: {name: web}, spec: {scaleTargetRef: {apiVersion: apps.kruise.io/v1beta1, kind: CloneSet, name: web}}}`, true,
		},
		"one of a Deployment of its name":              {theirHPA, false},
		"KEDA's, which takes a Deployment for granted": {theirKEDA, false},
	} {
		if _, ok := ObserveAutoscaler(scaler(t, c.text), of); ok != c.want {
			t.Errorf("%s: %t", name, ok)
		}
	}
}

// Each autoscaler that a release disables is restored as it was, and is recognized while it is disabled.
func TestScalersComeBackAsTheyWere(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"an autoscaler": theirHPA, "a ScaledObject": theirKEDA, "a ScaledObject that its owner has paused": pausedKEDA,
	} {
		before := scaler(t, text)
		parked := merged(t, before, DisableAutoscaler(before))
		if s, ok := ObserveAutoscaler(parked, aDeployment("web")); !ok || !s.Disabled || s.Object != (rollout.Ref{APIVersion: before.GetAPIVersion(), Kind: before.GetKind(), Name: "web"}) {
			t.Errorf("%s is seen as %+v, %t", name, s, ok)
		}
		after := merged(t, parked, RestoreAutoscaler(parked))
		if s, ok := ObserveAutoscaler(after, aDeployment("web")); !ok || s.Disabled {
			t.Errorf("%s, given back, is seen as %+v, %t", name, s, ok)
		}
		if len(after.GetAnnotations()) == 0 {
			unstructured.RemoveNestedField(after.Object, "metadata", "annotations")
		}
		if diff := cmp.Diff(before.Object, after.Object); diff != "" {
			t.Errorf("%s has changed (-want +got):\n%s", name, diff)
		}
	}
}

// The values that an owner writes during a release are the values at its end, and no value of the release stays. annotate is the owner's annotation,
// nil to remove it.
func TestTheOwnersPauseOfAScaledObjectWins(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		before   string
		annotate any
		last     bool // the release ends before it parks it again
		want     string
	}{
		"an own pause is taken off":              {pausedKEDA, nil, false, theirKEDA},
		"an own pause is taken off at the end":   {pausedKEDA, nil, true, theirKEDA},
		"a pause is written":                     {theirKEDA, "true", false, pausedKEDA},
		"a pause is written at the end":          {theirKEDA, "true", true, pausedKEDA},
		"a pause is written beside one that was": {pausedKEDA, "true", false, pausedKEDA},
	} {
		u := scaler(t, c.before)
		u = merged(t, u, DisableAutoscaler(u))
		u = merged(t, u, autoscalerPatch(u, map[string]any{annotationKEDAPaused: c.annotate}, nil))
		if s, _ := ObserveAutoscaler(u, aDeployment("web")); s.Disabled || !s.Marked {
			t.Errorf("%s: it is seen as %+v", name, s)
		}
		if !c.last {
			u = merged(t, u, DisableAutoscaler(u))
		}
		u = merged(t, u, RestoreAutoscaler(u))
		want := scaler(t, c.want).GetAnnotations()
		if diff := cmp.Diff(want, u.GetAnnotations(), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// The owner's tool applies the manifest of a HorizontalPodAutoscaler during a release, with other bounds or with the target alone. The manifest's
// values are the values at the end, and no value of the release stays.
func TestTheOwnersManifestOfAnAutoscalerWins(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		applied map[string]any
		parked  bool // the release still has it off its workload
		want    map[string]any
	}{
		"other bounds":                {map[string]any{"minReplicas": int64(4), "maxReplicas": int64(20)}, true, map[string]any{"minReplicas": int64(4), "maxReplicas": int64(20)}},
		"the same manifest":           {map[string]any{"scaleTargetRef": map[string]any{"name": "web"}}, false, nil},
		"other bounds and the target": {map[string]any{"scaleTargetRef": map[string]any{"name": "web"}, "minReplicas": nil, "maxReplicas": int64(3)}, false, map[string]any{"minReplicas": nil, "maxReplicas": int64(3)}},
	} {
		for when, last := range map[string]bool{"during the release": false, "at its end": true} {
			u := scaler(t, theirHPA)
			u = merged(t, u, DisableAutoscaler(u))
			u = merged(t, u, autoscalerPatch(u, nil, c.applied))
			if s, ok := ObserveAutoscaler(u, aDeployment("web")); !ok || s.Disabled != c.parked {
				t.Errorf("%s %s: it is seen as %+v, %t", name, when, s, ok)
			}
			if !c.parked && !last {
				u = merged(t, u, DisableAutoscaler(u))
			}
			u = merged(t, u, RestoreAutoscaler(u))
			want := scaler(t, theirHPA)
			want = merged(t, want, autoscalerPatch(want, nil, c.want))
			if diff := cmp.Diff(want.Object, u.Object); diff != "" {
				t.Errorf("%s %s (-want +got):\n%s", name, when, diff)
			}
		}
	}
}

// merged is what the API server makes of a merge patch.
func merged(t *testing.T, u *unstructured.Unstructured, p Patch) *unstructured.Unstructured {
	t.Helper()
	body, err := json.Marshal(u.Object)
	if err != nil {
		t.Fatal(err)
	}
	patch, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	next, err := jsonpatch.MergePatch(body, patch)
	if err != nil {
		t.Fatal(err)
	}
	return scaler(t, string(next))
}
