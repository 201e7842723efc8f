package trafficrouting

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
)

var (
	rule  = rollout.Ref{APIVersion: "networking.istio.io/v1beta1", Kind: "DestinationRule", Name: "shop"}
	vs    = rollout.Ref{APIVersion: "networking.istio.io/v1beta1", Kind: "VirtualService", Name: "shop"}
	other = rollout.Ref{APIVersion: "networking.istio.io/v1beta1", Kind: "VirtualService", Name: "other"}
)

// given builds an observed state in words: aRouting().Asked("a").On(vs).
type given struct{ Seen }

// aRouting is idle: no Rollout asks for it, and its owner's version is on both gateway objects.
func aRouting() *given {
	return &given{Seen{
		Name: "gray", Generation: 1, Finalizer: true, Status: api.TrafficRoutingStatus{ObservedGeneration: 1, Phase: api.RoutingHealthy},
		Routes: []rollout.Route{
			{Object: rule, Referenced: true, Steps: map[int32]rollout.Rendering{Step: {Digest: "r"}}},
			{Object: vs, Steps: map[int32]rollout.Rendering{Step: {Digest: "v"}}},
		},
	}}
}

func (g *given) Asked(by ...string) *given { g.Users = by; return g }
func (g *given) Deleted() *given           { g.Deleting = true; return g }

// Noted records in the status that the objects may carry the routing.
func (g *given) Noted(refs ...rollout.Ref) *given {
	for _, ref := range refs {
		g.Status.Objects = append(g.Status.Objects, objectOf(ref))
	}
	return g
}

// On puts the routing on named objects, and has their gateways accept it.
func (g *given) On(refs ...rollout.Ref) *given {
	for i := range g.Routes {
		for _, ref := range refs {
			if r := &g.Routes[i]; r.Object == ref {
				r.Shaped, r.Steps = true, map[int32]rollout.Rendering{Step: {Digest: "x", Applied: true, Accepted: true}}
			}
		}
	}
	return g.Noted(refs...)
}

// Outdated puts the routing of another strategy on an object.
func (g *given) Outdated(ref rollout.Ref) *given {
	for i := range g.Routes {
		if g.Routes[i].Object == ref {
			g.Routes[i].Steps = map[int32]rollout.Rendering{Step: {Digest: "new"}}
		}
	}
	return g
}

// LeftOn puts the routing on an object that the TrafficRouting no longer names.
func (g *given) LeftOn(ref rollout.Ref) *given {
	g.FormerRoutes = append(g.FormerRoutes, rollout.Route{Object: ref, Shaped: true})
	return g.Noted(ref)
}

func (g *given) With(p rollout.Problem) *given { g.Problems = append(g.Problems, p); return g }

func (g *given) Change(change func(*given)) *given { change(g); return g }

func objectOf(ref rollout.Ref) api.ObjectRef {
	return api.ObjectRef{APIVersion: ref.APIVersion, Kind: ref.Kind, Name: ref.Name}
}

// told is a decision in words.
type told struct {
	Phase   api.RoutingPhase
	Message string
	Applied int64
	Objects []string
	Actions []string
}

func tell(d Decision) told {
	t := told{Phase: d.Status.Phase, Message: d.Status.Message, Applied: d.Status.AppliedGeneration}
	for _, o := range d.Status.Objects {
		t.Objects = append(t.Objects, o.Kind+" "+o.Name)
	}
	for _, a := range d.Actions {
		t.Actions = append(t.Actions, a.String())
	}
	return t
}

var unreadable = rollout.Problem{Reason: rollout.ReasonForbidden, Unknown: true, Route: vs, Message: "Sluice may not get it"}

func TestPlan(t *testing.T) {
	both := []string{"DestinationRule shop", "VirtualService shop"}
	for name, c := range map[string]struct {
		given *given
		want  told
	}{
		"one that is new gets the finalizer first": {
			aRouting().Asked("a").Change(func(g *given) { g.Finalizer, g.Status = false, api.TrafficRoutingStatus{} }),
			told{Phase: api.RoutingInitial, Message: "TrafficRouting is Initial", Actions: []string{"add finalizer"}},
		},
		"one that nobody asks for is healthy": {
			aRouting(), told{Phase: api.RoutingHealthy, Message: "TrafficRouting is Healthy"},
		},
		"one whose gateway object does not exist is not": {
			aRouting().Change(func(g *given) { g.Routes[1].Missing = true }),
			told{Phase: api.RoutingInitial, Message: "VirtualService shop does not exist; create it, or correct objectRef"},
		},
		"one that is asked for notes its objects and routes them, what backs others first": {
			aRouting().Asked("a"),
			told{Phase: api.RoutingProgressing, Message: "asked for by Rollout a, being applied", Objects: both,
				Actions: []string{"route step 1 on DestinationRule shop", "route step 1 on VirtualService shop"}},
		},
		"it is applied when all objects are": {
			aRouting().Asked("a", "b").On(rule, vs),
			told{Phase: api.RoutingProgressing, Message: "asked for by Rollouts a, b, applied", Applied: 1, Objects: both},
		},
		"and not before the gateway accepts them": {
			aRouting().Asked("a").On(rule, vs).Change(func(g *given) { g.Routes[1].Steps[Step] = rollout.Rendering{Applied: true} }),
			told{Phase: api.RoutingProgressing, Message: "asked for by Rollout a, waiting for the gateway to accept VirtualService shop", Objects: both},
		},
		"a changed strategy is applied again": {
			aRouting().Asked("a").On(rule, vs).Outdated(vs).Change(func(g *given) { g.Generation, g.Status.AppliedGeneration = 2, 1 }),
			told{Phase: api.RoutingProgressing, Message: "asked for by Rollout a, being applied", Objects: both, Actions: []string{"route step 1 on VirtualService shop"}},
		},
		"a strategy that an object refuses changes none": {
			aRouting().Asked("a").On(rule, vs).Outdated(rule).Change(func(g *given) { g.Routes[1].Steps[Step] = rollout.Rendering{Refused: "No rule fits"} }),
			told{Phase: api.RoutingProgressing, Objects: both,
				Message: "asked for by Rollout a; No rule fits; mend the object, its script or the strategy"},
		},
		"an object that it no longer names is given back": {
			aRouting().Asked("a").On(rule, vs).LeftOn(other),
			told{Phase: api.RoutingProgressing, Message: "asked for by Rollout a, being applied",
				Objects: append(both[:2:2], "VirtualService other"), Actions: []string{"restore VirtualService other"}},
		},
		"an invalid spec gives back what it no longer names, and keeps the rest": {
			aRouting().Asked("a").LeftOn(vs).With(rollout.Problem{Message: "The TrafficRouting is not valid: x"}).Change(func(g *given) { g.Routes = nil }),
			told{Phase: api.RoutingProgressing, Message: "asked for by Rollout a; The TrafficRouting is not valid: x",
				Objects: []string{"VirtualService shop"}, Actions: []string{"restore VirtualService shop"}},
		},
		"when nobody asks any more all is given back, in reverse order": {
			aRouting().On(rule, vs).Change(func(g *given) { g.Status.Phase, g.Status.AppliedGeneration = api.RoutingProgressing, 1 }),
			told{Phase: api.RoutingFinalizing, Message: "no Rollout asks for it any more, the executor restores the routes", Objects: both,
				Actions: []string{"restore VirtualService shop", "restore DestinationRule shop"}},
		},
		"what is left from before is given back too": {
			aRouting().LeftOn(other),
			told{Phase: api.RoutingFinalizing, Message: "no Rollout asks for it any more, the executor restores the routes", Objects: []string{"VirtualService other"},
				Actions: []string{"restore VirtualService other"}},
		},
		"an object that cannot be read may carry it, and so may what backs it": {
			aRouting().On(rule, vs).With(unreadable).Change(func(g *given) { g.Routes[1] = rollout.Route{Object: vs, Missing: true} }),
			told{Phase: api.RoutingFinalizing, Message: "no Rollout asks for it any more, the executor restores the routes; Sluice may not get it", Objects: both},
		},
		"an object that was deleted needs nothing": {
			aRouting().On(vs).Change(func(g *given) { g.Routes[1] = rollout.Route{Object: vs, Missing: true} }),
			told{Phase: api.RoutingInitial, Message: "VirtualService shop does not exist; create it, or correct objectRef"},
		},
		"one that is deleted gives all back before its finalizer goes, whoever asks for it": {
			aRouting().Asked("a").On(rule, vs).Deleted(),
			told{Phase: api.RoutingTerminating, Message: "TrafficRouting is in terminating, the executor restores the routes", Objects: both,
				Actions: []string{"restore VirtualService shop", "restore DestinationRule shop"}},
		},
		"one that is deleted keeps its finalizer as long as an object cannot be read": {
			aRouting().On(vs).Deleted().With(unreadable).Change(func(g *given) { g.Routes[1] = rollout.Route{Object: vs, Missing: true} }),
			told{Phase: api.RoutingTerminating, Message: "TrafficRouting is in terminating, the executor restores the routes; Sluice may not get it",
				Objects: []string{"VirtualService shop"}},
		},
		"one that is deleted goes when nothing is routed": {
			aRouting().Asked("a").Deleted(),
			told{Phase: api.RoutingTerminating, Message: "TrafficRouting is in terminating", Actions: []string{"remove finalizer"}},
		},
		"whoever asks for it and is gone is forgotten first": {
			aRouting().On(rule, vs).Change(func(g *given) { g.StaleUsers = []string{"gone"} }),
			told{Phase: api.RoutingHealthy, Objects: both, Actions: []string{"take the finalizers of Rollouts off that no longer name it: gone"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, tell(Plan(c.given.Seen))); diff != "" {
				t.Errorf("decision (-want +got):\n%s", diff)
			}
		})
	}
}

// Another client may write the gateway objects between the decision and its actions, and the process may die after any action.
func TestWhatRaisesAndWhatIsTakenBackIsIntendedFirst(t *testing.T) {
	for name, c := range map[string]struct {
		given *given
		want  bool
	}{
		"when it begins to route":    {aRouting().Asked("a"), true},
		"when it takes routes back":  {aRouting().On(rule, vs).Change(func(g *given) { g.Status.Phase = api.RoutingProgressing }), true},
		"when it repairs a route":    {aRouting().Asked("a").On(rule, vs).Outdated(vs).Change(func(g *given) { g.Status.Phase, g.Status.AppliedGeneration = api.RoutingProgressing, 1 }), true},
		"not when it does so again":  {aRouting().Asked("a").On(rule, vs).Outdated(vs).Change(func(g *given) { g.Status.Phase = api.RoutingProgressing }), false},
		"not for a message":          {aRouting(), false},
		"when there is a new object": {aRouting().Asked("a").On(rule).Change(func(g *given) { g.Status.Phase = api.RoutingProgressing }), true},
	} {
		if got := Plan(c.given.Seen).NeedsCommitFirst(c.given.Seen); got != c.want {
			t.Errorf("%s: Intends is %t", name, got)
		}
	}
}
