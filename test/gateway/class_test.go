package gateway

import (
	"fmt"
	"strings"
	"testing"

	"sluice.dev/sluice/pkg/rollout"
	"sluice.dev/sluice/test/world"
)

// The script of an ApisixRoute writes for APISIX. While another controller serves the class that the route names, the
// executor creates no object of the release.
func TestAnApisixRouteOfAnotherControllerIsRefused(t *testing.T) {
	t.Parallel()
	const class = "of-no-apisix"
	const manifests = `---
apiVersion: apisix.apache.org/v2
kind: ApisixRoute
metadata: {name: web}
spec: {ingressClassName: ` + class + `, http: [{name: a, match: {paths: [/*]}, backends: [{serviceName: web, servicePort: 80}]}]}
`
	s := aShopOf(t, "ApisixRoute", strings.NewReplacer(gatewayAPI, manifests, "STEPS", byWeight,
		"ROUTE", "customNetworkRefs: [{apiVersion: apisix.apache.org/v2, kind: ApisixRoute, name: web}]").Replace(app))
	of := func(controller string) {
		t.Helper()
		s.w.Apply(t, s.ns, fmt.Sprintf(`{apiVersion: networking.k8s.io/v1, kind: IngressClass, metadata: {name: %s}, spec: {controller: %s}}`, class, controller))
	}
	of("k8s.io/ingress-nginx")
	s.release("web:2")
	r := s.await(world.HeldFor(rollout.ReasonRouteUnsupported))
	const says = "ApisixRoute web cannot carry out step 1: its class is " + class + ", of ingress-nginx, and not of APISIX, for which the script writes"
	if !strings.Contains(r.Status.Message, says) {
		t.Errorf("it says %s", r.Status.Message)
	}
	if s.route().GetResourceVersion() != s.before.GetResourceVersion() || s.w.Get(t, s.ns, "deployment", "web-canary") != nil {
		t.Error("something was changed")
	}
	s.w.Do(t, "delete", "ingressclass", class)
	of("apisix.apache.org/apisix-ingress-controller")
	s.await(world.PausedAt(1))
	s.wantSpec(`{"ingressClassName":"` + class + `","http":[{"name":"a","match":{"paths":["/*"]},
		"backends":[{"serviceName":"web","servicePort":80,"weight":80},{"serviceName":"web-canary","servicePort":80,"weight":20}]}]}`)
	s.w.Do(t, "delete", "ingressclass", class)
}
