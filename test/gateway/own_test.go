package gateway

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice.dev/sluice/test/world"
)

// A release through a gateway's own kind: by weight, then by a header, and back to the owner's spec with the owner's
// edit.
func TestAGatewaysOwnKindIsShapedAndGivenBack(t *testing.T) {
	t.Parallel()
	const beta = `matches: [{headers: [{name: user, value: beta}]}]`
	for kind, c := range map[string]struct{ version, spec, second, weighed, narrowed string }{
		"IngressRoute": {"traefik.io/v1alpha1", "{routes: [{match: Host(`a`), kind: Rule, services: [{name: web, port: 80}]}]}", beta,
			`{"routes":[{"kind":"Rule","match":"Host(` + "`a`" + `)","services":[{"name":"web","port":80,"weight":80},{"name":"web-canary","port":80,"weight":20}]}]}`,
			`{"routes":[{"kind":"Rule","match":"(Host(` + "`a`" + `)) && (Header(` + "`user`, `beta`" + `))","priority":10,"services":[{"name":"web-canary","port":80}]},` +
				`{"kind":"Rule","match":"Host(` + "`a`" + `)","services":[{"name":"web","port":80}]}]}`},
		"TraefikService": {"traefik.io/v1alpha1", "{weighted: {services: [{name: web, port: 80}]}}", "traffic: 60%",
			`{"weighted":{"services":[{"name":"web","port":80,"weight":80},{"name":"web-canary","port":80,"weight":20}]}}`,
			`{"weighted":{"services":[{"name":"web","port":80,"weight":40},{"name":"web-canary","port":80,"weight":60}]}}`},
		"ApisixRoute": {"apisix.apache.org/v2", "{http: [{name: a, match: {paths: [/*]}, backends: [{serviceName: web, servicePort: 80}]}]}", beta,
			`{"http":[{"backends":[{"serviceName":"web","servicePort":80,"weight":80},{"serviceName":"web-canary","servicePort":80,"weight":20}],"match":{"paths":["/*"]},"name":"a"}]}`,
			`{"http":[{"backends":[{"serviceName":"web-canary","servicePort":80}],"match":{"exprs":[{"op":"Equal","subject":{"name":"user","scope":"Header"},"value":"beta"}],"paths":["/*"]},"name":"a-canary","priority":1},` +
				`{"backends":[{"serviceName":"web","servicePort":80}],"match":{"paths":["/*"]},"name":"a"}]}`},
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			own := "apiVersion: " + c.version + "\nkind: " + kind + "\nmetadata: {name: web, annotations: {note: of its owner}}\nspec: " + c.spec + "\n"
			s := aShopOf(t, kind, strings.NewReplacer(gatewayAPI, own, "STEPS", "[{replicas: 50%, traffic: 20%}, {replicas: 50%, "+c.second+"}]",
				"ROUTE", "customNetworkRefs: [{apiVersion: "+c.version+", kind: "+kind+", name: web}]").Replace(app))
			s.release("web:2")
			s.await(world.PausedAt(1))
			s.wantSpec(c.weighed)
			s.w.Approve(t, s.ns, "web")
			s.await(world.PausedAt(2))
			s.wantSpec(c.narrowed)
			s.patch(s.kind, `{"metadata":{"annotations":{"note":"changed meanwhile"}}}`)
			s.w.Approve(t, s.ns, "web")
			s.await(world.Healthy)
			s.wantRestored(noteChanged)
		})
	}
}

func (s *shop) wantSpec(want string) {
	s.Helper()
	var wanted any
	if err := json.Unmarshal([]byte(want), &wanted); err != nil {
		s.Fatal(err)
	}
	text, err := json.Marshal(s.route().Object["spec"])
	if err != nil {
		s.Fatal(err)
	}
	var got any
	if err := json.Unmarshal(text, &got); err != nil {
		s.Fatal(err)
	}
	if diff := cmp.Diff(wanted, got); diff != "" {
		s.Errorf("the object (-want +got):\n%s", diff)
	}
}
