package gateway

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
	"sluice.dev/sluice/test/world"
)

// Releases of two namespaces shape one object that belongs to none, as soon as its owner lets them.
func TestReleasesOfTwoNamespacesShareAnObjectOfTheMesh(t *testing.T) {
	t.Parallel()
	w := world.Shared(t)
	ns := w.Namespace(t)
	t.Run("the other", func(t *testing.T) {
		other := w.Namespace(t)
		t.Cleanup(func() {
			if _, err := w.Kubectl(context.WithoutCancel(t.Context()), "delete", "trafficroute", ns); err != nil {
				t.Error(err)
			}
		})
		w.Apply(t, ns, strings.NewReplacer("NAME", ns, "ONE", ns, "OTHER", other).Replace(`
apiVersion: kuma.io/v1alpha1
kind: TrafficRoute
mesh: default
metadata: {name: NAME, annotations: {note: of its owner}}
spec:
  sources: [{match: {kuma.io/service: "*"}}]
  destinations: [{match: {kuma.io/service: "*"}}]
  conf:
    http: [{match: {path: {prefix: /one}}, destination: {kuma.io/service: web_ONE_svc_80}}]
    destination: {kuma.io/service: web_OTHER_svc_80}`))
		before := meshSpec(t, w, ns)
		shops := map[string]*shop{}
		for _, in := range []string{ns, other} {
			const route = "customNetworkRefs: [{apiVersion: kuma.io/v1alpha1, kind: TrafficRoute, name: "
			w.Apply(t, in, strings.NewReplacer(gatewayAPI+"---\n", "", "STEPS", byWeight, "ROUTE", route+ns+"}]").Replace(app))
			shops[in] = &shop{T: t, w: w, ns: in, kind: "trafficroute"}
			shops[in].adopted()
		}
		one, two := shops[ns], shops[other]

		one.release("web:2")
		w.AwaitObject(t, ns, "deployment", "web", "to be held", func(u *unstructured.Unstructured) bool {
			return u.GetAnnotations()[api.AnnotationInProgressing] != ""
		})
		r := one.await(world.HeldFor(rollout.HoldRouteRefused))
		if want := "have the owner add the annotation sluice.dev/allow-namespaces: " + ns + " to it"; !strings.Contains(r.Status.Message, want) {
			t.Errorf("it says %s", r.Status.Message)
		}
		if diff := cmp.Diff(before, meshSpec(t, w, ns)); diff != "" || w.Get(t, ns, "deployment", "web-canary") != nil {
			t.Errorf("a release that nobody allowed has begun (-before +after):\n%s", diff)
		}
		w.Do(t, "annotate", "trafficroute", ns, "sluice.dev/allow-namespaces="+ns+", "+other)
		one.await(world.PausedAt(1))
		two.release("web:2")
		two.await(world.PausedAt(1))
		split := func(of, canary, stable string) string {
			return `"split":[{"destination":{"kuma.io/service":"web_` + of + `_svc_80"},"weight":` + stable + `},{"destination":{"kuma.io/service":"web-canary_` + of + `_svc_80"},"weight":` + canary + `}]`
		}
		wantMesh := func(parts ...string) {
			t.Helper()
			text := meshSpec(t, w, ns)
			for _, part := range parts {
				if !strings.Contains(text, part) {
					t.Errorf("%s is not in %s", part, text)
				}
			}
		}
		wantMesh(split(ns, "20", "80"), split(other, "20", "80"))

		w.Do(t, "label", "trafficroute", ns, "edited=meanwhile")
		w.Do(t, "annotate", "trafficroute", ns, "sluice.dev/allow-namespaces-") // what is on it goes on, and back
		w.Approve(t, ns, "web")
		one.await(world.PausedAt(2))
		wantMesh(split(ns, "60", "40"), split(other, "20", "80"))
		one.release("web:1")
		one.await(world.Healthy)
		wantMesh(split(other, "20", "80"), `"kuma.io/service":"web_`+ns+`_svc_80"`)
		w.Approve(t, other, "web")
		two.await(world.PausedAt(2))
		w.Approve(t, other, "web")
		two.await(world.Healthy)
		if diff := cmp.Diff(before, meshSpec(t, w, ns)); diff != "" {
			t.Errorf("given back (-before +after):\n%s", diff)
		}
		got := w.Get(t, "", "trafficroute", ns)
		annotations := got.GetAnnotations()
		delete(annotations, corev1.LastAppliedConfigAnnotation)
		if diff := cmp.Diff(map[string]string{"note": "of its owner"}, annotations); diff != "" || got.GetLabels()["edited"] != "meanwhile" {
			t.Errorf("labels %v, annotations (-want +got):\n%s", got.GetLabels(), diff)
		}
	})
}

func meshSpec(t *testing.T, w *world.World, name string) string {
	t.Helper()
	text, err := json.Marshal(w.Get(t, "", "trafficroute", name).Object["spec"])
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
