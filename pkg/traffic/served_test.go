package traffic

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice.dev/sluice/pkg/script"
)

// A release may route several Services of one object. The script shapes the object for one after the other. Ingresses are left out: the user names one for
// each Service.
func TestEachKindRoutesOneReleaseByTwoServices(t *testing.T) {
	t.Parallel()
	for kind := range ofTwo(t) {
		if strings.Contains(kind, " Ingress ") {
			continue
		}
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			both, one := aLife(t, kind), aLife(t, kind)
			rel := both.web
			rel.Further = []Served{{Service: "api", CanaryService: "api-canary"}}
			for _, percent := range []int32{20, 60, 20, 20} {
				both.at(rel, percent)
			}
			// Releases shape an object in the order of their names.
			a, b := one.web, one.api
			a.Name, b.Name = "a", "b"
			one.at(a, 20)
			one.at(b, 20)
			if diff := cmp.Diff(one.look(), both.look()); diff != "" {
				t.Errorf("it is not what two releases make of it (-two +one):\n%s", diff)
			}
			found := ReleasesOn(both.live)
			if len(found) != 1 || len(found[0].Further) != 1 {
				t.Fatalf("on the object are %+v", found)
			}
			both.restore(found[0]) // any executor that finds the release may restore it
			if diff := cmp.Diff(look{"": both.original}, both.look()); diff != "" {
				t.Errorf("given back (-want +got):\n%s", diff)
			}
		})
	}
}

// A script that shapes the object for one Service gets the other Services and the canary of each.
func TestAScriptIsToldOfEveryServiceOfItsRelease(t *testing.T) {
	t.Parallel()
	rel := Release{UID: "u", Namespace: "shop", Name: "web", Service: "web", CanaryService: "web-canary", Further: []Served{{Service: "api", CanaryService: "api-canary"}}}
	run := builtin(t, "VirtualService")
	var heard [][]script.Service
	g := &gateway{t: t, live: defaulted(shop(t, 1)), run: func(in script.Input) (script.Output, error) {
		heard = append(heard, in.Services)
		return run(in)
	}}
	g.observe(rel, weight(20))
	all := []script.Service{{Stable: "web", Canary: "web-canary"}, {Stable: "api", Canary: "api-canary"}}
	if diff := cmp.Diff([][]script.Service{all, all}, heard); diff != "" {
		t.Errorf("what it is told for one after the other (-want +got):\n%s", diff)
	}
}

// Edits by others are recognised by the records of all Services on the object.
func TestAnEditSurvivesAReleaseByTwoServices(t *testing.T) {
	t.Parallel()
	l := aLife(t, "gateway.networking.k8s.io/v1 HTTPRoute")
	rel := l.web
	rel.Further = []Served{{Service: "api", CanaryService: "api-canary"}}
	l.at(rel, 20)
	l.replace(object(t, `
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: edge, namespace: shop, uid: object, labels: {edited: meanwhile}}
spec: `+jsonOf(ofTwo(t)["gateway.networking.k8s.io/v1 HTTPRoute"])))
	l.at(rel, 50)
	l.restore(rel)
	want := l.original.deepCopy()
	want.Labels = map[string]string{"edited": "meanwhile"}
	if diff := cmp.Diff(want, ContentOf(l.live)); diff != "" {
		t.Errorf("given back (-want +got):\n%s", diff)
	}
}
