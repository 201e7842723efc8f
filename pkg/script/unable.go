package script

// unsupportedKinds are kinds of gateway objects that share no traffic between
// versions. No script can serve them; the values say why, and which kind to use
// instead. An Ingress is listed by its class in place of a group, as in keys of a
// ConfigMap.
var unsupportedKinds = map[GroupKind]struct{ why, instead string }{
	{"elbv2.k8s.aws", "TargetGroupBinding"}: {"it binds one Service to a target group, whose weight stands in the load balancer's listener",
		"name an HTTPRoute of the AWS Load Balancer Controller"},
	{"configuration.konghq.com", "KongUpstreamPolicy"}: {"it balances the pods of one Service", "name an HTTPRoute, which Kong uses to share traffic"},
	{"configuration.konghq.com", "KongIngress"}:        {"it configures one upstream", "name an HTTPRoute, which Kong uses to share traffic"},
	{"configuration.konghq.com", "TCPIngress"}:         {"a rule of it has one backend", "name a TCPRoute or a TLSRoute, which Kong uses to share connections"},
	{"http.keda.sh", "HTTPScaledObject"}:               {"it scales one Service", "name the route that leads to KEDA's interceptor, or to the Service"},
	{"networking.istio.io", "Gateway"}:                 {"it opens ports", "name the VirtualService that is bound to it"},
	{"networking.istio.io", "ServiceEntry"}:            {"it defines hosts", "name the VirtualService of the host"},
	{"networking.istio.io", "WorkloadEntry"}:           {"it defines one endpoint", "name the VirtualService of the host"},
	{"networking.istio.io", "Sidecar"}:                 {"it says what a proxy may reach", "name the VirtualService of the host"},
	{"gateway.networking.k8s.io", "Gateway"}:           {"it opens ports", "name the routes that are bound to it"},
	{"inference.networking.k8s.io", "InferencePool"}:   {"it picks a pod of one version", "name the HTTPRoute that leads to the pool, and make a pool for the canary"},
	{"networking.higress.io", "McpBridge"}:             {"it names registries of services", "use an Ingress of class higress"},
	{"extensions.higress.io", "WasmPlugin"}:            {"it runs a plugin", "use an Ingress of class higress"},
	{"traefik.containo.us", "IngressRoute"}:            {"Traefik 3 does not serve the group", "move the object to traefik.io"},
	{"traefik.containo.us", "TraefikService"}:          {"Traefik 3 does not serve the group", "move the object to traefik.io"},
	{"gce", "ingress"}:                                 {"GKE's load balancer has no weights in an Ingress", "use an HTTPRoute with a Gateway of GKE"},
	{"gce-internal", "ingress"}:                        {"GKE's load balancer has no weights in an Ingress", "use an HTTPRoute with a Gateway of GKE"},
	{"azure-application-gateway", "ingress"}: {"an Application Gateway has no weights in an Ingress",
		"use an HTTPRoute with Application Gateway for Containers"},
	{"qcloud", "ingress"}: {"a CLB has weights of pods, not of Services", "use an HTTPRoute of a gateway in the cluster"},
}
