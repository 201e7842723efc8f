// Package apisix lets the translator of APISIX's Ingress controller check the script's output for an ApisixRoute. It is
// a separate module, because it needs the dependencies of the controller.
package apisix

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/apisix-ingress-controller/pkg/kube"
	configv2 "github.com/apache/apisix-ingress-controller/pkg/kube/apisix/apis/config/v2"
	"github.com/apache/apisix-ingress-controller/pkg/providers/apisix/translation"
	services "github.com/apache/apisix-ingress-controller/pkg/providers/translation"
	"github.com/apache/apisix-ingress-controller/pkg/types"
	apisixv1 "github.com/apache/apisix-ingress-controller/pkg/types/apisix/v1"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/yaml"
)

const cases = "../../../lua_configuration/apisix.apache.org/ApisixRoute/testdata/"

type aCase struct {
	Original configv2.ApisixRoute
	Expected []configv2.ApisixRoute
}

func read(t *testing.T, file string) aCase {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var c aCase
	if err := yaml.Unmarshal(text, &c); err != nil {
		t.Fatal(err)
	}
	return c
}

// translator returns the controller's own translator, in a namespace with the Services of the cases. They have no
// endpoints, and no ApisixUpstream exists.
func translator(t *testing.T) translation.ApisixTranslator {
	t.Helper()
	known := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	for _, name := range []string{"web", "web-canary", "legacy", "other"} {
		ports := []corev1.ServicePort{{Name: "http", Port: 80}, {Name: "more", Port: 81}}
		service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}, Spec: corev1.ServiceSpec{ClusterIP: "10.0.0.1", Ports: ports}}
		if err := known.Add(service); err != nil {
			t.Fatal(err)
		}
	}
	return translation.NewApisixTranslator(&translation.TranslatorOptions{ServiceLister: listers.NewServiceLister(known), ApisixUpstreamLister: noUpstreams{}}, noEndpoints{})
}

type noEndpoints struct{ services.Translator }

func (noEndpoints) TranslateService(string, string, string, int32) (*apisixv1.Upstream, error) {
	return apisixv1.NewDefaultUpstream(), nil
}

func (noEndpoints) TranslateEndpoint(kube.Endpoint, int32, types.Labels) (apisixv1.UpstreamNodes, error) {
	return nil, nil
}

type noUpstreams struct{ kube.ApisixUpstreamLister }

func (noUpstreams) V2(string, string) (kube.ApisixUpstream, error) {
	return nil, errors.New("there is none")
}

func TestAPISIXRefusesWhatIsInvalid(t *testing.T) {
	t.Parallel()
	rule := configv2.ApisixRouteHTTP{Name: "twice"}
	route := &configv2.ApisixRoute{Spec: configv2.ApisixRouteSpec{HTTP: []configv2.ApisixRouteHTTP{rule, rule}}}
	if _, err := translator(t).TranslateRouteV2(route); err == nil {
		t.Error("it takes two rules of one name")
	}
}

// The test translates the object of each case, before a release and at each of its steps.
func TestAPISIXTakesWhatTheScriptMakes(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(cases + "*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			c := read(t, file)
			for i, route := range append([]configv2.ApisixRoute{c.Original}, c.Expected...) {
				if _, err := translator(t).TranslateRouteV2(&route); err != nil {
					t.Errorf("object %d: %v", i, err)
				}
			}
		})
	}
}

// The first backend is the upstream of a route, and a splitting plugin has the others. The canary gets the share of the
// step.
func TestAPISIXSplitsAsTheStepsAsk(t *testing.T) {
	t.Parallel()
	c := read(t, cases+"weights.yaml")
	for i, percent := range []int{0, 1, 20, 33, 50, 99, 100} {
		translated, err := translator(t).TranslateRouteV2(&c.Expected[i])
		if err != nil {
			t.Fatal(err)
		}
		split, ok := translated.Routes[0].Plugins["traffic-split"].(*apisixv1.TrafficSplitConfig)
		if !ok || len(split.Rules) != 1 || len(split.Rules[0].WeightedUpstreams) != 2 {
			t.Fatalf("step %d: %+v", i+1, translated.Routes[0].Plugins)
		}
		canary, stable := split.Rules[0].WeightedUpstreams[0], split.Rules[0].WeightedUpstreams[1]
		if canary.UpstreamID == "" || stable.UpstreamID != "" || canary.Weight != percent || stable.Weight != 100-percent {
			t.Errorf("step %d: %+v, want %d%% for the canary", i+1, split.Rules[0], percent)
		}
	}
}

// The controller adds its own plugin to a rule with weights. A plugin that the owner has switched on stays in force at
// each step.
func TestAPISIXKeepsThePluginsOfTheOwner(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(cases + "*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	kept := 0
	for _, file := range files {
		c := read(t, file)
		for i, route := range c.Expected {
			translated, err := translator(t).TranslateRouteV2(&route)
			if err != nil {
				t.Fatal(err)
			}
			for j, rule := range route.Spec.HTTP {
				for _, plugin := range owned(c.Original, rule.Name) {
					kept++
					if diff := cmp.Diff(asJSON(t, plugin.Config), asJSON(t, translated.Routes[j].Plugins[plugin.Name])); diff != "" {
						t.Errorf("%s, step %d, rule %s: plugin %s is not as its owner wrote it (-written +translated):\n%s", filepath.Base(file), i+1, rule.Name, plugin.Name, diff)
					}
				}
			}
		}
	}
	if kept == 0 {
		t.Error("no case has a plugin")
	}
}

// owned returns the plugins that the owner of a rule has switched on, for the rule and its copies. It leaves out
// plugins without a configuration, and proxy-rewrite, which a step may change.
func owned(original configv2.ApisixRoute, rule string) (list []configv2.ApisixRoutePlugin) {
	for _, own := range original.Spec.HTTP {
		if own.Name != rule && !strings.HasPrefix(rule, own.Name+"-canary") {
			continue
		}
		for _, plugin := range own.Plugins {
			if plugin.Enable && len(plugin.Config) > 0 && plugin.Name != "proxy-rewrite" {
				list = append(list, plugin)
			}
		}
	}
	return list
}

func asJSON(t *testing.T, value any) (plain any) {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &plain); err != nil {
		t.Fatal(err)
	}
	return plain
}
