package trafficrouting

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
)

func aSpec(change func(*api.TrafficRoutingSpec)) *api.TrafficRouting {
	weight, grace := int32(20), int32(5)
	t := &api.TrafficRouting{Spec: api.TrafficRoutingSpec{
		ObjectRef: []api.TrafficRoutingRef{
			{Service: "shop", CustomNetworkRefs: []api.ObjectRef{objectOf(vs)}, NetworkRefs: []api.ObjectRef{objectOf(rule)}},
			{Service: "stock", GracePeriodSeconds: &grace, CustomNetworkRefs: []api.ObjectRef{objectOf(other)}},
		},
		Strategy: api.TrafficRoutingStrategy{Weight: &weight},
	}}
	change(&t.Spec)
	return t
}

func TestParseTakesAllOfObjectRef(t *testing.T) {
	got, err := Parse(aSpec(func(*api.TrafficRoutingSpec) {}))
	if err != nil {
		t.Fatal(err)
	}
	want := Spec{Grace: 5 * time.Second, Services: []Service{
		{Name: "shop", Objects: []rollout.Ref{vs, rule}}, {Name: "stock", Objects: []rollout.Ref{other}},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestSpecsThatAreRefused(t *testing.T) {
	for want, change := range map[string]func(*api.TrafficRoutingSpec){
		"strategy asks for nothing: set weight or matches":                                   func(s *api.TrafficRoutingSpec) { s.Strategy = api.TrafficRoutingStrategy{} },
		"objectRef names nothing: give a service and the customNetworkRefs that route to it": func(s *api.TrafficRoutingSpec) { s.ObjectRef = nil },
		"objectRef[1]: service is required: name the Service that the gateway objects route to": func(s *api.TrafficRoutingSpec) {
			s.ObjectRef[1].Service = ""
		},
		"objectRef[0]: it names no gateway object: give customNetworkRefs or an ingress": func(s *api.TrafficRoutingSpec) {
			s.ObjectRef[0].CustomNetworkRefs, s.ObjectRef[0].NetworkRefs = nil, nil
		},
		"objectRef[0]: VirtualService shop is named twice; name each gateway object once": func(s *api.TrafficRoutingSpec) {
			s.ObjectRef[0].NetworkRefs = []api.ObjectRef{objectOf(vs)}
		},
		"objectRef[1]: VirtualService shop is in objectRef[0] as well; name each gateway object once": func(s *api.TrafficRoutingSpec) {
			s.ObjectRef[1].CustomNetworkRefs = []api.ObjectRef{objectOf(vs)}
		},
		"objectRef[0]: an HTTPRoute tells versions apart by their Services, and here both stand behind one: use customNetworkRefs with a kind that has subsets, such as VirtualService": func(s *api.TrafficRoutingSpec) {
			s.ObjectRef[0].Gateway = &api.GatewayTrafficRouting{}
		},
	} {
		if _, err := Parse(aSpec(change)); err == nil || err.Error() != want {
			t.Errorf("want the error %q, got %v", want, err)
		}
	}
}

func TestWhatARolloutSeesOfATrafficRouting(t *testing.T) {
	now := metav1.Now()
	applied := api.TrafficRoutingStatus{Phase: api.RoutingProgressing, AppliedGeneration: 1, Objects: []api.ObjectRef{objectOf(vs)}}
	for name, c := range map[string]struct {
		routing      api.TrafficRouting
		applied, off bool
	}{
		"at rest":                  {api.TrafficRouting{Status: api.TrafficRoutingStatus{Phase: api.RoutingHealthy}}, false, true},
		"applied":                  {api.TrafficRouting{ObjectMeta: metav1.ObjectMeta{Generation: 1, Finalizers: []string{api.FinalizerProgressingPrefix + "a"}}, Status: applied}, true, false},
		"applied before a change":  {api.TrafficRouting{ObjectMeta: metav1.ObjectMeta{Generation: 2, Finalizers: []string{api.FinalizerProgressingPrefix + "a"}}, Status: applied}, false, false},
		"applied for another one":  {api.TrafficRouting{ObjectMeta: metav1.ObjectMeta{Generation: 1, Finalizers: []string{api.FinalizerProgressingPrefix + "b"}}, Status: applied}, true, true},
		"deleted while others ask": {api.TrafficRouting{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &now, Finalizers: []string{api.FinalizerProgressingPrefix + "b"}}, Status: applied}, false, false},
	} {
		if got := [2]bool{IsApplied(&c.routing), InactiveFor(&c.routing, "a")}; got != [2]bool{c.applied, c.off} {
			t.Errorf("%s: applied and off are %v", name, got)
		}
	}
}
