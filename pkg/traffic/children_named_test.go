package traffic

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
)

func mirror(share rollout.Percent) Strategy { return Strategy{Mirror: &share} }

const aRoute, aService = "traefik.io/v1alpha1 IngressRoute", "traefik.io/v1alpha1 TraefikService"

// changing has a step with matches that changes headers.
func changing(name, value string) Strategy {
	s := header("user", "beta")
	s.RequestHeaderModifier = &api.HTTPHeaderFilter{Set: []api.HTTPHeader{{Name: name, Value: value}}}
	return s
}

// madeNames lists the children of the gateway object.
func (g *gateway) madeNames() []string {
	var names []string
	for _, o := range g.others {
		names = append(names, o.GetKind()+" "+o.GetName())
	}
	return slices.Sorted(slices.Values(names))
}

func TestWhatARouteNamesIsMadeBeforeIt(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		kind, made string
		asked      Strategy
	}{
		"copies of an IngressRoute":    {aRoute, "TraefikService web-canary.", mirror(10)},
		"copies of a TraefikService":   {aService, "TraefikService web-canary.", mirror(10)},
		"headers of an IngressRoute":   {aRoute, "Middleware web-canary.", changing("X-Version", "new")},
		"copies beside a share":        {aRoute, "TraefikService web-canary.", Strategy{Mirror: mirror(10).Mirror, Weight: weight(20).Weight}},
		"copies where some are headed": {aRoute, "TraefikService web-canary.", Strategy{Mirror: mirror(10).Mirror, Matches: header("user", "beta").Matches}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := aLife(t, c.kind)
			l.now = time.Unix(1000, 5000)
			before := ContentOf(l.live)

			route, plan := l.observe(l.web, c.asked)
			if r := route.Steps[1]; !r.ChildrenMissing || r.Applied || r.Refused != "" || !r.Since.IsZero() || route.Shaped || route.HasChildren {
				t.Fatalf("before anything: %+v", route)
			}
			_, beside, err := plan.DesiredObject(1)
			if err != nil || len(beside.DeleteFirst)+len(beside.Apply)+len(beside.DeleteLast) > 0 {
				t.Errorf("the route would be written together with %v (%v)", beside, err)
			}

			l.prepare(l.web, c.asked) // and the process dies
			if names := l.madeNames(); len(names) != 1 || !strings.HasPrefix(names[0], c.made) {
				t.Fatalf("made is %v, want one %s", names, c.made)
			}
			route, _ = l.observe(l.web, c.asked)
			if r := route.Steps[1]; r.ChildrenMissing || r.Applied || !r.Since.Equal(l.now) || route.Shaped || !route.HasChildren || route.Weight != 0 {
				t.Errorf("once it is made: %+v", route)
			}

			l.step(l.web, c.asked)
			if !MentionsService(l.live.Object["spec"], "web-canary", "shop") {
				t.Errorf("the route does not lead to the canary: %v", l.live.Object["spec"])
			}
			l.now = l.now.Add(time.Hour)
			l.step(l.web, c.asked)
			if route, _ = l.observe(l.web, c.asked); !route.Steps[1].Since.Equal(time.Unix(1000, 5000)) {
				t.Errorf("it counts as made at %v", route.Steps[1].Since)
			}

			_, plan = l.observe(l.web)
			restored, err := plan.RestoredObject()
			if err != nil || len(plan.UnreferencedChildren()) > 0 {
				t.Fatalf("restoring takes %v at once (%v)", plan.UnreferencedChildren(), err)
			}
			l.write(restored) // and the process dies
			if route, _ = l.observe(l.web, c.asked); route.Shaped || !route.HasChildren || route.Steps[1].ChildrenMissing {
				t.Errorf("once it is restored: %+v", route)
			}
			if diff := cmp.Diff(before, ContentOf(l.live)); diff != "" {
				t.Errorf("restored (-want +got):\n%s", diff)
			}
		})
	}
}

// A step without copies keeps the objects of an earlier step: a gateway may not yet have seen that the reference is gone.
func TestWhatIsNamedNoMoreStaysUntilTheEnd(t *testing.T) {
	t.Parallel()
	l := aLife(t, aRoute)
	l.now = time.Unix(1000, 0)
	l.step(l.web, mirror(10))
	first := l.madeNames()
	l.step(l.web, weight(20))
	if diff := cmp.Diff(first, l.madeNames()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	l.step(l.web, changing("X-Version", "a"))
	l.step(l.web, changing("X-Version", "b"))
	if n := len(l.madeNames()); n != 3 {
		t.Errorf("%d objects, want one that copies, and a Middleware of each content", n)
	}
	l.now = l.now.Add(time.Hour)
	l.step(l.web, mirror(20))
	route, _ := l.observe(l.web, mirror(20))
	if r := route.Steps[1]; r.ChildrenMissing || !r.Applied || !r.Since.Equal(time.Unix(1000, 0)) {
		t.Errorf("the copies of an earlier step: %+v", route)
	}
	if share := l.others[len(l.others)-1].Object["spec"].(map[string]any)["mirroring"].(map[string]any)["mirrors"].([]any)[0].(map[string]any)["percent"]; share != int64(20) {
		t.Errorf("%v%% are copied, want 20%%", share)
	}
	l.restore(l.web)
	if diff := cmp.Diff(l.original, ContentOf(l.live)); diff != "" || len(l.others) > 0 {
		t.Errorf("restored, with %v left (-want +got):\n%s", l.madeNames(), diff)
	}
}

// An owner's change during the release stays, and the restored object has it without the references to created objects.
func TestWhatTheOwnerChangesWhileRequestsAreCopiedIsKept(t *testing.T) {
	t.Parallel()
	edits := map[string]func(l life){
		"a rule": func(l life) {
			l.edit(func(u *unstructured.Unstructured) {
				routes := u.Object["spec"].(map[string]any)["routes"].([]any)
				routes[len(routes)-1].(map[string]any)["match"] = "Host(`new`)"
			})
		},
		"a middleware": func(l life) {
			l.edit(func(u *unstructured.Unstructured) {
				routes := u.Object["spec"].(map[string]any)["routes"].([]any)
				routes[len(routes)-1].(map[string]any)["middlewares"] = []any{map[string]any{"name": "gzip"}}
			})
		},
		"another route": func(l life) {
			l.edit(func(u *unstructured.Unstructured) {
				spec := u.Object["spec"].(map[string]any)
				spec["routes"] = append(spec["routes"].([]any), specOf(t, "  {match: Host(`x`), kind: Rule, services: [{name: x, port: 80}]}"))
			})
		},
		"an entry point": func(l life) {
			l.edit(func(u *unstructured.Unstructured) { u.Object["spec"].(map[string]any)["entryPoints"] = []any{"web"} })
		},
		"all of it": func(l life) {
			next := l.live.DeepCopy()
			next.SetAnnotations(nil)
			next.Object["spec"] = specOf(t, "  routes: [{match: Host(`all`), kind: Rule, services: [{name: web, port: 81}]}]")
			l.replace(next)
		},
	}
	both := changing("X-Version", "new")
	both.Mirror, both.Weight = mirror(10).Mirror, weight(20).Weight
	for what, edit := range edits {
		for asked, s := range map[string]Strategy{"copies": mirror(10), "copies, matches, headers and a share": both} {
			t.Run(what+", with "+asked, func(t *testing.T) {
				t.Parallel()
				l, never := aLife(t, aRoute), aLife(t, aRoute)
				l.step(l.web, s)
				edit(l)
				edit(never)
				l.step(l.web, s)
				l.restore(l.web)
				if diff := cmp.Diff(ContentOf(never.live), ContentOf(l.live)); diff != "" {
					t.Errorf("(-as never released +got):\n%s", diff)
				}
				if MentionsService(l.live.Object["spec"], "web-canary", "shop") {
					t.Errorf("it still leads to the canary: %v", l.live.Object["spec"])
				}
			})
		}
	}
}

// Even without our annotations, a reference to a created object shows that the route is not its owner's.
func TestARouteThatNamesWhatWasMadeIsNeverAnOriginal(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		canary string
		gone   bool
	}{
		"which is there":                         {"web-canary", false},
		"which is gone":                          {"web-canary", true},
		"which is there, by a name that was cut": {"web" + strings.Repeat("-x", 30) + "-canary", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := aLife(t, aRoute)
			l.web.CanaryService = c.canary
			l.step(l.web, mirror(10))
			if c.gone {
				l.others = nil
			}
			l.edit(func(u *unstructured.Unstructured) { u.SetAnnotations(nil) })
			route, plan := l.observe(l.web, mirror(10))
			if _, err := plan.RestoredObject(); err == nil || !route.Shaped || !strings.Contains(route.Steps[1].Refused, "still routes to the canary") {
				t.Errorf("restored with the error %v: %+v", err, route)
			}
		})
	}
}

func TestTwoReleasesCopyRequestsOnOneRoute(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{aRoute, aService} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			l := aLife(t, kind)
			alone := aLife(t, kind)
			alone.step(alone.api, mirror(30))
			l.step(l.web, mirror(10))
			l.step(l.api, mirror(30))
			for _, rel := range []Release{l.web, l.api} {
				if route, plan := l.observe(rel, mirror(map[string]rollout.Percent{"web": 10, "api": 30}[rel.Name])); !route.Steps[1].Applied || len(plan.LiveChildren()) != 1 {
					t.Errorf("%s, which made %d: %+v", rel.Name, len(plan.LiveChildren()), route)
				}
			}
			l.restore(l.web)
			if diff := cmp.Diff(ContentOf(alone.live), ContentOf(l.live)); diff != "" {
				t.Errorf("one has left (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(alone.madeNames(), l.madeNames()); diff != "" {
				t.Errorf("what is made when one has left (-want +got):\n%s", diff)
			}
			l.restore(l.api)
			if diff := cmp.Diff(l.original, ContentOf(l.live)); diff != "" || len(l.others) > 0 {
				t.Errorf("both have left, and %v is left (-want +got):\n%s", l.madeNames(), diff)
			}
		})
	}
}

func TestNamesOfTwoObjectsOfOneNamespaceDiffer(t *testing.T) {
	t.Parallel()
	names := map[string]bool{}
	for _, kind := range []string{aRoute, aService} {
		for _, object := range []string{"edge", "gate"} {
			l := aLife(t, kind)
			l.live.SetName(object)
			l.prepare(l.web, mirror(10))
			for _, name := range l.madeNames() {
				names[name] = true
			}
		}
	}
	if len(names) != 4 {
		t.Errorf("four objects have %v", names)
	}
}

func TestANameThatSomebodyElseHasIsRefused(t *testing.T) {
	t.Parallel()
	l := aLife(t, aRoute)
	l.prepare(l.web, mirror(10))
	theirs := l.others[0].DeepCopy()
	theirs.SetOwnerReferences(nil)
	l.others = []*unstructured.Unstructured{theirs}
	if route, _ := l.observe(l.web, mirror(10)); !strings.Contains(route.Steps[1].Refused, "exists, and this release did not make it") || route.HasChildren {
		t.Errorf("%+v", route)
	}
}

func TestATrafficRoutingNamesNothingThatIsMade(t *testing.T) {
	t.Parallel()
	l := aLife(t, aRoute)
	rel := l.web
	rel.Kind = "TrafficRouting"
	if route, _ := l.observe(rel, changing("X-Version", "new")); !strings.Contains(route.Steps[1].Refused, "let a Rollout route by it") {
		t.Errorf("%+v", route)
	}
}

func TestWhatPassesRequestsOnIsChecked(t *testing.T) {
	t.Parallel()
	before := specOf(t, "  services: [{name: web, port: 80}, {name: other, port: 80}]")
	after := specOf(t, "  services: [{name: copies, kind: TraefikService}, {name: other, port: 80}]")
	e := entry{Service: "web", CanaryService: "web-canary", Strategy: mirror(10)}
	for want, mirroring := range map[string]string{
		"": "{name: web, port: 80, mirrors: [{name: web-canary, port: 80, percent: 10}]}",
		"passes requests on to other instead of the stable Service web": "{name: other, port: 80, mirrors: [{name: web-canary, percent: 10}]}",
		"copies requests to other instead of the canary Service":        "{name: web, port: 80, mirrors: [{name: other, percent: 10}]}",
		"copies more requests than the step asks for":                   "{name: web, port: 80, mirrors: [{name: web-canary, percent: 11}]}",
	} {
		made := object(t, "apiVersion: traefik.io/v1alpha1\nkind: TraefikService\nmetadata: {name: copies}\nspec: {mirroring: "+mirroring+"}").Object
		err := checkRendering(before, after, []map[string]any{made}, 0, e)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: got %v, want %q", mirroring, err, want)
		}
	}
	if err := checkRendering(before, after, nil, 0, e); err == nil || !strings.Contains(err.Error(), "drops the backend web") {
		t.Errorf("a TraefikService that is not made by us: %v", err)
	}
}

// A create request takes time, and clocks differ.
func TestWhatIsMadeCountsFromWhenItIsThere(t *testing.T) {
	t.Parallel()
	asked := time.Unix(1000, 5000)
	for name, c := range map[string]struct {
		made   time.Time
		record bool
		want   time.Time
	}{
		"made at once":                        {time.Unix(1000, 0), true, time.Unix(1001, 0)},
		"made a second later":                 {time.Unix(1001, 0), true, time.Unix(1002, 0)},
		"by a clock that is behind":           {time.Unix(900, 0), true, asked},
		"by a clock that is ahead":            {time.Unix(1100, 0), true, asked.Add(2 * time.Second)},
		"whose record was taken away by hand": {time.Unix(1000, 0), false, time.Unix(1001, 0)},
	} {
		u := markReferenced(&unstructured.Unstructured{Object: map[string]any{}})
		if c.record {
			u = StampCreation(u, asked)
		}
		u.SetCreationTimestamp(metav1.NewTime(c.made))
		if got := childCreatedAt(u); !got.Equal(c.want) {
			t.Errorf("%s: it counts from %s, want %s", name, got, c.want)
		}
	}
}
