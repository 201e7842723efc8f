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
	"sluice.dev/sluice/pkg/kube/apiclient"
	"sluice.dev/sluice/pkg/rollout"
	"sluice.dev/sluice/pkg/traffic"
	"sluice.dev/sluice/pkg/trafficrouting"
)

// RoutingSnapshot is the observed state for one TrafficRouting. All of it is live, because there are few
// TrafficRoutings. Writes put the answers of the API server into it. It is not safe for concurrent use.
type RoutingSnapshot struct {
	// Seen is the view for the core, always up to date with the objects below.
	Seen trafficrouting.Seen

	routing                    *api.TrafficRouting
	observedAt                 time.Time // when the observation, or the latest successful commit, began
	users, staleUsers          []string
	wantedRoutes, formerRoutes []routedObject
	problems                   []rollout.Problem
}

// routedObject is a gateway object with the release of the TrafficRouting on it. If the TrafficRouting no longer names
// the object, only the kind and the names of the release are known.
type routedObject struct {
	*gateway
	release traffic.Release
}

// ObserveRouting reads everything that the next step of a TrafficRouting depends on. Problems that a person must solve
// are in the snapshot. [apiclient.IsGone] recognizes the error for a deleted TrafficRouting; every other error passes
// by itself, and the caller retries.
func (c *Client) ObserveRouting(ctx context.Context, key types.NamespacedName) (*RoutingSnapshot, error) {
	began := time.Now()
	t, err := nilIfNotFound(c.getTrafficRouting(ctx, key))
	if err == nil && t == nil {
		err = apiclient.ErrGone
	}
	if err != nil {
		return nil, fmt.Errorf("read TrafficRouting %s: %w", key, err)
	}
	s := &RoutingSnapshot{routing: t, observedAt: began}
	if err := c.readUsers(ctx, s); err != nil {
		return nil, fmt.Errorf("observe TrafficRouting %s: %w", key, err)
	}
	c.listRoutedObjects(s)
	if err := c.readRoutedObjects(ctx, s); err != nil {
		return nil, fmt.Errorf("observe TrafficRouting %s: %w", key, err)
	}
	s.updateView()
	return s, nil
}

// readUsers finds the Rollouts that ask for the TrafficRouting. It also finds those that cannot remove their finalizer,
// because they are deleted or name another TrafficRouting now.
func (c *Client) readUsers(ctx context.Context, s *RoutingSnapshot) error {
	for _, name := range trafficrouting.RequestingRollouts(s.routing.Finalizers) {
		r, err := nilIfNotFound(c.getRollout(ctx, types.NamespacedName{Namespace: s.routing.Namespace, Name: name}))
		if err != nil && !apiclient.IsForbidden(err) {
			return fmt.Errorf("read Rollout %s: %w", name, err)
		}
		asks := err != nil // the Rollout may exist and ask
		if r != nil {
			spec, err := rollout.Parse(r)
			asks = err != nil || spec.TrafficRouting == s.routing.Name
		}
		if asks {
			s.users = append(s.users, name)
		} else {
			s.staleUsers = append(s.staleUsers, name)
		}
	}
	return nil
}

// listRoutedObjects lists the gateway objects that the TrafficRouting names, and those that it named when it routed
// them.
func (c *Client) listRoutedObjects(s *RoutingSnapshot) {
	t := s.routing
	rel := traffic.Release{UID: string(t.UID), Namespace: t.Namespace, Name: t.Name, Kind: api.KindTrafficRouting, Epoch: t.Generation}
	spec, err := trafficrouting.Parse(t)
	if err != nil {
		s.problems = append(s.problems, rollout.Problem{Reason: rollout.ReasonInvalidSpec,
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
		s.wantedRoutes = append(s.wantedRoutes, routedObject{&gateway{ref: ref, renderings: c.renderings}, named[ref]})
	}
	var left []rollout.Ref
	for _, o := range t.Status.Objects {
		ref := rollout.Ref{APIVersion: o.APIVersion, Kind: o.Kind, Name: o.Name}
		if still := slices.ContainsFunc(refs, func(r rollout.Ref) bool { r.Class = ""; return r == ref }); !still {
			left = append(left, ref)
		}
	}
	for _, ref := range left {
		s.formerRoutes = append(s.formerRoutes, routedObject{&gateway{ref: ref, renderings: c.renderings}, rel})
	}
}

// readRoutedObjects reads the gateway objects and finds their scripts.
func (c *Client) readRoutedObjects(ctx context.Context, s *RoutingSnapshot) error {
	inner := &Snapshot{rollout: &api.Rollout{ObjectMeta: metav1.ObjectMeta{Namespace: s.routing.Namespace}}}
	for _, r := range slices.Concat(s.wantedRoutes, s.formerRoutes) {
		inner.gateways = append(inner.gateways, r.gateway)
	}
	for _, r := range s.wantedRoutes {
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
	for _, list := range [][]routedObject{s.wantedRoutes, s.formerRoutes} {
		slices.SortStableFunc(list, func(a, b routedObject) int { return referencedFirst(a.gateway, b.gateway) })
	}
	if err := errors.Join(o.readChildren(ctx), o.readFeatures(ctx), o.readClasses(ctx), o.readNamedObjects(ctx)); err != nil {
		return err
	}
	s.problems = append(s.problems, inner.sortedProblems()...)
	return nil
}

// AddProblem shows a problem of an action, until the next observation.
func (s *RoutingSnapshot) AddProblem(p rollout.Problem) {
	s.problems = append(s.problems, p)
	s.updateView()
}

func (s *RoutingSnapshot) updateView() {
	t := s.routing
	s.Seen = trafficrouting.Seen{
		Name: t.Name, Generation: t.Generation, Deleting: t.DeletionTimestamp != nil,
		Finalizer: slices.Contains(t.Finalizers, api.FinalizerTrafficRouting),
		Users:     s.users, StaleUsers: s.staleUsers, Status: *t.Status.DeepCopy(), Problems: s.problems,
	}
	of := t.Spec.Strategy
	asked := traffic.Strategy{Matches: of.Matches, RequestHeaderModifier: of.RequestHeaderModifier}
	if of.Weight != nil {
		asked.Weight = new(rollout.Percent(*of.Weight))
	}
	strategy := map[int32]traffic.Strategy{trafficrouting.Step: asked}
	for _, r := range s.wantedRoutes {
		s.Seen.Routes = append(s.Seen.Routes, r.observeRoute(r.release, strategy))
	}
	for _, r := range s.formerRoutes {
		s.Seen.FormerRoutes = append(s.Seen.FormerRoutes, r.observeRoute(r.listedRelease(), nil))
	}
}

// listedRelease returns the release as the object lists it. Only the object still knows the Service if the
// TrafficRouting no longer names the object.
func (r routedObject) listedRelease() traffic.Release {
	if r.live != nil {
		for _, listed := range traffic.ReleasesOn(r.live) {
			if listed.UID == r.release.UID {
				return listed
			}
		}
	}
	return r.release
}

// CommitRouting writes the status, unless the TrafficRouting already has it.
func (c *Client) CommitRouting(ctx context.Context, s *RoutingSnapshot, status api.TrafficRoutingStatus) error {
	if apiequality.Semantic.DeepEqual(s.routing.Status, status) {
		return nil
	}
	began, next := time.Now(), s.routing.DeepCopy()
	next.Status, next.ManagedFields = status, nil
	updated, err := apiclient.WithDeadline(ctx, func(ctx context.Context) (*api.TrafficRouting, error) {
		t := &api.TrafficRouting{}
		return t, c.trafficRoutings.Put().Namespace(next.Namespace).Resource(trafficRoutings).Name(next.Name).SubResource("status").
			Param("fieldManager", api.FieldManager).Body(next).Do(ctx).Into(t)
	})
	if err != nil {
		return routingError("commit the status of", next, err)
	}
	s.routing, s.observedAt = updated, began
	s.updateView()
	return nil
}

// ApplyRouting carries out one action, as [Client.ApplyAction] does for a Rollout.
func (c *Client) ApplyRouting(ctx context.Context, s *RoutingSnapshot, action rollout.Action) error {
	var err error
	switch a := action.(type) {
	case rollout.AddFinalizer:
		err = c.setFinalizers(ctx, s, func(f string) bool { return f == api.FinalizerTrafficRouting }, api.FinalizerTrafficRouting)
	case rollout.RemoveFinalizer: // and the finalizers of Rollouts, whose TrafficRouting ceases to exist
		err = c.setFinalizers(ctx, s, func(f string) bool {
			return f == api.FinalizerTrafficRouting || strings.HasPrefix(f, api.FinalizerProgressingPrefix)
		})
	case rollout.ForgetRollouts:
		err = c.setFinalizers(ctx, s, func(f string) bool {
			name, is := strings.CutPrefix(f, api.FinalizerProgressingPrefix)
			return is && slices.Contains(a.Rollouts, name)
		})
	case rollout.ApplyRoute:
		err = c.applyWithinFence(ctx, s, a)
	case rollout.RestoreRoute:
		err = c.restoreRoute(ctx, s.gatewayFor(a.Object), a)
	default:
		err = fmt.Errorf("%s: this version of Sluice does not know the action", action)
	}
	if err == nil {
		s.updateView()
	}
	return err
}

// applyWithinFence routes only while the observation is recent. Another executor may have seen since that no
// Rollout asks any more and that nothing must be restored. A process that was stopped in between would then route for
// no Rollout.
func (c *Client) applyWithinFence(ctx context.Context, s *RoutingSnapshot, a rollout.ApplyRoute) error {
	if err := checkFence(ctx, s.observedAt, a); err != nil {
		return err
	}
	ctx, cancel := withFenceDeadline(ctx, s.observedAt)
	defer cancel()
	return c.applyRoute(ctx, s.gatewayFor(a.Object), a, s.observedAt)
}

func (s *RoutingSnapshot) gatewayFor(ref rollout.Ref) *gateway {
	for _, r := range slices.Concat(s.wantedRoutes, s.formerRoutes) {
		if r.ref == ref {
			return r.gateway
		}
	}
	return nil
}

// setFinalizers changes the finalizers, and drops the Rollouts that no longer have one from the snapshot.
func (c *Client) setFinalizers(ctx context.Context, s *RoutingSnapshot, off func(string) bool, on ...string) error {
	updated, err := c.changeFinalizers(ctx, s.routing, off, on...)
	if err != nil {
		return routingError("set the finalizers of", s.routing, err)
	}
	s.routing = updated
	gone := func(name string) bool { return !slices.Contains(updated.Finalizers, progressingFinalizer(name)) }
	s.users, s.staleUsers = slices.DeleteFunc(s.users, gone), slices.DeleteFunc(s.staleUsers, gone)
	return nil
}

// routingError describes an error of a call about the TrafficRouting itself.
func routingError(what string, t *api.TrafficRouting, err error) error {
	if apiclient.IsNotFound(err) {
		err = fmt.Errorf("%w: %w", apiclient.ErrGone, err)
	}
	return fmt.Errorf("%s TrafficRouting %s/%s: %w", what, t.Namespace, t.Name, err)
}
