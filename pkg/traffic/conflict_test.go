package traffic

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	luaconfiguration "sluice.dev/sluice/lua_configuration"
	"sluice.dev/sluice/pkg/rollout"
	"sluice.dev/sluice/pkg/script"
)

// A kind that supports one release at a time says so, and the second release waits until the first has left.
func TestASecondReleaseWaitsWhereAKindTakesOne(t *testing.T) {
	t.Parallel()
	source, err := script.NewLibrary(luaconfiguration.FS, "").FindScript("gateway.networking.k8s.io", "HTTPRoute", script.ConfigMap{})
	if err != nil {
		t.Fatal(err)
	}
	can := *source.Capabilities
	can.SeveralReleases = new(false)
	source.Capabilities = &can
	for _, order := range [][]string{{"web", "api"}, {"api", "web"}} { // the order of their start; they are folded by name
		l := aLife(t, "gateway.networking.k8s.io/v1 HTTPRoute")
		l.run = LuaScript(t.Context(), source)
		of := map[string]Release{"web": l.web, "api": l.api}
		first, second := of[order[0]], of[order[1]]
		l.at(first, 20)
		route, _ := l.observe(second, weight(20))
		want := "it takes one release at a time, and the release of Rollout " + first.Name + " is on the object; wait until that has ended"
		if got := route.Steps[1].Refused; !strings.Contains(got, want) {
			t.Errorf("%s after %s: refused = %q, want ...%q", second.Name, first.Name, got, want)
		}
		l.at(first, 50)
		l.restore(first)
		l.at(second, 20)
		l.restore(second)
		if diff := cmp.Diff(l.original, ContentOf(l.live)); diff != "" {
			t.Errorf("restored (-want +got):\n%s", diff)
		}
	}
}

// The sum of weights of a kind reaches the check of the script's output.
func TestAScriptOfAKindWithASumIsHeldToIt(t *testing.T) {
	t.Parallel()
	program, err := script.Compile("Lane", `
		obj.data.spec.backends = {
			{ name = obj.stableService, weight = 4 }, { name = obj.canaryService, weight = 1 },
		}
		return obj.data`)
	if err != nil {
		t.Fatal(err)
	}
	for sum, want := range map[float64]string{0: "", 5: "", 100: "add up to 5, and the kind takes those that add up to 100"} {
		l := aLife(t, "gateway.networking.k8s.io/v1 HTTPRoute")
		l.live.Object["spec"] = specOf(t, "  {backends: [{name: web, weight: 100}]}")
		l.run = LuaScript(t.Context(), script.Source{Program: program, Capabilities: &script.Capabilities{Weights: true, WeightSum: sum}})
		route, _ := l.observe(l.web, weight(20))
		if got := route.Steps[1].Refused; want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("sum %g: refused = %q, want %q", sum, got, want)
		}
	}
}

// Two releases of one Service would each give its traffic a share of its own. The second is refused with any share, and goes on when the first has left.
func TestTwoReleasesOfOneServiceAreNotOnOneObject(t *testing.T) {
	t.Parallel()
	for kind := range ofTwo(t) {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			for _, percent := range []rollout.Percent{20, 50} { // the first release has 20
				for _, canary := range []string{"web-canary", "web-next"} {
					l := aLife(t, kind)
					second := l.web
					second.UID, second.Name, second.CanaryService = "another", "another", canary
					l.at(l.web, 20)
					route, plan := l.observe(second, weight(percent))
					if got := route.Steps[1].Refused; !strings.Contains(got, "the release of Rollout web shares the traffic of Service web by this object already") {
						t.Errorf("%s to %s: refused = %q", percent, canary, got)
					}
					if _, _, err := plan.DesiredObject(1); err == nil {
						t.Errorf("%s to %s: it would be written", percent, canary)
					}
					l.at(l.web, 50)
					l.restore(l.web)
					l.at(second, int32(percent))
					l.restore(second)
					if diff := cmp.Diff(look{"": l.original}, l.look()); diff != "" {
						t.Errorf("given back (-want +got):\n%s", diff)
					}
				}
			}
		})
	}
}

func TestWhoMayBeOnAnObjectWithAReleaseOfItsService(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*Release)
		want   string
	}{
		"the release itself":                     {func(r *Release) { r.UID, r.Name = "web", "web" }, ""},
		"a Rollout of its name, once it is gone": {func(r *Release) { r.Name = "web" }, ""},
		"a release of another Service":           {func(r *Release) { r.Service, r.CanaryService = "api", "api-canary" }, ""},
		"a release of another namespace":         {func(r *Release) { r.Namespace = "cart" }, ""},
		"a release of the Service among others": {func(r *Release) {
			r.Service, r.CanaryService, r.Further = "api", "api-canary", []Served{{Service: "web", CanaryService: "web-canary"}}
		}, "the release of Rollout web shares the traffic of Service web"},
	} {
		l := aLife(t, "kuma.io/v1alpha1 TrafficRoute") // which has no namespace
		l.live.Object["spec"] = specOf(t, `  {conf: {destination: {kuma.io/service: web_shop_svc_80},
    http: [{match: {path: {prefix: /api}}, destination: {kuma.io/service: api_shop_svc_80}}, {match: {path: {prefix: /cart}}, destination: {kuma.io/service: web_cart_svc_80}}]}}`)
		l.at(l.web, 20)
		rel := l.web
		rel.UID, rel.Name = "another", "another"
		c.change(&rel)
		route, _ := l.observe(rel, weight(20))
		if got := route.Steps[1].Refused; c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%s: refused = %q, want %q", name, got, c.want)
		}
	}
}

// A TrafficRouting routes some traffic of a Rollout by header, and the Rollout itself routes a share of the rest.
func TestATrafficRoutingMayBeOnAnObjectWithAReleaseOfItsService(t *testing.T) {
	t.Parallel()
	l := aLife(t, "networking.istio.io/v1 VirtualService")
	routing := l.web
	routing.UID, routing.Name, routing.Kind, routing.CanaryService = "routing", "lane", "TrafficRouting", "web"
	l.at(l.web, 20)
	l.step(routing, header("lane", "gray"))
	l.at(l.web, 50)
	l.restore(l.web)
	l.restore(routing)
	if diff := cmp.Diff(l.original, ContentOf(l.live)); diff != "" {
		t.Errorf("given back (-want +got):\n%s", diff)
	}
}

// The executor does not write an Ingress itself. The created objects show which releases use it.
func TestTwoReleasesOfOneServiceAreNotBesideOneIngress(t *testing.T) {
	t.Parallel()
	for _, canary := range []string{"web-canary", "web-next"} {
		e := anEdge(t, "nginx")
		e.step(web, weight(20))
		second := web
		second.UID, second.Name, second.CanaryService = "u-3", "another", canary
		route, _ := e.observe(second, weight(30))
		if got := route.Steps[1].Refused; !strings.Contains(got, "the release of Rollout web shares the traffic of Service web by this object already") {
			t.Errorf("%s: refused = %q", canary, got)
		}
		now := metav1.Now()
		e.others[0].SetDeletionTimestamp(&now)
		if route, _ := e.observe(second, weight(30)); strings.Contains(route.Steps[1].Refused, "shares the traffic") {
			t.Errorf("%s: what is on its way out keeps others off: %q", canary, route.Steps[1].Refused)
		}
		e.remove(e.others)
		e.step(second, weight(30))
	}
}
