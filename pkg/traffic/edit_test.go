package traffic

import (
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"sluice.dev/sluice/pkg/api"
)

// ownRule returns the owner's rule of the live object: the one without a match.
func ownRule(obj *unstructured.Unstructured) map[string]any {
	rules := obj.Object["spec"].(map[string]any)["http"].([]any)
	return rules[len(rules)-1].(map[string]any)
}

// TestWhatTheOwnerChangesDuringAReleaseIsKept makes one change in the middle of a release, and the same change to an object that was never released. A
// further step and the restore must lead to the same object.
func TestWhatTheOwnerChangesDuringAReleaseIsKept(t *testing.T) {
	changed := strings.Replace(demoManifest, "  - route:", "  - timeout: 5s\n    route:", 1)
	changed = strings.Replace(changed, `hosts: ["*"]`, "hosts: [shop.example.com]", 1)
	cases := map[string]func(*gateway){
		"nothing at all":                  func(*gateway) {},
		"kubectl apply of the same":       func(g *gateway) { g.apply(object(t, demoManifest)) },
		"kubectl apply of a new manifest": func(g *gateway) { g.apply(object(t, changed)) },
		"kubectl apply twice": func(g *gateway) {
			g.apply(object(t, changed))
			g.apply(object(t, demoManifest))
		},
		"kubectl replace with the same":       func(g *gateway) { g.replace(object(t, demoManifest)) },
		"kubectl replace with a new manifest": func(g *gateway) { g.replace(object(t, changed)) },
		"a new label":                         func(g *gateway) { g.edit(func(o *unstructured.Unstructured) { setLabel(o, "team", "shop") }) },
		"a new annotation":                    func(g *gateway) { g.edit(func(o *unstructured.Unstructured) { setAnnotation(o, "note", "hello") }) },
		"kubectl edit of another field": func(g *gateway) {
			g.edit(func(o *unstructured.Unstructured) {
				o.Object["spec"].(map[string]any)["hosts"] = []any{"a.example.com", "b.example.com"}
			})
		},
		"kubectl edit of a new field": func(g *gateway) {
			g.edit(func(o *unstructured.Unstructured) { o.Object["spec"].(map[string]any)["exportTo"] = []any{} })
		},
		"kubectl edit that removes a field": func(g *gateway) {
			g.edit(func(o *unstructured.Unstructured) { delete(o.Object["spec"].(map[string]any), "gateways") })
		},
		"kubectl edit within the rule that we split": func(g *gateway) {
			g.edit(func(o *unstructured.Unstructured) { ownRule(o)["timeout"] = "7s" })
		},
		"kubectl edit that adds a rule": func(g *gateway) {
			g.edit(func(o *unstructured.Unstructured) {
				spec := o.Object["spec"].(map[string]any)
				other := specOf(t, "  http: [{match: [{uri: {prefix: /x}}], route: [{destination: {host: other}}]}]").(map[string]any)
				spec["http"] = append(other["http"].([]any), spec["http"].([]any)...)
			})
		},
	}
	both := weight(30)
	both.Matches = header("version", "canary").Matches
	strategies := map[string]Strategy{"weight": weight(20), "header": header("version", "canary"), "weight and header": both}
	for what, change := range cases {
		for at, strategy := range strategies {
			t.Run(what+" at a step by "+at, func(t *testing.T) {
				g, untouched := demoGateway(t), demoGateway(t)
				g.step(demo, strategy)
				change(g)
				change(untouched)
				g.step(demo, weight(60))
				if !strings.Contains(jsonOf(g.live.Object["spec"]), "service-demo-canary") {
					t.Errorf("the step after the change does not reach the canary: %s", jsonOf(g.live.Object["spec"]))
				}
				g.restore(demo)
				if diff := cmp.Diff(untouched.live.Object, g.live.Object); diff != "" {
					t.Errorf("restored (-want +got)\n%s", diff)
				}
			})
		}
	}
}

func TestARestoreRightAfterAChangeKeepsIt(t *testing.T) {
	g, untouched := demoGateway(t), demoGateway(t)
	g.step(demo, weight(20))
	changed := object(t, strings.Replace(demoManifest, `hosts: ["*"]`, "hosts: [shop.example.com]", 1))
	g.apply(changed)
	untouched.apply(changed)
	g.restore(demo)
	if diff := cmp.Diff(untouched.live.Object, g.live.Object); diff != "" {
		t.Errorf("restored (-want +got)\n%s", diff)
	}
}

// A manifest saved from the live object in the middle of a release contains the canary of the release.
func TestAVersionThatNamesOurCanaryNeverBecomesTheOriginal(t *testing.T) {
	for how, reapply := range map[string]func(*gateway, *unstructured.Unstructured){
		"applied": (*gateway).apply, "replaced": (*gateway).replace,
	} {
		t.Run(how, func(t *testing.T) {
			g := demoGateway(t)
			before := g.live.DeepCopy()
			g.step(demo, weight(20))
			saved := g.live.DeepCopy()
			g.step(demo, weight(50))
			reapply(g, saved)
			g.step(demo, weight(80))
			g.restore(demo)
			if diff := cmp.Diff(before.Object["spec"], g.live.Object["spec"]); diff != "" {
				t.Errorf("restored (-want +got)\n%s", diff)
			}
		})
	}
}

func TestAnObjectThatLostItsOriginalIsNeitherReleasedNorLetGo(t *testing.T) {
	lose := func(keys ...string) func(*gateway) {
		return func(g *gateway) {
			g.edit(func(o *unstructured.Unstructured) {
				annotations := o.GetAnnotations()
				for _, k := range keys {
					delete(annotations, k)
				}
				o.SetAnnotations(annotations)
			})
		}
	}
	for what, damage := range map[string]func(*gateway){
		"the original annotation is removed": lose(api.AnnotationOriginalSpec),
		"all our annotations are removed":    lose(api.AnnotationOriginalSpec, api.AnnotationReleases, api.AnnotationRendered),
	} {
		t.Run(what, func(t *testing.T) {
			for _, rel := range []Release{demo, {UID: "u", Name: "r", Service: "service-demo", CanaryService: "service-demo"}} {
				g := demoGateway(t)
				g.step(rel, weight(20))
				damage(g)
				route, plan := g.observe(rel, weight(20))
				if !route.Shaped || !strings.Contains(route.Steps[1].Refused, "apply your own version of it") {
					t.Errorf("route = %+v", route)
				}
				if _, err := plan.RestoredObject(); err == nil {
					t.Errorf("it was restored to an unknown version")
				}
				g.apply(object(t, demoManifest))
				g.step(rel, weight(20))
				g.restore(rel)
			}
		})
	}
}

func TestAReleaseStartedByOpenKruiseIsTakenOver(t *testing.T) {
	g := demoGateway(t)
	before := g.live.DeepCopy()
	g.step(demo, weight(20))
	g.edit(func(o *unstructured.Unstructured) {
		annotations := o.GetAnnotations()
		delete(annotations, api.AnnotationReleases)
		delete(annotations, api.AnnotationRendered)
		o.SetAnnotations(annotations)
	})
	g.step(demo, weight(40))
	g.restore(demo)
	if diff := cmp.Diff(before.Object, g.live.Object); diff != "" {
		t.Errorf("restored (-want +got)\n%s", diff)
	}
}

func TestAChangeByOthersIsReportedWithItsManager(t *testing.T) {
	g := demoGateway(t)
	g.step(demo, weight(20))
	at := metav1.Now()
	later := metav1.NewTime(at.Add(1))
	g.edit(func(o *unstructured.Unstructured) {
		setLabel(o, "team", "shop")
		o.SetManagedFields([]metav1.ManagedFieldsEntry{
			{Manager: "kubectl", Operation: metav1.ManagedFieldsOperationUpdate, Time: &at},
			{Manager: "argocd-controller", Operation: metav1.ManagedFieldsOperationApply, Time: &later},
			{Manager: "istiod", Subresource: "status", Operation: metav1.ManagedFieldsOperationUpdate, Time: &later},
			{Manager: api.FieldManager, Operation: metav1.ManagedFieldsOperationUpdate, Time: &later},
		})
	})
	route, _ := g.observe(demo, weight(20))
	if route.Foreign != ContentDigest(g.live) || route.ForeignBy != "argocd-controller" || route.Steps[1].Applied {
		t.Errorf("route = %+v", route)
	}
	status := g.live.DeepCopy()
	status.Object["status"] = map[string]any{"note": "not ours to judge"}
	if ContentDigest(status) != ContentDigest(g.live) {
		t.Errorf("a change of the status counts as a change of the content")
	}
}

func TestScriptsMayLeaveOutLabelsAndAnnotations(t *testing.T) {
	for what, tail := range map[string]string{
		"left out": "return {spec = spec}", "shaped": `
			local labels = obj.data.labels or {}
			labels["shaped"] = "yes"
			return {spec = spec, labels = labels, annotations = {}}`,
	} {
		t.Run(what, func(t *testing.T) {
			g := demoGateway(t)
			setLabel(g.live, "team", "shop")
			before := g.live.DeepCopy()
			g.run = compiled(t, "test", `local spec = obj.data.spec
				spec.http[1].route = {
					{destination = {host = obj.stableService}, weight = obj.stableWeight},
					{destination = {host = obj.canaryService}, weight = obj.canaryWeight}}
				`+tail)
			g.step(demo, weight(20))
			want := map[string]string{"team": "shop"}
			if what == "shaped" {
				want["shaped"] = "yes"
			}
			if diff := cmp.Diff(want, g.live.GetLabels()); diff != "" {
				t.Errorf("labels (-want +got)\n%s", diff)
			}
			applied := maps.Clone(before.GetAnnotations())
			if diff := cmp.Diff(orNil(applied), ContentOf(g.live).Annotations); diff != "" {
				t.Errorf("annotations (-want +got)\n%s", diff)
			}
			g.edit(func(o *unstructured.Unstructured) { setLabel(o, "tier", "gold") })
			setLabel(before, "tier", "gold")
			g.restore(demo)
			if diff := cmp.Diff(before.Object, g.live.Object); diff != "" {
				t.Errorf("restored (-want +got)\n%s", diff)
			}
		})
	}
}
