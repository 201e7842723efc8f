package simulate

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"sluice.dev/sluice/pkg/api"
)

const shop = `apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
  replicas: 5
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: "web:1"}]}
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop}
spec: {selector: {app: web}, ports: [{port: 80}]}
---
apiVersion: rollouts.kruise.io/v1beta1
kind: Rollout
metadata: {name: web, namespace: shop}
spec:
  workloadRef: {apiVersion: apps/v1, kind: Deployment, name: web}
  strategy:
    canary:
      enableExtraWorkloadForCanary: true
      steps: [{traffic: 20%, replicas: 1}, {mirror: {traffic: 10%}, replicas: 1}, {traffic: 50%, replicas: 2}]
      trafficRoutings:
      - service: web
        customNetworkRefs: [REFS]
---
`

const twoWaysOfTraefik = `apiVersion: traefik.io/v1alpha1
kind: IngressRoute
metadata: {name: web, namespace: shop}
spec:
  routes:
  - {kind: Rule, match: Host("a"), services: [{name: web, port: 80}]}
  - {kind: Rule, match: Host("b"), services: [{kind: TraefikService, name: all}]}
---
apiVersion: traefik.io/v1alpha1
kind: TraefikService
metadata: {name: all, namespace: shop}
spec: {weighted: {services: [{kind: TraefikService, name: below}, {name: web, port: 80}]}}
---
apiVersion: traefik.io/v1alpha1
kind: TraefikService
metadata: {name: below, namespace: shop}
spec: {weighted: {services: [{name: OTHER, port: 80}, {kind: TraefikService, name: all}]}}
`

const twoWaysOfIstio = `apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: web, namespace: shop}
spec:
  hosts: [shop.example.com]
  http:
  - {match: [{uri: {prefix: /api}}], delegate: {name: all}}
  - {name: direct, route: [{destination: {host: web}}]}
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: all, namespace: shop}
spec: {http: [{route: [{destination: {host: web}}]}]}
`

// A plan from manifests knows the objects that gateway objects name, and the gateway objects that the release itself routes, in every step.
func TestAPlanFollowsWhatGatewayObjectsName(t *testing.T) {
	t.Parallel()
	const (
		route, service = "{apiVersion: traefik.io/v1alpha1, kind: IngressRoute, name: web}", "{apiVersion: traefik.io/v1alpha1, kind: TraefikService, name: all}"
		root, delegate = "{apiVersion: networking.istio.io/v1, kind: VirtualService, name: web}", "{apiVersion: networking.istio.io/v1, kind: VirtualService, name: all}"
	)
	below := strings.NewReplacer("OTHER", "web")
	for name, c := range map[string]struct{ refs, manifests, refused string }{
		"an IngressRoute beside a TraefikService":                           {route, twoWaysOfTraefik, "name TraefikService all in customNetworkRefs"},
		"both of Traefik":                                                   {route + ", " + service, twoWaysOfTraefik, ""},
		"both of Traefik, and one below that leads to the Service":          {route + ", " + service, below.Replace(twoWaysOfTraefik), "the TraefikService leads to Service web itself, and by TraefikService below"},
		"an IngressRoute beside a TraefikService that leads by another one": {route, below.Replace(strings.Replace(twoWaysOfTraefik, ", {name: web, port: 80}]", "]", 1)), "name TraefikService below in customNetworkRefs"},
		"a VirtualService beside a delegate":                                {root, twoWaysOfIstio, "name VirtualService all in customNetworkRefs"},
		"a VirtualService and its delegate":                                 {root + ", " + delegate, twoWaysOfIstio, ""},
		"a VirtualService and its delegate, the other way round":            {delegate + ", " + root, twoWaysOfIstio, ""},
		"a delegate on its own, whose root is the owner's business":         {delegate, twoWaysOfIstio, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all, err := objectsIn([]byte(strings.Replace(shop, "REFS", c.refs, 1) + c.manifests))
			if err != nil {
				t.Fatal(err)
			}
			r := played(t, of(t, all))
			switch {
			case c.refused == "" && len(r.Refusals) > 0:
				t.Errorf("refused: %v", r.Refusals)
			case c.refused != "" && (len(r.Refusals) == 0 || !strings.Contains(r.Refusals[0].Message, c.refused)):
				t.Errorf("refused: %v, want %q", r.Refusals, c.refused)
			}
		})
	}
}

const road = `apiVersion: v1
kind: ConfigMap
metadata: {name: kruise-rollout-configuration, namespace: kruise-rollout}
data:
  capabilities.traffic.routing.Road.roads.example.com: |
    weights: true
    mirror: true
    creates: [{apiVersion: roads.example.com/v1, kind: Sign}]
    reads: [{kind: Sign, field: sign}]
  lua.traffic.routing.Road.roads.example.com: |
    if #obj.reads ~= 1 or obj.reads[1].metadata.name ~= "own" then
        error("it reads " .. json.encode(obj.reads), 0)
    end
    local spec = obj.data.spec
    spec.backends = { { name = "web", weight = obj.stableWeight }, { name = "web-canary", weight = obj.canaryWeight } }
    if obj.canaryWeight < 0 then
        spec.backends = { { name = "web", weight = 100 } }
    end
    spec.put = { sign = "web-canary.sign" }
    obj.data.create = { { apiVersion = "roads.example.com/v1", kind = "Sign", metadata = { name = "web-canary.sign" }, spec = {} } }
    return obj.data
---
apiVersion: roads.example.com/v1
kind: Road
metadata: {name: web, namespace: shop}
spec: {backends: [{name: web}], sign: own}
---
apiVersion: roads.example.com/v1
kind: Sign
metadata: {name: own, namespace: shop}
spec: {}
`

// While a step is under way, an object names the objects that the executor created for its route.
func TestAScriptDoesNotReadWhatWasMadeForIt(t *testing.T) {
	t.Parallel()
	all, err := objectsIn([]byte(strings.Replace(shop, "REFS", "{apiVersion: roads.example.com/v1, kind: Road, name: web}", 1) + road))
	if err != nil {
		t.Fatal(err)
	}
	o := of(t, all)
	o.ScriptConfigMap = types.NamespacedName{Namespace: api.ScriptNamespace, Name: api.ScriptConfigMap}
	if r := played(t, o); len(r.Refusals) > 0 {
		t.Errorf("refused: %v", r.Refusals)
	}
}
