package traffic

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	luaconfiguration "sluice.dev/sluice/lua_configuration"
	"sluice.dev/sluice/pkg/rollout"
	"sluice.dev/sluice/pkg/script"
	"sluice.dev/sluice/pkg/script/cases"
)

// ofTwo are objects that two Services stand behind, one of each kind that routes.
var ofTwo = map[string]string{
	"networking.istio.io/v1 VirtualService":  `{hosts: [shop], http: [{match: [{uri: {prefix: /api}}], route: [{destination: {host: api}}]}, {route: [{destination: {host: web}}]}]}`,
	"gateway.networking.k8s.io/v1 HTTPRoute": `{rules: [{matches: [{path: {value: /api}}], backendRefs: [{name: api, port: 80}]}, {backendRefs: [{name: web, port: 80}]}]}`,
	"gateway.networking.k8s.io/v1 GRPCRoute": `{rules: [{matches: [{method: {service: api}}], backendRefs: [{name: api, port: 80}]}, {backendRefs: [{name: web, port: 80}]}]}`,
	"gateway.networking.k8s.io/v1 TCPRoute":  `{rules: [{backendRefs: [{name: api, port: 80, weight: 1}, {name: web, port: 80, weight: 3}]}]}`,
	"gateway.networking.k8s.io/v1 TLSRoute":  `{rules: [{backendRefs: [{name: api, port: 80}]}, {backendRefs: [{name: web, port: 80}]}]}`,
	"traefik.io/v1alpha1 TraefikService":     `{weighted: {services: [{name: api, port: 80}, {name: web, port: 80, weight: 3}]}}`,
	"traefik.io/v1alpha1 IngressRoute": "{routes: [{match: PathPrefix(`/api`), kind: Rule, services: [{name: api, port: 80}]}, " +
		"{match: Host(`shop`), kind: Rule, services: [{name: web, port: 80}]}]}",
	"apisix.apache.org/v2 ApisixRoute": `{http: [{name: api, match: {paths: [/api]}, backends: [{serviceName: api, servicePort: 80}]},
		{name: all, match: {paths: [/*]}, backends: [{serviceName: web, servicePort: 80}]}]}`,
	"kuma.io/v1alpha1 TrafficRoute": `{conf: {destination: {kuma.io/service: web_shop_svc_80},
		http: [{match: {path: {prefix: /api}}, destination: {kuma.io/service: api_shop_svc_80}}]}}`,
}

// life is an object of one kind, and releases of the Services behind it.
type life struct {
	*gateway
	web, api Release
	original Content
}

func aLife(t *testing.T, kind string) life {
	t.Helper()
	version, name, _ := strings.Cut(kind, " ")
	group, _, _ := strings.Cut(version, "/")
	source, err := script.NewLibrary(luaconfiguration.FS, "").Find(group, name, script.ConfigMap{})
	if err != nil {
		t.Fatal(err)
	}
	live := defaulted(object(t, "apiVersion: "+version+"\nkind: "+name+"\nmetadata: {name: edge, namespace: shop, uid: object}\nspec: "+ofTwo[kind]))
	of := func(service string) Release {
		return Release{UID: service, Namespace: "shop", Name: service, Service: service, CanaryService: service + "-canary", Epoch: 1}
	}
	return life{gateway: &gateway{t: t, ref: rollout.Ref{APIVersion: version, Kind: name, Name: "edge"}, live: live, run: Lua(t.Context(), source)},
		web: of("web"), api: of("api"), original: ContentOf(live)}
}

func (l life) at(rel Release, percent int32) { l.step(rel, weight(rollout.Percent(percent))) }

// takenBack is a release that was stopped and takes its traffic back bit by bit.
func (l life) takenBack(t *testing.T, rel Release, percent int32) {
	t.Helper()
	_, plan := Observe(l.ref, l.live.DeepCopy(), rel, map[int32]Strategy{-percent: weight(rollout.Percent(percent))}, l.run)
	desired, _, err := plan.Desired(-percent)
	if err != nil {
		t.Fatal(err)
	}
	l.write(desired)
}

// lives plays each of [cases.Lives]. same is what another object of the kind is after a step of one release.
var lives = map[string]func(t *testing.T, l life, same func(Release, int32) Content) (want Content){
	"twice is once": func(_ *testing.T, l life, same func(Release, int32) Content) Content {
		l.at(l.web, 20)
		l.at(l.web, 20)
		return same(l.web, 20)
	},
	"step back": func(_ *testing.T, l life, same func(Release, int32) Content) Content {
		l.at(l.web, 50)
		l.at(l.web, 20)
		return same(l.web, 20)
	},
	"abort": func(t *testing.T, l life, same func(Release, int32) Content) Content {
		l.at(l.web, 50)
		l.takenBack(t, l.web, 10)
		return same(l.web, 10)
	},
	"edit kept": func(_ *testing.T, l life, _ func(Release, int32) Content) Content {
		l.at(l.web, 20)
		l.edit(func(u *unstructured.Unstructured) { setLabel(u, "edited", "meanwhile") })
		l.at(l.web, 50)
		l.restore(l.web)
		want := l.original.copied()
		want.Labels = map[string]string{"edited": "meanwhile"}
		return want
	},
	"two releases": func(t *testing.T, l life, same func(Release, int32) Content) Content {
		l.at(l.web, 20)
		l.at(l.api, 50)
		l.at(l.web, 30)
		l.restore(l.web)
		if diff := cmp.Diff(same(l.api, 50), ContentOf(l.live)); diff != "" {
			t.Errorf("one has left (-want +got):\n%s", diff)
		}
		l.restore(l.api)
		return l.original
	},
	"given back": func(_ *testing.T, l life, _ func(Release, int32) Content) Content {
		l.at(l.web, 20)
		l.at(l.web, 100)
		l.restore(l.web)
		return l.original
	},
}

func TestEachKindLivesThroughEveryCourseOfARelease(t *testing.T) {
	t.Parallel()
	if diff := cmp.Diff(slices.Sorted(slices.Values(cases.Lives())), slices.Sorted(maps.Keys(lives))); diff != "" {
		t.Fatalf("courses (-told +played):\n%s", diff)
	}
	kinds, err := cases.Kinds(luaconfiguration.FS)
	if err != nil {
		t.Fatal(err)
	}
	told := map[string]bool{}
	for kind := range ofTwo {
		version, name, _ := strings.Cut(kind, " ")
		group, _, _ := strings.Cut(version, "/")
		told[group+"/"+name] = true
	}
	for _, k := range kinds {
		if k.Class == "" && !k.Capabilities.Backs && !told[k.Group+"/"+k.Kind] {
			t.Errorf("%s/%s has no object here", k.Group, k.Kind)
		}
	}
	for kind := range ofTwo {
		for name, play := range lives {
			t.Run(kind+"/"+name, func(t *testing.T) {
				t.Parallel()
				l := aLife(t, kind)
				want := play(t, l, func(rel Release, percent int32) Content {
					other := aLife(t, kind)
					other.at(rel, percent)
					return ContentOf(other.live)
				})
				if diff := cmp.Diff(want, ContentOf(l.live)); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
			})
		}
	}
}
