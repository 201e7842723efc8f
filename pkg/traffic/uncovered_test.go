package traffic

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"sluice.dev/sluice/pkg/rollout"
)

func TestAPolicyThatCoversTheStableVersionOnlyIsTold(t *testing.T) {
	t.Parallel()
	of := Coverage{
		Stable: &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web",
			Labels: map[string]string{"app": "web", "app.kubernetes.io/instance": "shop"}}},
		CanaryService: "web-canary",
		PodLabels:     map[string]string{"app": "web", "track": "stable"}, PatchLabels: map[string]string{"track": "canary"},
		Copied: []rollout.Ref{{APIVersion: "gateway.networking.k8s.io/v1", Kind: "HTTPRoute", Name: "web"}},
	}
	const authorization, tokens, monitor = "security.istio.io/v1 AuthorizationPolicy", "security.istio.io/v1 RequestAuthentication", "monitoring.coreos.com/v1 ServiceMonitor"
	for name, c := range map[string]struct{ kind, name, spec, want string }{
		"of the Service":                   {authorization, "own", `{targetRefs: [{group: "", kind: Service, name: web}]}`, "names Service web and not Service web-canary"},
		"of the Service, in one reference": {authorization, "own", `{targetRef: {kind: Service, name: web}}`, "names Service web and not Service web-canary"},
		"of both Services":                 {authorization, "own", `{targetRefs: [{kind: Service, name: web}, {kind: Service, name: web-canary}]}`, ""},
		"of a Gateway of that name":        {authorization, "own", `{targetRefs: [{group: gateway.networking.k8s.io, kind: Gateway, name: web}]}`, ""},
		"of another Service":               {authorization, "own", `{targetRefs: [{kind: Service, name: api}]}`, ""},
		"of all pods":                      {authorization, "own", `{}`, ""},
		"of pods of both":                  {authorization, "own", `{selector: {matchLabels: {app: web}}}`, ""},
		"of other pods":                    {authorization, "own", `{selector: {matchLabels: {app: api, track: stable}}}`, ""},
		"of tokens, of the Service":        {tokens, "own", `{targetRef: {group: "", kind: Service, name: web}, jwtRules: [{issuer: shop}]}`, "names Service web and not Service web-canary"},
		"of tokens, of stable pods": {tokens, "own", `{selector: {matchLabels: {track: stable}}, jwtRules: [{issuer: shop}]}`,
			"selects pods by the label track=stable, and the pods of the canary have track=canary"},
		"of tokens, of a waypoint": {tokens, "own", `{targetRefs: [{group: gateway.networking.k8s.io, kind: Gateway, name: waypoint}], jwtRules: [{issuer: shop}]}`, ""},
		"of stable pods": {"security.istio.io/v1 PeerAuthentication", "own", `{selector: {matchLabels: {app: web, track: stable}}, portLevelMtls: {8080: {mode: DISABLE}}}`,
			"selects pods by the label track=stable, and the pods of the canary have track=canary"},
		"by its own name":        {"linkerd.io/v1alpha2 ServiceProfile", "web.shop.svc.cluster.local", `{}`, "names Service web and not Service web-canary"},
		"by the name of another": {"linkerd.io/v1alpha2 ServiceProfile", "web-2.shop.svc.cluster.local", `{}`, ""},
		"in a list":              {"cilium.io/v2 CiliumEnvoyConfig", "own", `{services: [{name: web, namespace: shop}]}`, "names Service web and not Service web-canary"},
		"in a list, elsewhere":   {"cilium.io/v2 CiliumEnvoyConfig", "own", `{services: [{name: web, namespace: mall}]}`, ""},
		"in a list of both":      {"cilium.io/v2 CiliumEnvoyConfig", "own", `{services: [{name: web}, {name: web-canary}]}`, ""},
		"of a rule that is copied": {"gateway.envoyproxy.io/v1alpha1 SecurityPolicy", "own", `{targetRefs: [{group: gateway.networking.k8s.io, kind: HTTPRoute, name: web, sectionName: api}]}`,
			"covers the rule api of HTTPRoute web, and not the copy of it that leads requests with matches to the canary; attach it to the whole route"},
		"of the whole route":             {"gateway.envoyproxy.io/v1alpha1 SecurityPolicy", "own", `{targetRefs: [{group: gateway.networking.k8s.io, kind: HTTPRoute, name: web}]}`, ""},
		"of a rule of another route":     {"gateway.envoyproxy.io/v1alpha1 BackendTrafficPolicy", "own", `{targetRefs: [{kind: HTTPRoute, name: api, sectionName: api}]}`, ""},
		"by labels of both":              {monitor, "own", `{selector: {matchLabels: {app: web}}}`, ""},
		"by a label that is not copied":  {monitor, "own", `{selector: {matchLabels: {app.kubernetes.io/instance: shop}}}`, "selects Service web and not Service web-canary, which does not get all of its labels"},
		"by labels of another Service":   {monitor, "own", `{selector: {matchLabels: {app: api}}}`, ""},
		"by no selector that can be had": {monitor, "own", `{selector: {matchExpressions: [{key: app, operator: Near}]}}`, ""},
		"keeping by name": {monitor, "own", `{selector: {matchLabels: {app: web}}, endpoints: [{relabelings: [{action: keep, sourceLabels: [__meta_kubernetes_service_name], regex: web}]}]}`,
			"keeps targets of Service web and not of Service web-canary"},
		"dropping by name": {monitor, "own", `{selector: {matchLabels: {app: web}}, endpoints: [{relabelings: [{action: Drop, sourceLabels: [__meta_kubernetes_service_name], regex: .*-canary}]}]}`,
			"keeps targets of Service web and not of Service web-canary"},
		"keeping by a pattern of both": {monitor, "own", `{endpoints: [{relabelings: [{action: keep, sourceLabels: [__meta_kubernetes_service_name], regex: web.*}]}]}`, ""},
		"keeping by no pattern":        {monitor, "own", `{endpoints: [{relabelings: [{action: keep, sourceLabels: [__meta_kubernetes_service_name], regex: "("}]}]}`, ""},
		"writing a label by name":      {monitor, "own", `{endpoints: [{relabelings: [{sourceLabels: [__meta_kubernetes_service_name], regex: web, targetLabel: a}]}]}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			version, kind, _ := strings.Cut(c.kind, " ")
			policy := aPolicy(t, version, kind, c.name, c.spec)
			var want []string
			if c.want != "" {
				want = []string{kind + " " + c.name + " " + c.want}
			}
			if diff := cmp.Diff(want, DescribeUncovered([]*unstructured.Unstructured{policy}, of)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestAPolicyWithACounterpartForTheCanaryIsNotTold(t *testing.T) {
	t.Parallel()
	of := Coverage{Stable: &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}, CanaryService: "web-canary",
		PodLabels: map[string]string{"track": "stable"}, PatchLabels: map[string]string{"track": "canary"}}
	authorization := func(name, service, action string) *unstructured.Unstructured {
		return aPolicy(t, "security.istio.io/v1", "AuthorizationPolicy", name, "{action: "+action+", targetRefs: [{kind: Service, name: "+service+"}]}")
	}
	profile := func(service string) *unstructured.Unstructured {
		return aPolicy(t, "linkerd.io/v1alpha2", "ServiceProfile", service+".shop.svc.cluster.local", "{}")
	}
	peer := func(track string) *unstructured.Unstructured {
		return aPolicy(t, "security.istio.io/v1", "PeerAuthentication", track, "{selector: {matchLabels: {track: "+track+"}}}")
	}
	for name, c := range map[string]struct {
		policies []*unstructured.Unstructured
		want     int
	}{
		"a policy each":             {[]*unstructured.Unstructured{authorization("a", "web", "ALLOW"), authorization("b", "web-canary", "ALLOW")}, 0},
		"another action":            {[]*unstructured.Unstructured{authorization("a", "web", "DENY"), authorization("b", "web-canary", "ALLOW")}, 1},
		"a profile each":            {[]*unstructured.Unstructured{profile("web"), profile("web-canary")}, 0},
		"a profile of the canary's": {[]*unstructured.Unstructured{profile("web-canary")}, 0},
		"pods of each":              {[]*unstructured.Unstructured{peer("stable"), peer("canary")}, 0},
		"pods of the stable one":    {[]*unstructured.Unstructured{peer("stable")}, 1},
	} {
		if told := DescribeUncovered(c.policies, of); len(told) != c.want {
			t.Errorf("%s: it tells %v", name, told)
		}
	}
}

// The page lists the kinds that a release copies, and the kinds that it reports.
func TestEachKindOfPolicyIsDocumented(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "gateways.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "## Policies of the stable Service")
	section, _, _ = strings.Cut(section, "\n## ")
	copied, told, _ := strings.Cut(section, "Policies of other kinds stay as they are.")
	for _, kind := range PolicyKinds() {
		if !strings.Contains(copied, "| `"+kind.Group+"` |") || !strings.Contains(copied, kind.Kind) {
			t.Errorf("%s is not among the kinds that are copied", kind)
		}
	}
	for _, kind := range UncopiedKinds() {
		if !strings.Contains(told, kind.Kind) {
			t.Errorf("%s is not among the kinds that are told", kind)
		}
	}
}
