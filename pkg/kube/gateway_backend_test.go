package kube

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	luaconfiguration "sluice.dev/sluice/lua_configuration"
	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/kube/apiclient"
	"sluice.dev/sluice/pkg/rollout"
	"sluice.dev/sluice/pkg/script"
)

// twoBackends is a Rollout that is routed by two Services.
func twoBackends() *Snapshot {
	rule := func(kind, name string) rollout.Ref {
		return rollout.Ref{APIVersion: "networking.istio.io/v1", Kind: kind, Name: name}
	}
	s := &Snapshot{spec: rollout.Spec{Routing: []rollout.Routing{
		{Service: "web", CanaryService: "web-canary", Objects: []rollout.Ref{rule("VirtualService", "web")}},
		{Service: "grpc", CanaryService: "grpc-canary", Objects: []rollout.Ref{rule("VirtualService", "grpc"), rule("DestinationRule", "grpc")}},
	}}}
	for _, routing := range s.spec.Routing {
		s.backends = append(s.backends, &backend{routing: routing, stable: &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: routing.Service, ResourceVersion: "1"}}})
	}
	return s
}

func TestGatewayObjectsOfAllEntriesAreInOneOrder(t *testing.T) {
	t.Parallel()
	s := twoBackends()
	s.rollout = &api.Rollout{}
	s.spec.Routing[1].Objects = append(s.spec.Routing[1].Objects, s.spec.Routing[0].Objects...)
	for _, ref := range s.routeRefs() {
		s.gateways = append(s.gateways, &gateway{ref: ref})
	}
	o := &observation{snapshot: s, client: &Client{opts: Options{Scripts: script.NewLibrary(luaconfiguration.FS, "")}}}
	for range 2 { // the second pass sees the objects in the order of the first
		s.Scripts = nil
		o.findScripts()
		var got, scripts []string
		for i, g := range s.gateways {
			rel := s.releaseFor(g)
			for _, further := range rel.Further {
				rel.Service += " and " + further.Service
			}
			got, scripts = append(got, g.ref.String()+" for "+rel.Service), append(scripts, s.Scripts[i].Object)
		}
		want := []string{"DestinationRule grpc for grpc", "VirtualService web for web and grpc", "VirtualService grpc for grpc"}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]string{"DestinationRule/grpc", "VirtualService/web", "VirtualService/grpc"}, scripts); diff != "" {
			t.Errorf("the scripts (-want +got):\n%s", diff)
		}
	}
}

func TestServicesAreLiveOnlyTogether(t *testing.T) {
	t.Parallel()
	s := twoBackends()
	s.backends[0].liveParts[partStableService] = true
	if s.confirmedParts()[partStableService] {
		t.Error("one that only a watch has shown counts as live")
	}
	s.backends[1].liveParts[partStableService] = true
	if lives := s.confirmedParts(); !lives[partStableService] || lives[partCanaryService] || lives[partEndpoints] {
		t.Errorf("live are %v", lives)
	}
	if (&Snapshot{}).confirmedParts()[partStableService] {
		t.Error("a Service that nobody looked for counts as live")
	}
}

func TestRoutesAreLiveOnlyTogether(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		fresh []bool
		want  bool
	}{
		"no routes":                       {nil, true},
		"routes that were read live":      {[]bool{true, true}, true},
		"routes that watches have shown":  {[]bool{false, false}, false},
		"the first of them was read live": {[]bool{true, false}, false},
		"the last of them was read live":  {[]bool{false, true}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &Snapshot{}
			for _, fresh := range c.fresh {
				s.gateways = append(s.gateways, &gateway{confirmedLive: fresh})
			}
			if got := s.confirmedParts()[partRoutes]; got != c.want {
				t.Errorf("they count as live: %t, want %t", got, c.want)
			}
		})
	}
}

func TestAChangeOfAnyServiceIsOne(t *testing.T) {
	t.Parallel()
	for i := range 2 {
		s := twoBackends()
		before := s.partFingerprints(services())
		s.backends[i].stable.ResourceVersion = "2"
		if s.partFingerprints(services()) == before {
			t.Errorf("a change of Service %s is not seen", s.backends[i].routing.Service)
		}
	}
}

func services() partSet { return partsOf(partStableService, partCanaryService, partEndpoints) }

func TestServicesAreFoundByEitherName(t *testing.T) {
	t.Parallel()
	s := twoBackends()
	for name, want := range map[string]*backend{"web": s.backends[0], "grpc": s.backends[1], "grpc-canary": s.backends[1], "other": nil} {
		if got := s.backendOf(name); got != want {
			t.Errorf("%s: got %v", name, got)
		}
	}
}

// The first gateway object that leads to a Service and is written owns the copies of its policies. A DestinationRule
// that a Rollout names stays unchanged.
func TestTheFirstGatewayObjectCarriesThePoliciesOfAService(t *testing.T) {
	t.Parallel()
	s := twoBackends()
	s.rollout = &api.Rollout{}
	s.spec.Routing = append(s.spec.Routing, rollout.Routing{Service: "one", CanaryService: "one", Objects: s.spec.Routing[0].Objects})
	s.spec.Routing[1].Objects = append(s.spec.Routing[1].Objects, s.spec.Routing[0].Objects...)
	for _, ref := range s.routeRefs() {
		s.gateways = append(s.gateways, &gateway{ref: ref, access: apiclient.Access{Namespace: "shop"}})
	}
	s.gateways = append(s.gateways, &gateway{ref: rollout.Ref{APIVersion: "kuma.io/v1alpha1", Kind: "TrafficRoute", Name: "web"}})
	o := &observation{snapshot: s, client: &Client{opts: Options{Scripts: script.NewLibrary(luaconfiguration.FS, "")}}}
	o.findScripts()
	s.assignPolicyCopies()
	got := map[string][]string{}
	for _, g := range s.gateways {
		if rel := s.releaseFor(g); len(rel.Carries) > 0 {
			got[g.ref.String()] = rel.Carries
		}
	}
	if diff := cmp.Diff(map[string][]string{"VirtualService web": {"web", "grpc"}}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
