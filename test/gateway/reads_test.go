package gateway

import (
	"strings"
	"testing"

	"sluice.dev/sluice/pkg/rollout"
	"sluice.dev/sluice/test/world"
)

// A rule may have its plugins in an ApisixPluginConfig. The executor reads it and follows its edits before and during a
// release.
func TestThePluginsOfAnApisixPluginConfigCount(t *testing.T) {
	t.Parallel()
	const manifests = `---
apiVersion: apisix.apache.org/v2
kind: ApisixRoute
metadata: {name: web}
spec: {http: [{name: a, match: {paths: [/*]}, backends: [{serviceName: web, servicePort: 80}], plugin_config_name: shared}]}
---
apiVersion: apisix.apache.org/v2
kind: ApisixPluginConfig
metadata: {name: shared}
spec: {plugins: [{name: traffic-split, enable: true, config: {rules: [{weighted_upstreams: [{upstream_id: partners, weight: 1}]}]}}]}
`
	s := aShopOf(t, "ApisixRoute", strings.NewReplacer(gatewayAPI, manifests, "STEPS", byWeight,
		"ROUTE", "customNetworkRefs: [{apiVersion: apisix.apache.org/v2, kind: ApisixRoute, name: web}]").Replace(app))
	enable := func(is string) {
		t.Helper()
		if err := s.w.Patch(t, s.ns, "apisixpluginconfig", "shared", `{"spec":{"plugins":[{"name":"traffic-split","enable":`+is+`,"config":{"rules":[]}}]}}`); err != nil {
			t.Fatal(err)
		}
	}
	const says = "rule a of the ApisixRoute shares its requests by the plugin traffic-split"
	refused := func() {
		t.Helper()
		if r := s.await(world.HeldFor(rollout.ReasonRouteUnsupported)); !strings.Contains(r.Status.Message, says) {
			t.Errorf("it says %s", r.Status.Message)
		}
	}
	s.release("web:2")
	refused()
	if s.route().GetResourceVersion() != s.before.GetResourceVersion() || s.w.Get(t, s.ns, "deployment", "web-canary") != nil {
		t.Error("something was changed")
	}
	enable("false")
	s.await(world.PausedAt(1))
	s.wantSpec(`{"http":[{"name":"a","match":{"paths":["/*"]},"plugin_config_name":"shared",
		"backends":[{"serviceName":"web","servicePort":80,"weight":80},{"serviceName":"web-canary","servicePort":80,"weight":20}]}]}`)
	enable("true")
	refused()
	s.release("web:1")
	s.await(world.Healthy)
	s.wantRestored(nil)
}

// A gateway object may lead to the Service itself and by a second object, on which the release does not route. The
// executor reads the second object, and follows its edits before and during a release.
func TestASecondWayToTheServiceIsRefused(t *testing.T) {
	t.Parallel()
	for kind, c := range map[string]struct{ second, manifests, edit, says string }{
		"IngressRoute": {"traefikservice", `---
apiVersion: traefik.io/v1alpha1
kind: IngressRoute
metadata: {name: web}
spec: {routes: [{kind: Rule, match: Path("/a"), services: [{name: web, port: 80}]}, {kind: Rule, match: Path("/b"), services: [{kind: TraefikService, name: first}]}]}
---
apiVersion: traefik.io/v1alpha1
kind: TraefikService
metadata: {name: first}
spec: {weighted: {services: [{kind: TraefikService, name: second}]}}
---
apiVersion: traefik.io/v1alpha1
kind: TraefikService
metadata: {name: second}
spec: {weighted: {services: [{name: web, port: 80}]}}
`, `{"spec":{"weighted":{"services":[{"name":"TO","port":80}]}}}`, "by TraefikService second"},
		"VirtualService": {"virtualservice", `---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: web}
spec: {hosts: [shop.example.com], gateways: [edge], http: [{match: [{uri: {prefix: /a}}], delegate: {name: second}}, {route: [{destination: {host: web}}]}]}
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: second}
spec: {http: [{route: [{destination: {host: web}}]}]}
`, `{"spec":{"http":[{"route":[{"destination":{"host":"TO"}}]}]}}`, "delegates to VirtualService second"},
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			group, _, _ := strings.Cut(c.manifests[len("---\napiVersion: "):], "\n")
			s := aShopOf(t, kind, strings.NewReplacer(gatewayAPI, c.manifests, "STEPS", byWeight,
				"ROUTE", "customNetworkRefs: [{apiVersion: "+group+", kind: "+kind+", name: web}]").Replace(app))
			lead := func(to string) {
				t.Helper()
				if err := s.w.Patch(t, s.ns, c.second, "second", strings.Replace(c.edit, "TO", to, 1)); err != nil {
					t.Fatal(err)
				}
			}
			refused := func() {
				t.Helper()
				if r := s.await(world.HeldFor(rollout.ReasonRouteUnsupported)); !strings.Contains(r.Status.Message, c.says) {
					t.Errorf("it says %s", r.Status.Message)
				}
			}
			s.release("web:2")
			refused()
			if s.route().GetResourceVersion() != s.before.GetResourceVersion() || s.w.Get(t, s.ns, "deployment", "web-canary") != nil {
				t.Error("something was changed")
			}
			lead("api")
			s.await(world.PausedAt(1))
			lead("web")
			refused()
			s.release("web:1")
			s.await(world.Healthy)
			s.wantRestored(nil)
		})
	}
}
