package gateway

import (
	"strings"
	"testing"

	"sluice.dev/sluice/pkg/rollout"
	"sluice.dev/sluice/test/world"
)

// A rule may have its plugins in an ApisixPluginConfig. The executor reads it and follows its edits before and during a release.
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
		if r := s.await(world.HeldFor(rollout.HoldRouteRefused)); !strings.Contains(r.Status.Message, says) {
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
