package cases

import (
	"flag"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	luaconfiguration "sluice.dev/sluice/lua_configuration"
	"sluice.dev/sluice/pkg/script"
)

var update = flag.Bool("update", false, "write docs/gateways.md anew")

// catalogue has the capabilities of each kind according to its own documentation. A
// script that declares fewer capabilities needs fewer cases, and fails here.
func catalogue() map[string]script.Capabilities {
	compared, paths := []string{"Exact", "RegularExpression"}, []string{"Exact", "PathPrefix", "RegularExpression"}
	changes := []string{"set", "add", "remove"}
	pools := []script.GroupVersionKind{{APIVersion: "inference.networking.k8s.io/v1", Kind: "InferencePool"}, {APIVersion: "inference.networking.x-k8s.io/v1alpha2", Kind: "InferencePool"}}
	services := []script.Reads{{GroupVersionKind: traefik("TraefikService")[0], Field: "name", NamespaceField: "namespace", KindField: "kind"}}
	return map[string]script.Capabilities{
		"networking.istio.io/VirtualService": {Routes: true, Weights: true, Sticky: script.StickyBroken, WeightStep: 0.001, Mirror: true, Paths: paths, Headers: compared, QueryParams: compared, And: true, Or: true,
			MatchesAndWeight: true, HeaderModifier: changes, TCP: true, SharedService: true,
			Reads: []script.Reads{{GroupVersionKind: script.GroupVersionKind{Kind: "VirtualService"}, Field: "name", NamespaceField: "namespace", Under: "delegate"}}},
		"networking.istio.io/DestinationRule": {Referenced: true},
		"gateway.networking.k8s.io/HTTPRoute": {Routes: true, Weights: true, Sticky: script.StickyBroken, WeightStep: 0.001, Paths: paths, Headers: compared, QueryParams: compared, And: true, Or: true,
			MatchesAndWeight: true, HeaderModifier: changes, Mirror: true, Needs: map[string]string{
				"mirror": "HTTPRouteRequestMirror", "mirrorShare": "HTTPRouteRequestPercentageMirror", "queryParams": "HTTPRouteQueryParamMatching",
				"backendHeaderModifier": "HTTPRouteBackendRequestHeaderModification"}, Backends: pools},
		"gateway.networking.k8s.io/GRPCRoute": {Routes: true, Weights: true, Sticky: script.StickyBroken, WeightStep: 0.001, Headers: compared, And: true, Or: true, MatchesAndWeight: true, HeaderModifier: changes, Mirror: true, Backends: pools},
		"gateway.networking.k8s.io/TCPRoute":  {Routes: true, Weights: true, Sticky: script.StickyBroken, WeightStep: 0.001, TCP: true, Backends: pools},
		"gateway.networking.k8s.io/TLSRoute":  {Routes: true, Weights: true, Sticky: script.StickyBroken, WeightStep: 0.001, TCP: true, Backends: pools},
		"networking.k8s.io/Ingress nginx":     {LagSeconds: 5, Weights: true, Sticky: script.StickyKept, WeightStep: 0.001, Headers: compared, MatchesAndWeight: true, HeaderOrCookie: true, Controllers: []string{"ingress-nginx", "Higress", "MSE"}, OneCanary: true},
		"networking.k8s.io/Ingress higress":   {Weights: true, Sticky: script.StickyBroken, Headers: compared, Controllers: []string{"Higress", "MSE", "ingress-nginx"}},
		"networking.k8s.io/Ingress mse":       {Weights: true, Sticky: script.StickyBroken, Headers: compared, QueryParams: compared, HeaderModifier: changes, SharedService: true, Controllers: []string{"MSE", "Higress", "ingress-nginx"}},
		"networking.k8s.io/Ingress aliyun-alb": {Weights: true, Sticky: script.StickyBroken, Headers: []string{"Exact"}, Or: true, MatchesAndWeight: true, Controllers: []string{"the ALB of Alibaba Cloud"},
			Orders: &script.Orders{Annotation: "alb.ingress.kubernetes.io/order", Default: 10, Min: 1}},
		"traefik.io/TraefikService": {Weights: true, Sticky: script.StickyKept, WeightStep: 0.001, Mirror: true, MirrorStep: 1, Creates: traefik("TraefikService"), Reads: services},
		"traefik.io/IngressRoute": {Weights: true, Sticky: script.StickyRefused, WeightStep: 0.001, Paths: paths, Headers: compared, QueryParams: compared, And: true, Or: true, MatchesAndWeight: true,
			Mirror: true, MirrorStep: 1, HeaderModifier: []string{"set", "remove"}, HeadersOfMatches: true, Creates: traefik("TraefikService", "Middleware"), Reads: services},
		"apisix.apache.org/ApisixRoute": {Routes: true, Weights: true, Sticky: script.StickyBroken, WeightStep: 0.001, Paths: paths, Headers: compared, QueryParams: compared, And: true, Or: true,
			MatchesAndWeight: true, HeaderModifier: changes, Mirror: true, Controllers: []string{"APISIX"}, Reads: []script.Reads{{
				GroupVersionKind: script.GroupVersionKind{APIVersion: "apisix.apache.org/v2", Kind: "ApisixPluginConfig"}, Field: "plugin_config_name", NamespaceField: "plugin_config_namespace"}, {
				GroupVersionKind: script.GroupVersionKind{APIVersion: "apisix.apache.org/v2", Kind: "ApisixUpstream"}, Field: "serviceName"}}},
		"kuma.io/TrafficRoute": {Weights: true, Sticky: script.StickyBroken, WeightStep: 0.001, Paths: paths, Headers: compared, And: true, Or: true, MatchesAndWeight: true, HeaderModifier: changes},
	}
}

func traefik(kinds ...string) (made []script.GroupVersionKind) {
	for _, kind := range kinds {
		made = append(made, script.GroupVersionKind{APIVersion: "traefik.io/v1alpha1", Kind: kind})
	}
	return made
}

func builtin(t *testing.T) []Kind {
	t.Helper()
	kinds, err := ListKinds(luaconfiguration.FS)
	if err != nil {
		t.Fatal(err)
	}
	return kinds
}

func TestEachKindCanDoWhatTheCatalogueSays(t *testing.T) {
	t.Parallel()
	got := map[string]script.Capabilities{}
	for _, k := range builtin(t) {
		if k.Capabilities == nil {
			t.Errorf("%s/%s says nothing about itself: add a capabilities.yaml", k.Group, k.Kind)
			continue
		}
		own := *k.Capabilities
		own.Instead = ""
		got[k.Group+"/"+k.Kind] = own
	}
	if diff := cmp.Diff(catalogue(), got); diff != "" {
		t.Errorf("(-catalogue +capabilities.yaml):\n%s", diff)
	}
}

func TestEveryCapabilityHasACase(t *testing.T) {
	t.Parallel()
	for _, k := range builtin(t) {
		for _, cell := range RequiredFeatures(k.Capabilities) {
			if !slices.Contains(k.Shown, cell) {
				t.Errorf("no case of %s/%s shows %q", k.Group, k.Kind, cell)
			}
		}
	}
}

// TestThePageShowsTheMatrix compares docs/gateways.md with the features that the
// cases show.
func TestThePageShowsTheMatrix(t *testing.T) {
	const file = "../../../docs/gateways.md"
	page, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	const begin, end = "<!-- matrix -->\n", "<!-- /matrix -->\n"
	head, rest, ok := strings.Cut(string(page), begin)
	_, tail, closed := strings.Cut(rest, end)
	if !ok || !closed {
		t.Fatalf("%s has no lines %q and %q", file, begin, end)
	}
	table, _ := matrix(routing(t), played(t))
	want := head + begin + table + proven(t, routing(t)) + end + tail
	if *update {
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want, string(page)); diff != "" {
		t.Errorf("the page is out of date: go test ./pkg/script/cases -run ThePage -update\n%s", diff)
	}
}

// routing are the built-in kinds that route.
func routing(t *testing.T) []Kind {
	t.Helper()
	return slices.DeleteFunc(builtin(t), func(k Kind) bool { return k.Capabilities != nil && k.Capabilities.Referenced })
}

// played are the kinds, by group, that the tests of pkg/traffic take through every
// course of a release.
func played(t *testing.T) map[string]bool {
	t.Helper()
	text, err := os.ReadFile("../../traffic/testdata/two_services.yaml")
	if err != nil {
		t.Fatal(err)
	}
	objects, err := ReadManifest(text)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]bool{}
	for name := range objects {
		version, kind, _ := strings.Cut(name, " ")
		all[path.Dir(version)+"/"+kind] = true
	}
	return all
}

// leastSupported is the highest number of supported features so far. Raise it with
// them, and never lower it.
const leastSupported = 343

func TestTheSupportedCellsDoNotBecomeFewer(t *testing.T) {
	t.Parallel()
	_, supported := matrix(routing(t), played(t))
	t.Logf("%d cells are supported", supported)
	if supported < leastSupported {
		t.Errorf("%d cells are supported, and %d were", supported, leastSupported)
	}
}

// matrix is a table of kinds and features. A check mark means that a kind supports
// the feature and a case shows it, or that the tests take the kind through the
// course. supported is the number of check marks.
func matrix(kinds []Kind, played map[string]bool) (table string, supported int) {
	var b strings.Builder
	total := 0
	b.WriteString("\n| |")
	for _, k := range kinds {
		fmt.Fprintf(&b, " %s |", k.Kind)
	}
	b.WriteString("\n|---|" + strings.Repeat(":-:|", len(kinds)) + "\n")
	for _, cell := range slices.Concat(FeatureNames(), PropertyNames()) {
		fmt.Fprintf(&b, "| %s |", cell)
		for _, k := range kinds {
			total++
			mark := " |"
			switch {
			case slices.Contains(PropertyNames(), cell) && played[k.Group+"/"+k.Kind] || slices.Contains(RequiredFeatures(k.Capabilities), cell) && slices.Contains(k.Shown, cell):
				supported, mark = supported+1, " ✓ |"
			}
			b.WriteString(mark)
		}
		b.WriteString("\n")
	}
	fmt.Fprintf(&b, "\n%d of %d cells are supported, each by a test.\n\n", supported, total)
	return b.String(), supported
}

// proof names the checks of a kind's objects in addition to its cases: the
// publisher's definition in a real API server, the publisher's own code, and a real
// data plane.
type proof struct{ schema, validator, live string }

func proofs() map[string]proof {
	const none = "not available"
	return map[string]proof{
		"Ingress nginx":      {schema: "Kubernetes", validator: none, live: "ingress-nginx, and Traefik's provider for its annotations"},
		"Ingress higress":    {schema: "Kubernetes", validator: none, live: none},
		"Ingress mse":        {schema: "Kubernetes", validator: none, live: none},
		"Ingress aliyun-alb": {schema: "Kubernetes; orders by the documented rules", validator: none, live: none},
		"GRPCRoute":          {"Gateway API 1.6.3, with its rules", none, "Istio, by gRPC's own client"},
		"HTTPRoute":          {"Gateway API 1.6.3, with its rules", none, "Traefik; Istio within a mesh, by gRPC's own client"},
		"TCPRoute":           {"Gateway API 1.6.3, with its rules", none, "Traefik, with the definitions of the experimental channel"},
		"TLSRoute":           {"Gateway API 1.6.3, with its rules", none, "Traefik, with the definitions of the experimental channel"},
		"VirtualService":     {"Istio 1.31.1, with its rules", "Istio's validation", "Istio, by Envoy and by gRPC's own client"},
		"TraefikService":     {"Traefik 3.7.10", "Traefik's balancer", "Traefik"},
		"IngressRoute":       {"Traefik 3.7.10", "Traefik's router and balancer", "Traefik"},
		"ApisixRoute":        {"APISIX Ingress 1.8.4", "the translation of APISIX Ingress", none},
		"TrafficRoute":       {"Kuma 1.8.1, whose definition accepts any spec", "Kuma's validation", none},
	}
}

// proven is a table of the proofs of each kind, and of the number of its publisher's
// examples that are refused.
func proven(t *testing.T, kinds []Kind) string {
	t.Helper()
	of, all := refusals(t)
	var b strings.Builder
	b.WriteString("| | schema | validator | live | refused examples | sticky sessions |\n|---|---|---|---|---|---|\n")
	for _, k := range kinds {
		p, examples := proofs()[k.Kind], of[strings.TrimSuffix(k.Kind, " nginx")] // Ingresses are played as ones of that class
		fmt.Fprintf(&b, "| %s |", k.Kind)
		for _, by := range []string{p.schema, p.validator, p.live, examples.String(), k.Capabilities.Sticky} {
			fmt.Fprintf(&b, " %s |", by)
		}
		b.WriteString("\n")
	}
	fmt.Fprintf(&b, "\nSluice refuses %s examples of DestinationRules. In all, it refuses %s examples that lead to a Service.\n", of["DestinationRule"], all)
	return b.String() + "\n"
}

// share is the number of refused examples of a kind, among those that lead to a
// Service.
type share struct{ refused, led int }

func (s share) String() string {
	if s.led == 0 {
		return "no examples"
	}
	return fmt.Sprintf("%d of %d", s.refused, s.led)
}

// refusals are the refused examples that test/gateway counted.
func refusals(t *testing.T) (of map[string]share, all share) {
	t.Helper()
	lists, err := filepath.Glob("../../../test/gateway/testdata/refused/*.golden")
	if err != nil || len(lists) == 0 {
		t.Fatalf("no lists of what is refused (%v)", err)
	}
	of = map[string]share{}
	for _, list := range lists {
		text, err := os.ReadFile(list)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			kind, counts, _ := strings.Cut(line, ": ")
			var s share
			if n, _ := fmt.Sscanf(counts, "%d lead to a Service, %d are refused", &s.led, &s.refused); n == 2 {
				of[kind] = share{of[kind].refused + s.refused, of[kind].led + s.led}
				all = share{all.refused + s.refused, all.led + s.led}
			}
		}
	}
	return of, all
}

func TestThePageTellsWhatProvesEachKind(t *testing.T) {
	t.Parallel()
	for _, k := range routing(t) {
		if p := proofs()[k.Kind]; p.schema == "" || p.validator == "" || p.live == "" {
			t.Errorf("what proves %s is not told: %+v", k.Kind, p)
		}
	}
}
