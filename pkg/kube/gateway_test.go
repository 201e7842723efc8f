package kube

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/lru"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/kube/apiclient"
	"sluice.dev/sluice/pkg/rollout"
	"sluice.dev/sluice/pkg/script"
	"sluice.dev/sluice/pkg/traffic"
)

func TestARenderingIsMadeAgainWhenAnythingItIsMadeOfChanges(t *testing.T) {
	t.Parallel()
	weight := func(w rollout.Percent) map[int32]traffic.Strategy { return map[int32]traffic.Strategy{1: {Weight: &w}} }
	matches := weight(20)
	matches[1] = traffic.Strategy{Weight: matches[1].Weight, Matches: []api.HTTPRouteMatch{{}}}
	version := func(v string) *unstructured.Unstructured {
		u := &unstructured.Unstructured{Object: map[string]any{"kind": "Lane", "spec": map[string]any{}}}
		u.SetResourceVersion(v)
		return u
	}
	rel := traffic.Release{UID: "u", Namespace: "shop", Name: "web", Epoch: 1, Service: "web", CanaryService: "web-canary"}
	cases := map[string]struct {
		change func(*gateway, *traffic.Release, *map[int32]traffic.Strategy)
		again  bool
	}{
		"nothing":         {func(*gateway, *traffic.Release, *map[int32]traffic.Strategy) {}, false},
		"the same weight": {func(_ *gateway, _ *traffic.Release, s *map[int32]traffic.Strategy) { *s = weight(20) }, false},
		"another weight":  {func(_ *gateway, _ *traffic.Release, s *map[int32]traffic.Strategy) { *s = weight(30) }, true},
		"other matches":   {func(_ *gateway, _ *traffic.Release, s *map[int32]traffic.Strategy) { *s = matches }, true},
		"another script":  {func(g *gateway, _ *traffic.Release, _ *map[int32]traffic.Strategy) { g.scriptHash = "b" }, true},
		"another release": {func(_ *gateway, r *traffic.Release, _ *map[int32]traffic.Strategy) { r.Epoch = 2 }, true},
		"another pod label": {func(_ *gateway, r *traffic.Release, _ *map[int32]traffic.Strategy) {
			r.PatchLabels = map[string]string{"a": "b"}
		}, true},
		"another version": {func(g *gateway, _ *traffic.Release, _ *map[int32]traffic.Strategy) { g.live = version("2") }, true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			runs := 0
			g := &gateway{ref: rollout.Ref{Kind: "Lane", Name: "web"}, renderings: lru.New(8), live: version("1"), scriptHash: "a", renderScript: func(in script.Input) (script.Output, error) {
				runs++
				return script.Output{}, errors.New("not today")
			}}
			rel, steps := rel, weight(20)
			g.renderRoute(rel, steps)
			before := runs
			c.change(g, &rel, &steps)
			if g.renderRoute(rel, steps); (runs > before) != c.again {
				t.Errorf("it was rendered %d times before and %d times in all", before, runs)
			}
		})
	}
}

func TestLooksShareWhatWasRendered(t *testing.T) {
	t.Parallel()
	weight := rollout.Percent(20)
	steps := map[int32]traffic.Strategy{1: {Weight: &weight}}
	live := &unstructured.Unstructured{Object: map[string]any{"kind": "Lane", "spec": map[string]any{"a": "b"}}}
	for name, c := range map[string]struct {
		err     error
		refused string
		want    int
	}{
		"what a script has made is not made again":     {nil, "", 1},
		"what a script refuses is refused":             {errors.New("no such lane"), "no such lane", 1},
		"a script that the clock stopped is run again": {&script.Error{Script: "lane", Kind: script.KindDeadline, Message: "no time"}, "no time", 2},
		"a script that its budget stopped is stopped":  {&script.Error{Script: "lane", Kind: script.KindSteps, Message: "it loops"}, "it loops", 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			runs, shared := 0, lru.New(8)
			for range 2 {
				g := &gateway{ref: rollout.Ref{Kind: "Lane", Name: "web"}, renderings: shared, live: live, renderScript: func(in script.Input) (script.Output, error) {
					runs++
					return script.Output{Spec: in.Spec}, c.err
				}}
				route := g.renderRoute(traffic.Release{UID: "u"}, steps)
				if refused := route.Steps[1].Refused; g.plan == nil || (refused != "") != (c.refused != "") || !strings.Contains(refused, c.refused) {
					t.Errorf("the look gave %+v", route)
				}
			}
			if runs != c.want {
				t.Errorf("the script ran %d times, want %d", runs, c.want)
			}
		})
	}
}

func TestAProblemOfAWriteNamesItsRoute(t *testing.T) {
	t.Parallel()
	lane := rollout.Ref{APIVersion: "example.com/v1", Kind: "Lane", Name: "web"}
	lanes := schema.GroupResource{Group: "example.com", Resource: "lanes"}
	action := rollout.RestoreRoute{Object: lane}
	on := apiclient.Access{Verb: "update", Group: "example.com", Resource: "lanes", Namespace: "shop", Name: "web", Route: lane}
	cases := map[string]struct {
		err    error
		reason api.Reason
	}{
		"what the API server cannot take": {apiclient.ActionError(action, on, apierrors.NewInvalid(schema.GroupKind{Kind: "Lane"}, "web", nil)), rollout.ReasonRouteRejected},
		"a missing permission":            {apiclient.ActionError(action, on, apierrors.NewForbidden(lanes, "web", errors.New("no"))), rollout.ReasonForbidden},
		"an original that is lost":        {refusedRoute(action, lane, errors.New("lost")), rollout.ReasonRouteUnsupported},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, ok := apiclient.ProblemOf(fmt.Errorf("act: %w", c.err))
			if diff := cmp.Diff([]any{true, lane, c.reason}, []any{ok, p.Route, p.Reason}); diff != "" {
				t.Errorf("the problem differs (-want +got):\n%s", diff)
			}
		})
	}
}

// The objects that may be children of a gateway object are an input of a rendering. The features of its Gateway are an
// input too, also for a script that creates objects.
func TestALookKnowsWhatStandsBesideTheObjectAndWhatItsGatewaySupports(t *testing.T) {
	t.Parallel()
	var asked []script.Input
	beside := func(name, version string) *unstructured.Unstructured {
		u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap"}}
		u.SetName(name)
		u.SetUID(types.UID(name))
		u.SetResourceVersion(version)
		return u
	}
	live := beside("web", "1")
	live.SetKind("Lane")
	g := &gateway{
		ref: rollout.Ref{Kind: "Lane", Name: "web"}, renderings: lru.New(8), live: live, surroundings: traffic.ScriptContext{Features: []string{"Mirror"}},
		childKinds: []script.GroupVersionKind{{APIVersion: "v1", Kind: "ConfigMap"}}, namespaceObjects: []*unstructured.Unstructured{beside("a", "1")},
		renderScript: func(in script.Input) (script.Output, error) {
			asked = append(asked, in)
			return script.Output{Spec: map[string]any{"a": "b"}}, nil
		},
	}
	weight := rollout.Percent(20)
	steps := map[int32]traffic.Strategy{1: {Weight: &weight}}
	look := func() {
		g.renderRoute(traffic.Release{UID: "u", Name: "web", Service: "web", CanaryService: "web-canary"}, steps)
	}
	look()
	look()
	if len(asked) != 1 || !slices.Equal(asked[0].Features, []string{"Mirror"}) {
		t.Fatalf("the script was asked %d times, with %v", len(asked), asked)
	}
	g.namespaceObjects = []*unstructured.Unstructured{beside("a", "2")}
	look()
	now := metav1.Now()
	g.namespaceObjects[0] = g.namespaceObjects[0].DeepCopy()
	g.namespaceObjects[0].SetDeletionTimestamp(&now)
	look()
	if len(asked) != 3 {
		t.Errorf("after two changes beside the object the script was asked %d times", len(asked))
	}
	g.surroundings.Reads = []any{map[string]any{"kind": "Plugins"}}
	look()
	if len(asked) != 4 || len(asked[3].Reads) != 1 {
		t.Errorf("after a change of what the object names the script was asked %d times", len(asked))
	}
}

// A user who must grant a kind whose objects the executor creates gets all rights in one message.
func TestWhatMayNotBeMadeIsToldWithAllThatMakingTakes(t *testing.T) {
	t.Parallel()
	err := apierrors.NewForbidden(schema.GroupResource{Group: "example.com", Resource: "lanes"}, "web",
		errors.New(`User "sluice" cannot create resource "lanes" in API group "example.com" in the namespace "shop"`))
	g := &gateway{ref: rollout.Ref{APIVersion: "example.com/v1", Kind: "Lane", Name: "web"}}
	on := g.childAccess("create", schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "lanes"}, &unstructured.Unstructured{Object: map[string]any{}})
	if got := apiclient.ForbiddenProblem(on, err).Message; !strings.Contains(got, `verbs: ["create", "update", "delete"]`) {
		t.Errorf("the message is %q", got)
	}
}
