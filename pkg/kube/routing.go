package kube

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
	"sluice.dev/sluice/pkg/traffic"
	"sluice.dev/sluice/pkg/trafficrouting"
)

// RoutingSnapshot is what was seen of the world for one TrafficRouting: all of it live, for there are few of them. Writes put what the
// API server answered into it. It is not safe for concurrent use.
type RoutingSnapshot struct {
	// Seen is the view for the core, always up to date with the objects below.
	Seen trafficrouting.Seen

	routing       *api.TrafficRouting
	sure          time.Time // when the look, or the latest commit that was taken, began
	users, strays []string
	wanted, left  []routed
	problems      []rollout.Problem
}

// routed is a gateway object and what the TrafficRouting is to it. Of one that it no longer names only the Kind and the names are known.
type routed struct {
	*gateway
	release traffic.Release
}

// ObserveRouting sees everything that the next step of a TrafficRouting depends on. What a person must mend comes as problems; an error
// is for [IsGone], or passes by itself and calls for another try.
func (c *Client) ObserveRouting(ctx context.Context, key types.NamespacedName) (*RoutingSnapshot, error) {
	began := time.Now()
	t, err := found(c.getTrafficRouting(ctx, key))
	if err == nil && t == nil {
		err = errGone
	}
	if err != nil {
		return nil, fmt.Errorf("read TrafficRouting %s: %w", key, err)
	}
	s := &RoutingSnapshot{routing: t, sure: began}
	if err := c.readUsers(ctx, s); err != nil {
		return nil, fmt.Errorf("observe TrafficRouting %s: %w", key, err)
	}
	c.listRouted(s)
	if err := c.readRouted(ctx, s); err != nil {
		return nil, fmt.Errorf("observe TrafficRouting %s: %w", key, err)
	}
	s.look()
	return s, nil
}

// readUsers tells Rollouts that ask for the TrafficRouting from those that cannot take their finalizer off: for they are gone, or name
// another one by now.
func (c *Client) readUsers(ctx context.Context, s *RoutingSnapshot) error {
	for _, name := range trafficrouting.RequestingRollouts(s.routing.Finalizers) {
		r, err := found(c.getRollout(ctx, types.NamespacedName{Namespace: s.routing.Namespace, Name: name}))
		if err != nil && !IsForbidden(err) {
			return fmt.Errorf("read Rollout %s: %w", name, err)
		}
		asks := err != nil // for all that is known
		if r != nil {
			spec, err := rollout.Parse(r)
			asks = err != nil || spec.TrafficRouting == s.routing.Name
		}
		if asks {
			s.users = append(s.users, name)
		} else {
			s.strays = append(s.strays, name)
		}
	}
	return nil
}

// listRouted lists the gateway objects that it names, and those that it named when they were routed.
func (c *Client) listRouted(s *RoutingSnapshot) {
	t := s.routing
	rel := traffic.Release{UID: string(t.UID), Namespace: t.Namespace, Name: t.Name, Kind: api.KindTrafficRouting, Epoch: t.Generation}
	spec, err := trafficrouting.Parse(t)
	if err != nil {
		s.problems = append(s.problems, rollout.Problem{Reason: rollout.HoldInvalidSpec,
			Message: fmt.Sprintf("The TrafficRouting is not valid: %s", err)})
	}
	var refs []rollout.Ref
	named := map[rollout.Ref]traffic.Release{}
	for _, service := range spec.Services {
		of := rel
		of.Service, of.CanaryService = service.Name, service.Name
		of.PatchLabels, of.PatchAnnotations = service.PatchLabels, service.PatchAnnotations
		of.Terms = traffic.Terms{Rules: service.Rules, Tag: service.Tag}
		for _, ref := range service.Objects {
			refs, named[ref] = append(refs, ref), of
		}
	}
	for _, ref := range refs {
		s.wanted = append(s.wanted, routed{&gateway{ref: ref, renderings: c.renderings}, named[ref]})
	}
	var left []rollout.Ref
	for _, o := range t.Status.Objects {
		ref := rollout.Ref{APIVersion: o.APIVersion, Kind: o.Kind, Name: o.Name}
		if still := slices.ContainsFunc(refs, func(r rollout.Ref) bool { r.Class = ""; return r == ref }); !still {
			left = append(left, ref)
		}
	}
	for _, ref := range left {
		s.left = append(s.left, routed{&gateway{ref: ref, renderings: c.renderings}, rel})
	}
}

// readRouted reads the gateway objects and finds their scripts.
func (c *Client) readRouted(ctx context.Context, s *RoutingSnapshot) error {
	inner := &Snapshot{rollout: &api.Rollout{ObjectMeta: metav1.ObjectMeta{Namespace: s.routing.Namespace}}}
	for _, r := range slices.Concat(s.wanted, s.left) {
		inner.gateways = append(inner.gateways, r.gateway)
	}
	for _, r := range s.wanted {
		inner.spec.Routing = append(inner.spec.Routing, rollout.Routing{Service: r.release.Service, Objects: []rollout.Ref{r.ref}})
	}
	o := &observation{client: c, snapshot: inner, namespace: s.routing.Namespace, source: fromServer, wanted: allParts()}
	group, bounded := errgroup.WithContext(ctx)
	o.reads = group
	for _, g := range inner.gateways {
		o.readGateway(bounded, g)
	}
	o.readScriptsOfUsers(bounded)
	if err := group.Wait(); err != nil {
		return err
	}
	o.findScripts()
	for _, list := range [][]routed{s.wanted, s.left} {
		slices.SortStableFunc(list, func(a, b routed) int { return backsFirst(a.gateway, b.gateway) })
	}
	if err := errors.Join(o.readBeside(ctx), o.readFeatures(ctx), o.readClasses(ctx), o.readReads(ctx)); err != nil {
		return err
	}
	s.problems = append(s.problems, inner.sortedProblems()...)
	return nil
}

// AddProblem shows a problem that came up while acting, until the next observation.
func (s *RoutingSnapshot) AddProblem(p rollout.Problem) {
	s.problems = append(s.problems, p)
	s.look()
}

func (s *RoutingSnapshot) look() {
	t := s.routing
	s.Seen = trafficrouting.Seen{
		Name: t.Name, Generation: t.Generation, Deleting: t.DeletionTimestamp != nil,
		Finalizer: slices.Contains(t.Finalizers, api.FinalizerTrafficRouting),
		Users:     s.users, StaleUsers: s.strays, Status: *t.Status.DeepCopy(), Problems: s.problems,
	}
	of := t.Spec.Strategy
	asked := traffic.Strategy{Matches: of.Matches, RequestHeaderModifier: of.RequestHeaderModifier}
	if of.Weight != nil {
		asked.Weight = new(rollout.Percent(*of.Weight))
	}
	strategy := map[int32]traffic.Strategy{trafficrouting.Step: asked}
	for _, r := range s.wanted {
		s.Seen.Routes = append(s.Seen.Routes, r.see(r.release, strategy))
	}
	for _, r := range s.left {
		s.Seen.FormerRoutes = append(s.Seen.FormerRoutes, r.see(r.asListed(), nil))
	}
}

// asListed is the release as the object itself lists it: of an object that is named no more nobody else knows the Service.
func (r routed) asListed() traffic.Release {
	if r.live != nil {
		for _, listed := range traffic.ReleasesOn(r.live) {
			if listed.UID == r.release.UID {
				return listed
			}
		}
	}
	return r.release
}

// CommitRouting writes the status, unless it is what the TrafficRouting already has.
func (c *Client) CommitRouting(ctx context.Context, s *RoutingSnapshot, status api.TrafficRoutingStatus) error {
	if apiequality.Semantic.DeepEqual(s.routing.Status, status) {
		return nil
	}
	began, next := time.Now(), s.routing.DeepCopy()
	next.Status, next.ManagedFields = status, nil
	updated, err := within(ctx, func(ctx context.Context) (*api.TrafficRouting, error) {
		t := &api.TrafficRouting{}
		return t, c.routings.Put().Namespace(next.Namespace).Resource(trafficRoutings).Name(next.Name).SubResource("status").
			Param("fieldManager", api.FieldManager).Body(next).Do(ctx).Into(t)
	})
	if err != nil {
		return onRouting("commit the status of", next, err)
	}
	s.routing, s.sure = updated, began
	s.look()
	return nil
}

// ApplyRouting carries out one action, as [Client.Apply] does for a Rollout.
func (c *Client) ApplyRouting(ctx context.Context, s *RoutingSnapshot, action rollout.Action) error {
	var err error
	switch a := action.(type) {
	case rollout.AddFinalizer:
		err = c.setFinalizers(ctx, s, func(f string) bool { return f == api.FinalizerTrafficRouting }, api.FinalizerTrafficRouting)
	case rollout.RemoveFinalizer: // and those of Rollouts, which ask for what is no more
		err = c.setFinalizers(ctx, s, func(f string) bool {
			return f == api.FinalizerTrafficRouting || strings.HasPrefix(f, api.FinalizerProgressingPrefix)
		})
	case rollout.ForgetRollouts:
		err = c.setFinalizers(ctx, s, func(f string) bool {
			name, is := strings.CutPrefix(f, api.FinalizerProgressingPrefix)
			return is && slices.Contains(a.Rollouts, name)
		})
	case rollout.ApplyRoute:
		err = c.applyInTime(ctx, s, a)
	case rollout.RestoreRoute:
		err = c.restoreRoute(ctx, s.gateway(a.Object), a)
	default:
		err = fmt.Errorf("%s: this version of Sluice does not know the action", action)
	}
	if err == nil {
		s.look()
	}
	return err
}

// applyInTime routes while what was seen is recent, or never: a process that was stopped in between would route for nobody, when
// another one has seen that none asks any more, and nothing to give back.
func (c *Client) applyInTime(ctx context.Context, s *RoutingSnapshot, a rollout.ApplyRoute) error {
	if err := mayMake(ctx, s.sure, a); err != nil {
		return err
	}
	ctx, cancel := soon(ctx, s.sure)
	defer cancel()
	return c.applyRoute(ctx, s.gateway(a.Object), a, s.sure)
}

func (s *RoutingSnapshot) gateway(ref rollout.Ref) *gateway {
	for _, r := range slices.Concat(s.wanted, s.left) {
		if r.ref == ref {
			return r.gateway
		}
	}
	return nil
}

// setFinalizers changes the finalizers, and forgets who no longer asks by one.
func (c *Client) setFinalizers(ctx context.Context, s *RoutingSnapshot, off func(string) bool, on ...string) error {
	updated, err := c.changeFinalizers(ctx, s.routing, off, on...)
	if err != nil {
		return onRouting("set the finalizers of", s.routing, err)
	}
	s.routing = updated
	gone := func(name string) bool { return !slices.Contains(updated.Finalizers, progressing(name)) }
	s.users, s.strays = slices.DeleteFunc(s.users, gone), slices.DeleteFunc(s.strays, gone)
	return nil
}

// onRouting describes an error of a call about the TrafficRouting itself.
func onRouting(what string, t *api.TrafficRouting, err error) error {
	if isNotFound(err) {
		err = fmt.Errorf("%w: %w", errGone, err)
	}
	return fmt.Errorf("%s TrafficRouting %s/%s: %w", what, t.Namespace, t.Name, err)
}
