package traffic

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestWhatKeepsUsersWithOnePodIsFound(t *testing.T) {
	t.Parallel()
	const route, rule = "gateway.networking.k8s.io/v1 HTTPRoute", "networking.istio.io/v1 DestinationRule"
	for name, c := range map[string]struct{ kind, spec, policy, of, want string }{
		"nothing":                        {route, `{rules: [{backendRefs: [{name: web}]}]}`, "", "", ""},
		"a rule of the route":            {route, `{rules: [{backendRefs: [{name: web}], sessionPersistence: {sessionName: s}}]}`, "", "", "sessionPersistence of HTTPRoute edge"},
		"a rule to another Service":      {route, `{rules: [{backendRefs: [{name: api}], sessionPersistence: {sessionName: s}}]}`, "", "", ""},
		"a hash of the host":             {route, `{}`, rule, `{host: web, trafficPolicy: {loadBalancer: {consistentHash: {httpCookie: {name: s}}}}}`, "consistentHash of DestinationRule own"},
		"a hash of a port of a subset":   {route, `{}`, rule, `{host: web, subsets: [{name: v1, trafficPolicy: {portLevelSettings: [{loadBalancer: {consistentHash: {useSourceIp: true}}}]}}]}`, "consistentHash of DestinationRule own"},
		"a hash of another host":         {route, `{}`, rule, `{host: api, trafficPolicy: {loadBalancer: {consistentHash: {useSourceIp: true}}}}`, ""},
		"no hash":                        {route, `{}`, rule, `{host: web, trafficPolicy: {loadBalancer: {simple: RANDOM}}}`, ""},
		"a policy of the Gateway API":    {route, `{}`, "gateway.networking.x-k8s.io/v1alpha1 XBackendTrafficPolicy", `{targetRefs: [{kind: Service, name: web}], sessionPersistence: {sessionName: s}}`, "sessionPersistence of XBackendTrafficPolicy own"},
		"a policy of GKE":                {route, `{}`, "networking.gke.io/v1 GCPBackendPolicy", `{targetRef: {kind: Service, name: web}, default: {sessionAffinity: {type: CLIENT_IP}}}`, "sessionAffinity of GCPBackendPolicy own"},
		"a policy of GKE without one":    {route, `{}`, "networking.gke.io/v1 GCPBackendPolicy", `{targetRef: {kind: Service, name: web}, default: {sessionAffinity: {type: NONE}}}`, ""},
		"a policy of AWS":                {route, `{}`, "gateway.k8s.aws/v1beta1 TargetGroupConfiguration", `{targetReference: {name: web}, defaultConfiguration: {targetGroupAttributes: [{key: stickiness.enabled, value: "true"}]}}`, "stickiness.enabled of TargetGroupConfiguration own"},
		"a ring of kgateway":             {route, `{}`, "gateway.kgateway.dev/v1alpha1 BackendConfigPolicy", `{targetRefs: [{group: "", kind: Service, name: web}], loadBalancer: {ringHash: {hashPolicies: [{cookie: {name: s}}]}}}`, "ringHash of BackendConfigPolicy own"},
		"a table of kgateway":            {route, `{}`, "gateway.kgateway.dev/v1alpha1 BackendConfigPolicy", `{targetRefs: [{group: "", kind: Service, name: web}], loadBalancer: {maglev: {hashPolicies: [{sourceIP: {}}]}}}`, "maglev of BackendConfigPolicy own"},
		"a ring of kgateway by nothing":  {route, `{}`, "gateway.kgateway.dev/v1alpha1 BackendConfigPolicy", `{targetRefs: [{group: "", kind: Service, name: web}], loadBalancer: {ringHash: {minimumRingSize: 64}}}`, ""},
		"addresses of NGINX":             {route, `{}`, "gateway.nginx.org/v1alpha1 UpstreamSettingsPolicy", `{targetRefs: [{group: "", kind: Service, name: web}], loadBalancingMethod: ip_hash}`, "loadBalancingMethod of UpstreamSettingsPolicy own"},
		"a key of NGINX":                 {route, `{}`, "gateway.nginx.org/v1alpha1 UpstreamSettingsPolicy", `{targetRefs: [{group: "", kind: Service, name: web}], loadBalancingMethod: hash consistent, hashMethodKey: $cookie_s}`, "loadBalancingMethod of UpstreamSettingsPolicy own"},
		"no key of NGINX":                {route, `{}`, "gateway.nginx.org/v1alpha1 UpstreamSettingsPolicy", `{targetRefs: [{group: "", kind: Service, name: web}], loadBalancingMethod: random two least_conn}`, ""},
		"an upstream of APISIX":          {"apisix.apache.org/v2 ApisixRoute", `{}`, "apisix.apache.org/v2 ApisixUpstream", `{loadbalancer: {type: chash, key: remote_addr}}`, "chash of ApisixUpstream web"},
		"an upstream of APISIX in turns": {"apisix.apache.org/v2 ApisixRoute", `{}`, "apisix.apache.org/v2 ApisixUpstream", `{loadbalancer: {type: roundrobin}}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			version, kind, _ := strings.Cut(c.kind, " ")
			var policies []*unstructured.Unstructured
			if c.policy != "" {
				version, kind, _ := strings.Cut(c.policy, " ")
				name := "own"
				if kind == "ApisixUpstream" {
					name = "web"
				}
				policies = append(policies, aPolicy(t, version, kind, name, c.of))
			}
			if got := StickyBy(aPolicy(t, version, kind, "edge", c.spec), policies, "web"); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestAnAnnotationOfAnIngressKeepsUsersWithOnePod(t *testing.T) {
	t.Parallel()
	for key, value := range map[string]string{"mse.ingress.kubernetes.io/affinity": "cookie", "alb.ingress.kubernetes.io/sticky-session": "true"} {
		ingress := aPolicy(t, "networking.k8s.io/v1", "Ingress", "edge", "{}")
		ingress.SetAnnotations(map[string]string{key: value})
		if got, want := StickyBy(ingress, nil, "web"), "the annotation "+key+" of Ingress edge"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		ingress.SetAnnotations(map[string]string{key: "false"})
		if got := StickyBy(ingress, nil, "web"); got != "" {
			t.Errorf("got %q of one that is off", got)
		}
	}
}
