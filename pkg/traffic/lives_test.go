package traffic

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	luaconfiguration "sluice.dev/sluice/lua_configuration"
	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
	"sluice.dev/sluice/pkg/script"
	"sluice.dev/sluice/pkg/script/cases"
)

// ofTwo are specs of objects that route to two Services, by version, kind and class of Ingresses.
func ofTwo(t fataler) map[string]any {
	t.Helper()
	text, err := os.ReadFile("testdata/two_services.yaml")
	if err != nil {
		t.Fatalf("read the objects: %v", err)
	}
	return object(t, string(text)).Object
}

// life is an object of one kind, and releases of the Services that it routes to.
type life struct {
	*gateway
	web, api Release
	original Content
}

func aLife(t *testing.T, kind string) life {
	t.Helper()
	version, name, _ := strings.Cut(kind, " ")
	name, class, _ := strings.Cut(name, " ")
	group, _, _ := strings.Cut(version, "/")
	live := defaulted(object(t, "apiVersion: "+version+"\nkind: "+name+"\nmetadata: {name: edge, namespace: shop, uid: object}\nspec: "+jsonOf(ofTwo(t)[kind])))
	of := func(service string) Release {
		return Release{UID: service, Namespace: "shop", Name: service, Service: service, CanaryService: service + "-canary", Epoch: 1}
	}
	l := life{gateway: &gateway{t: t, ref: rollout.Ref{APIVersion: version, Kind: name, Name: "edge", Class: class}, live: live},
		web: of("web"), api: of("api"), original: ContentOf(live)}
	library := script.NewLibrary(luaconfiguration.FS, "")
	source, err := library.FindScript(group, name, script.ConfigMap{})
	if class != "" {
		source, err = library.FindIngress(class, script.ConfigMap{})
		l.ingress = func(others []*unstructured.Unstructured) Script { return IngressScript(t.Context(), source, others) }
	}
	if err != nil {
		t.Fatal(err)
	}
	l.run = LuaScript(t.Context(), source)
	return l
}

func (l life) at(rel Release, percent int32) { l.step(rel, weight(rollout.Percent(percent))) }

// takenBack plays an aborted release that moves its traffic back in shares.
func (l life) takenBack(rel Release, percent int32) {
	l.t.Helper()
	l.carryOut(rel, -percent, weight(rollout.Percent(percent)))
}

// look is an object and its children, each by the backends that it leads to.
type look map[string]Content

func (l life) look() look {
	l.t.Helper()
	all := look{"": ContentOf(l.live)}
	taken := map[string]bool{}
	for _, o := range l.others {
		c := ContentOf(o)
		delete(c.Labels, api.LabelRolloutUID)
		c.Labels = orNil(c.Labels)
		if l.ref.Class == "aliyun-alb" { // the number depends on earlier steps
			order := c.Annotations[onALB+"order"]
			if n, err := strconv.Atoi(order); err != nil || n < 1 || n >= 10 || taken[order] {
				l.t.Fatalf("%s has the order %q, beside %v", o.GetName(), order, taken)
			}
			taken[order] = true
			delete(c.Annotations, onALB+"order")
		}
		all[fmt.Sprint(sortedBackends(backendsIn(c.Spec)))] = c
	}
	return all
}

// lives plays each of [cases.PropertyNames]. same returns another object of the kind after a step of one release.
var lives = map[string]func(t *testing.T, l life, same func(Release, int32) look) (want look){
	"twice is once": func(_ *testing.T, l life, same func(Release, int32) look) look {
		l.at(l.web, 20)
		l.at(l.web, 20)
		return same(l.web, 20)
	},
	"step back": func(_ *testing.T, l life, same func(Release, int32) look) look {
		l.at(l.web, 50)
		l.at(l.web, 20)
		return same(l.web, 20)
	},
	"abort": func(_ *testing.T, l life, same func(Release, int32) look) look {
		l.at(l.web, 50)
		l.takenBack(l.web, 10)
		return same(l.web, 10)
	},
	"edit kept": func(_ *testing.T, l life, _ func(Release, int32) look) look {
		l.at(l.web, 20)
		l.edit(func(u *unstructured.Unstructured) { setLabel(u, "edited", "meanwhile") })
		l.at(l.web, 50)
		l.restore(l.web)
		want := l.original.deepCopy()
		want.Labels = map[string]string{"edited": "meanwhile"}
		return look{"": want}
	},
	"two releases": func(t *testing.T, l life, same func(Release, int32) look) look {
		l.at(l.web, 20)
		l.at(l.api, 50)
		l.at(l.web, 30)
		l.restore(l.web)
		if diff := cmp.Diff(same(l.api, 50), l.look()); diff != "" {
			t.Errorf("one has left (-want +got):\n%s", diff)
		}
		l.restore(l.api)
		return look{"": l.original}
	},
	"given back": func(_ *testing.T, l life, _ func(Release, int32) look) look {
		l.at(l.web, 20)
		l.at(l.web, 100)
		l.restore(l.web)
		return look{"": l.original}
	},
}

func TestEachKindLivesThroughEveryCourseOfARelease(t *testing.T) {
	t.Parallel()
	if diff := cmp.Diff(slices.Sorted(slices.Values(cases.PropertyNames())), slices.Sorted(maps.Keys(lives))); diff != "" {
		t.Fatalf("courses (-told +played):\n%s", diff)
	}
	kinds, err := cases.ListKinds(luaconfiguration.FS)
	if err != nil {
		t.Fatal(err)
	}
	told := map[string]bool{}
	for kind := range ofTwo(t) {
		version, name, _ := strings.Cut(kind, " ")
		group, _, _ := strings.Cut(version, "/")
		told[group+"/"+name] = true
	}
	for _, k := range kinds {
		if !k.Capabilities.Referenced && !told[k.Group+"/"+k.Kind] {
			t.Errorf("%s/%s has no object here", k.Group, k.Kind)
		}
	}
	for kind := range ofTwo(t) {
		for name, play := range lives {
			t.Run(kind+"/"+name, func(t *testing.T) {
				t.Parallel()
				l := aLife(t, kind)
				want := play(t, l, func(rel Release, percent int32) look {
					other := aLife(t, kind)
					other.at(rel, percent)
					return other.look()
				})
				if diff := cmp.Diff(want, l.look()); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
			})
		}
	}
}
