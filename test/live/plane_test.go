//go:build linux

package live

import (
	"os"
	"slices"
	"strings"
	"testing"

	"sluice.dev/sluice/test/ports"
	"sluice.dev/sluice/test/world"
)

// plane is a gateway with the kind of its routing object.
type plane struct {
	name string
	// needs are the programs in bin that the gateway needs.
	needs []string
	// start starts it for a namespace, and returns the URL and the host of requests.
	start func(t *testing.T, w *world.World, ns string) (url, host string)
	// grpc is set if requests become calls of gRPC. tls is set if they come over TLS, which the pods terminate.
	grpc, tls bool
	// object is the kind of the owner's object, which is called web and leads to port 80 of Service web. refer is the
	// Rollout's reference to it. At the end, the object must be as it was.
	object, refer string
	// mirror is the percentage of requests that the first step copies to the new version; 0 for no such step.
	mirror int
	// audiences have one step each, before the steps with weights.
	audiences []audience
	// tag is a value of the header x-tag. With it, requests reach the new version in each step with a weight; "" for
	// none.
	tag string
	// route has that object, and the objects that a gateway needs to see it. HOST and PORT stand for the host and port
	// of requests, NAMESPACE for its namespace.
	route string
	// sticky changes the route to keep users with one pod by a cookie; nil for kinds that do not keep users with one
	// version.
	sticky *strings.Replacer
}

// missing returns a program that the plane needs and that is not built.
func (p plane) missing() string {
	for _, name := range p.needs {
		if _, err := os.Stat(binary(name)); err != nil {
			return name
		}
	}
	return ""
}

// audience is a condition of a step: requests with any of the headers in go to the new version, and no others.
type audience struct {
	matches string
	in, out []map[string]string
	// told reports that the route adds a header to these requests.
	told bool
}

// telling returns audiences whose requests get a header.
func telling(of []audience) []audience {
	all := slices.Clone(of)
	for i := range all {
		all[i].told = true
	}
	return all
}

// either matches a header or a cookie.
var either = []audience{{
	matches: `[{headers: [{name: x-user, value: beta}]}, {cookie: {name: group, value: beta}}]`,
	in:      []map[string]string{{"X-User": "beta"}, {"Cookie": "a=b; group=beta"}},
	out:     []map[string]string{nil, {"X-User": "alpha"}, {"Cookie": "group=beta2"}},
}}

// annotated is a condition that annotations of ingress-nginx can express: one for each step, and only the name of a
// cookie.
var annotated = []audience{
	{
		matches: `[{headers: [{name: x-user, value: beta}]}]`,
		in:      []map[string]string{{"X-User": "beta"}}, out: []map[string]string{nil, {"X-User": "alpha"}},
	},
	{
		matches: `[{headers: [{name: canary-by-cookie, value: beta}]}]`,
		in:      []map[string]string{{"Cookie": "beta=always"}}, out: []map[string]string{nil, {"X-User": "beta"}, {"Cookie": "beta=never"}},
	},
}

// outside returns the host of requests from outside of a cluster, which no other test uses.
func outside(ns string) string { return ns + ".example.com" }

// ingress is an Ingress of ingress-nginx. Other controllers carry out its annotations as well.
const ingress = `
apiVersion: networking.k8s.io/v1
kind: IngressClass
metadata: {name: NAMESPACE}
spec: {controller: k8s.io/ingress-nginx}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: web, labels: {team: shop}, annotations: {note: "of its owner"}}
spec:
  ingressClassName: NAMESPACE
  rules: [{host: HOST, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: web, port: {number: 80}}}}]}}]
`

// ofTheGatewayAPI is a route with the Gateway that it is attached to.
const ofTheGatewayAPI = `
apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: {name: NAMESPACE}
spec: {controllerName: traefik.io/gateway-controller}
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: edge}
spec: {gatewayClassName: NAMESPACE, listeners: [{name: web, port: PORT, LISTENER}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: KIND
metadata: {name: web, labels: {team: shop}, annotations: {note: "of its owner"}}
spec:
  parentRefs: [{name: edge}]
  HOSTNAMES
  rules: [{backendRefs: [{name: web, port: 80}]}]
`

var planes = []plane{
	{
		name: "Traefik by HTTPRoute", needs: []string{"sluice-traefik"}, start: traefik("gateway"),
		object: "httproute", refer: "gateway: {httpRouteName: web}", audiences: telling(either),
		route: strings.NewReplacer("LISTENER", "protocol: HTTP", "KIND", "HTTPRoute", "HOSTNAMES", "hostnames: [HOST]").Replace(ofTheGatewayAPI),
	},
	{
		name: "Traefik by TCPRoute", needs: []string{"sluice-traefik"}, start: traefik("gateway", "-experimental"),
		object: "tcproute", refer: "customNetworkRefs: [{apiVersion: gateway.networking.k8s.io/v1, kind: TCPRoute, name: web}]",
		route: strings.NewReplacer("LISTENER", "protocol: TCP", "KIND", "TCPRoute", "HOSTNAMES", "").Replace(ofTheGatewayAPI),
	},
	{
		name: "Traefik by TLSRoute", needs: []string{"sluice-traefik"}, start: traefik("gateway", "-experimental"), tls: true,
		object: "tlsroute", refer: "customNetworkRefs: [{apiVersion: gateway.networking.k8s.io/v1, kind: TLSRoute, name: web}]",
		route: strings.NewReplacer("LISTENER", "protocol: TLS, tls: {mode: Passthrough}", "KIND", "TLSRoute", "HOSTNAMES", "hostnames: [HOST]").Replace(ofTheGatewayAPI),
	},
	{
		name: "Traefik by IngressRoute", needs: []string{"sluice-traefik"}, start: traefik("crd"),
		object: "ingressroute", refer: "customNetworkRefs: [{apiVersion: traefik.io/v1alpha1, kind: IngressRoute, name: web}]", mirror: 20, audiences: telling(either),
		route: `
apiVersion: traefik.io/v1alpha1
kind: IngressRoute
metadata: {name: web, labels: {team: shop}, annotations: {note: "of its owner"}}
spec: {routes: [{kind: Rule, match: "Host(` + "`HOST`" + `)", services: [{name: web, port: 80}]}]}
`,
	},
	{
		name: "Traefik by TraefikService", needs: []string{"sluice-traefik"}, start: traefik("crd"),
		object: "traefikservice", refer: "customNetworkRefs: [{apiVersion: traefik.io/v1alpha1, kind: TraefikService, name: web}]", mirror: 20,
		route: `
apiVersion: traefik.io/v1alpha1
kind: IngressRoute
metadata: {name: edge}
spec: {routes: [{kind: Rule, match: "Host(` + "`HOST`" + `)", services: [{kind: TraefikService, name: web}]}]}
---
apiVersion: traefik.io/v1alpha1
kind: TraefikService
metadata: {name: web, labels: {team: shop}, annotations: {note: "of its owner"}}
spec: {weighted: {services: [{name: web, port: 80}]}}
`,
		sticky: sticky("{weighted: {", "{weighted: {sticky: {cookie: {name: session}}, "),
	},
	{
		name: "Traefik by Ingress", needs: []string{"sluice-traefik"}, start: traefik("ingress-nginx"),
		object: "ingress", refer: "ingress: {name: web, classType: nginx}", audiences: annotated, route: ingress,
		sticky: sticky(`annotations: {`, `annotations: {nginx.ingress.kubernetes.io/affinity: cookie, `),
	},
	{
		name: "ingress-nginx by Ingress", needs: []string{"sluice-ingress-nginx", "nginx"}, start: ingressNginx,
		object: "ingress", refer: "ingress: {name: web, classType: nginx}", audiences: annotated, route: ingress,
		sticky: sticky(`annotations: {`, `annotations: {nginx.ingress.kubernetes.io/affinity: cookie, `),
	},
	{
		name: "Istio and Envoy by VirtualService", needs: []string{"sluice-istiod", "envoy"}, start: envoy,
		object: "virtualservice", mirror: 30, audiences: telling(either), tag: "gray",
		refer: "tag: {header: x-tag, value: gray, label: example.com/tag}, customNetworkRefs: [{apiVersion: networking.istio.io/v1, kind: VirtualService, name: web}]",
		route: `
apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: edge}
spec: {selector: {istio: edge}, servers: [{port: {number: PORT, name: http, protocol: HTTP}, hosts: ["*"]}]}
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: web, labels: {team: shop}, annotations: {note: "of its owner"}}
spec:
  hosts: [HOST]
  gateways: [edge]
  http: [{route: [{destination: {host: web, port: {number: 80}}}]}]
`,
	},
	{
		name: "Istio and gRPC by VirtualService", needs: []string{"sluice-istiod", "sluice-grpc"}, start: grpcClient, grpc: true,
		object: "virtualservice", refer: "customNetworkRefs: [{apiVersion: networking.istio.io/v1, kind: VirtualService, name: web}]", audiences: either,
		route: `
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: web, labels: {team: shop}, annotations: {note: "of its owner"}}
spec: {hosts: [web], http: [{route: [{destination: {host: web}}]}]}
`,
	},
	{
		name: "Istio and gRPC by GRPCRoute", needs: []string{"sluice-istiod", "sluice-grpc"}, start: grpcClient, grpc: true,
		object: "grpcroute", refer: "customNetworkRefs: [{apiVersion: gateway.networking.k8s.io/v1, kind: GRPCRoute, name: web}]", audiences: either,
		route: strings.ReplaceAll(ofAMesh, "KIND", "GRPCRoute"),
	},
	{
		name: "Istio and gRPC by HTTPRoute", needs: []string{"sluice-istiod", "sluice-grpc"}, start: grpcClient, grpc: true,
		object: "httproute", refer: "gateway: {httpRouteName: web}", audiences: either,
		route: strings.ReplaceAll(ofAMesh, "KIND", "HTTPRoute"),
	},
}

// ofAMesh is a route within a mesh, which is attached to a Service.
const ofAMesh = `
apiVersion: gateway.networking.k8s.io/v1
kind: KIND
metadata: {name: web, labels: {team: shop}, annotations: {note: "of its owner"}}
spec:
  parentRefs: [{group: "", kind: Service, name: web, port: 80}]
  rules: [{backendRefs: [{name: web, port: 80}]}]
`

// traefik starts Traefik with one of its providers.
func traefik(provider string, flags ...string) func(*testing.T, *world.World, string) (string, string) {
	return func(t *testing.T, w *world.World, ns string) (string, string) {
		t.Helper()
		address := ports.Address(t)
		begin(t, program("sluice-traefik", append(flags, "-kubeconfig", w.Kubeconfig, "-namespace", ns, "-listen", address, "-providers", provider)...))
		return "http://" + address + "/", outside(ns)
	}
}
