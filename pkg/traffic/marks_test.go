package traffic

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/script"
)

func TestASubsetThatTheOwnerAddsStaysAndOursGoes(t *testing.T) {
	add := func(o *unstructured.Unstructured) {
		spec := o.Object["spec"].(map[string]any)
		spec["subsets"] = append(spec["subsets"].([]any), map[string]any{"name": "v3", "labels": map[string]any{"version": "3"}})
	}
	g := &gateway{t: t, run: builtin(t, "DestinationRule"), live: object(t, sharedDestinationRule)}
	want := g.live.DeepCopy()
	add(want)
	g.step(shared, weight(20))
	g.edit(add)
	g.step(shared, weight(40))
	g.restore(shared)
	if diff := cmp.Diff(want.Object, g.live.Object); diff != "" {
		t.Errorf("restored (-want +got)\n%s", diff)
	}
}

// tagScript routes to a subset with a name of its own, so that only its additions identify the rendering.
const tagScript = `
local spec = obj.data.spec
spec.http[1].route = {
	{destination = {host = obj.stableService}, weight = obj.stableWeight},
	{destination = {host = obj.stableService, subset = "gray"}, weight = obj.canaryWeight}}
return {spec = spec}`

func TestABackendThatOnlyTheScriptKnowsIsNeverTheOwners(t *testing.T) {
	g := demoGateway(t)
	g.run = compiled(t, "tag", tagScript)
	rel := Release{UID: "u", Name: "r", Service: "service-demo", CanaryService: "service-demo"}
	want := g.live.DeepCopy()
	ownRule(want)["timeout"] = "7s"
	g.step(rel, weight(20))
	g.edit(func(o *unstructured.Unstructured) {
		ownRule(o)["timeout"] = "7s"
		ownRule(o)["route"].([]any)[0].(map[string]any)["weight"] = int64(70)
	})
	g.step(rel, weight(30))
	g.restore(rel)
	if strings.Contains(jsonOf(g.live.Object["spec"]), "gray") {
		t.Errorf("the restored object still routes to the canary: %s", jsonOf(g.live.Object["spec"]))
	}
}

// A server may add defaults to a field that only the script wrote. After a change of a label they must not count as the owner's.
func TestDefaultsOfFieldsThatAScriptAddsAreNotTheOwners(t *testing.T) {
	withDefault := func(obj *unstructured.Unstructured) *unstructured.Unstructured {
		next := obj.DeepCopy()
		if policy, ok := next.Object["spec"].(map[string]any)["policy"].(map[string]any); ok {
			policy["mode"] = "auto"
		}
		return next
	}
	g := demoGateway(t)
	g.run = compiled(t, "policy", `obj.data.spec.policy = {canary = 20} return obj.data`)
	want := g.live.DeepCopy()
	setLabel(want, "team", "shop")
	_, plan := g.observe(demo, weight(20))
	desired, _, err := plan.DesiredObject(1)
	if err != nil {
		t.Fatal(err)
	}
	g.live = withDefault(StampRendered(desired, ContentDigest(withDefault(desired))))
	g.edit(func(o *unstructured.Unstructured) { setLabel(o, "team", "shop") })
	g.restore(demo)
	if diff := cmp.Diff(want.Object, g.live.Object); diff != "" {
		t.Errorf("restored (-want +got)\n%s", diff)
	}
}

func TestAStepIsAppliedOnlyWhileTheObjectIsAsItWasWritten(t *testing.T) {
	cases := map[string]struct {
		change func(*gateway)
		asked  Strategy
		want   bool
	}{
		"nothing changed":       {func(*gateway) {}, weight(20), true},
		"the status changed":    {func(g *gateway) { g.live.Object["status"] = map[string]any{"a": "b"} }, weight(20), true},
		"another share":         {func(*gateway) {}, weight(30), false},
		"the owner reverted it": {func(g *gateway) { g.apply(object(t, demoManifest)) }, weight(20), false},
		"the script changed": {func(g *gateway) {
			built := g.run
			g.run = func(in script.Input) (script.Output, error) {
				in.CanaryWeight = 10
				return built(in)
			}
		}, weight(20), false},
		"another release came": {func(g *gateway) {
			g.edit(func(o *unstructured.Unstructured) {
				other := entries{"u-other": Release{UID: "u-other", Name: "z", Service: "service-demo", CanaryService: "z-canary"}.entryAt(1, weight(50))}
				own := parseEntries(o.GetAnnotations()[api.AnnotationReleases])
				setAnnotation(o, api.AnnotationReleases, jsonOf(own.withEntry(other["u-other"])))
			})
		}, weight(20), false},
	}
	for what, c := range cases {
		t.Run(what, func(t *testing.T) {
			g := demoGateway(t)
			g.step(demo, weight(20))
			c.change(g)
			route, _ := g.observe(demo, c.asked)
			if got := route.Steps[1]; got.Applied != c.want || got.Accepted != c.want || got.Refused != "" {
				t.Errorf("rendering = %+v, want applied %v", got, c.want)
			}
		})
	}
	t.Run("another share that renders the same", func(t *testing.T) {
		g := &gateway{t: t, run: builtin(t, "DestinationRule"), live: object(t, sharedDestinationRule)}
		g.step(shared, weight(20))
		if route, _ := g.observe(shared, weight(30)); route.Steps[1].Applied {
			t.Errorf("the object does not carry the strategy of the step, and others would render the old one")
		}
	})
}

func TestTheGatewaysVerdictIsWaitedFor(t *testing.T) {
	cases := map[string]struct {
		status string
		want   bool
	}{
		"no status":                      {`{}`, true},
		"conditions of another kind":     {`{conditions: [{type: Reconciled, status: "False"}]}`, true},
		"accepted":                       {`{conditions: [{type: Accepted, status: "True", observedGeneration: 3}]}`, true},
		"accepted before the change":     {`{conditions: [{type: Accepted, status: "True", observedGeneration: 2}]}`, false},
		"refused":                        {`{conditions: [{type: Accepted, status: "False", observedGeneration: 3}]}`, false},
		"taken by APISIX before":         {`{conditions: [{type: ResourcesAvailable, status: "True", observedGeneration: 2}]}`, true},
		"refused by APISIX":              {`{conditions: [{type: ResourcesAvailable, status: "False", observedGeneration: 3}]}`, false},
		"a parent that does not resolve": {`{parents: [{conditions: [{type: Accepted, status: "True"}]}, {conditions: [{type: ResolvedRefs, status: "False"}]}]}`, false},
	}
	for what, c := range cases {
		t.Run(what, func(t *testing.T) {
			g := demoGateway(t)
			g.step(demo, weight(20))
			g.live.SetGeneration(3)
			g.live.Object["status"] = object(t, c.status).Object
			if route, _ := g.observe(demo, weight(20)); route.Steps[1].Accepted != c.want {
				t.Errorf("accepted = %v", route.Steps[1].Accepted)
			}
		})
	}
}

func TestRecordsThatNoReleaseClaimsAreRestored(t *testing.T) {
	for what, rel := range map[string]Release{
		"of this release":           {UID: "u", Name: "r", Service: "service-demo", CanaryService: "service-demo-canary"},
		"of a shared Service":       {UID: "u", Name: "r", Service: "service-demo", CanaryService: "service-demo"},
		"of a Service that is gone": {UID: "u", Name: "r", Service: "service-demo", CanaryService: "service-demo-other"},
	} {
		t.Run(what, func(t *testing.T) {
			g := demoGateway(t)
			before := g.live.DeepCopy()
			made := rel
			if what == "of a Service that is gone" {
				made = demo
			}
			g.step(made, weight(20))
			g.edit(func(o *unstructured.Unstructured) { setAnnotation(o, api.AnnotationReleases, "{}") })
			if route, _ := g.observe(rel, weight(20)); !route.Shaped {
				t.Errorf("nobody would restore it")
			}
			g.restore(rel)
			if diff := cmp.Diff(before.Object, g.live.Object); diff != "" {
				t.Errorf("restored (-want +got)\n%s", diff)
			}
		})
	}
}

func TestAnObjectThatDoesNotExistIsMissing(t *testing.T) {
	route, plan := ObserveRoute(demoGateway(t).ref, nil, demo, map[int32]Strategy{1: weight(20)}, nil)
	if !route.Missing || route.Shaped || plan != nil {
		t.Errorf("route = %+v", route)
	}
}

func TestLabelsAndAnnotationsAreMergedKeyByKey(t *testing.T) {
	m := marks{services: []serviceRef{{"web-canary", "shop"}}}
	cases := map[string]struct{ live, base, original, want map[string]string }{
		"theirs, added":                   {map[string]string{"a": "1"}, nil, nil, map[string]string{"a": "1"}},
		"theirs, changed":                 {map[string]string{"a": "2"}, map[string]string{"a": "1"}, map[string]string{"a": "1"}, map[string]string{"a": "2"}},
		"theirs, removed":                 {nil, map[string]string{"a": "1"}, map[string]string{"a": "1"}, map[string]string{}},
		"ours, added":                     {map[string]string{"a": "1"}, map[string]string{"a": "1"}, nil, map[string]string{}},
		"ours, changed":                   {map[string]string{"a": "2"}, map[string]string{"a": "2"}, map[string]string{"a": "1"}, map[string]string{"a": "1"}},
		"ours, by an earlier script":      {map[string]string{"a": "web-canary"}, nil, nil, map[string]string{}},
		"ours, by host, of a past script": {map[string]string{"a": "web-canary.shop.svc"}, nil, map[string]string{"a": "web"}, map[string]string{"a": "web"}},
	}
	for what, c := range cases {
		if diff := cmp.Diff(c.want, m.mergeStrings(c.live, c.base, c.original)); diff != "" {
			t.Errorf("%s (-want +got)\n%s", what, diff)
		}
	}
}
