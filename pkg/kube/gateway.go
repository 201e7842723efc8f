package kube

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/utils/lru"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/kube/apiclient"
	"sluice.dev/sluice/pkg/rollout"
	"sluice.dev/sluice/pkg/script"
	"sluice.dev/sluice/pkg/traffic"
)

// gateway is one gateway object of a Rollout.
type gateway struct {
	ref      rollout.Ref
	access   apiclient.Access
	resource schema.GroupVersionResource
	client   dynamic.ResourceInterface // nil when the kind is not served
	// confirmedLive: the object is as the API server answered it, and not as a watch has shown it.
	confirmedLive bool
	// live is the object as it was seen, with its original in it even if that is stored apart; storedIn names where.
	live         *unstructured.Unstructured
	storedIn     string
	renderScript traffic.Script
	scriptHash   string            // hash of the script's text
	scriptStatus *api.ScriptStatus // the status of the script; nil without one
	referenced   bool              // the object defines what others route to
	rolloutUID   string            // of the Rollout
	// childKinds are the kinds of objects that the script may create for this one. childResources are the resources of these kinds and of copied
	// policies, and namespaceObjects all objects of them in the namespace. ingressScript is the script of an Ingress's class, orders the numbers that
	// created objects need.
	childKinds       []script.GroupVersionKind
	childResources   map[apiclient.Kind]schema.GroupVersionResource
	namespaceObjects []*unstructured.Unstructured
	ingressScript    *script.Source
	orders           *script.Orders
	// carries are the Services whose policies a release copies for this object. policies are the policies and copies of the namespace that are attached to these
	// Services. policiesLive: the API server has listed them, and not a watch.
	carries      []rollout.Routing
	policies     []*unstructured.Unstructured
	policiesLive bool
	// surroundings is what the executor tells the script of other objects. needsFeatures: the class of the object's Gateway limits what the script can do. needsClass: the
	// script is for certain Ingress controllers. reads are the kinds of objects that the script reads when the gateway object names them.
	surroundings              traffic.ScriptContext
	needsFeatures, needsClass bool
	readKinds                 []script.Reads
	// backendKinds are kinds other than Service that the object may route to; absentBackends are missing ones of canaries, which a user has to create.
	backendKinds   []script.GroupVersionKind
	absentBackends []traffic.MissingBackend
	// stickyEffect tells what a step with a share does to sticky sessions.
	stickyEffect string
	// scriptInputs are what its script wants to be told.
	scriptInputs []string
	// lag is how long its gateway may still route as before.
	lag time.Duration

	rendering
	// renderings are the client's.
	renderings *lru.Cache
}

// rendering is what a look at a gateway object gives, and what it was made of. It is shared, and never changed.
type rendering struct {
	inputsDigest string
	route        rollout.Route
	plan         *traffic.Plan
}

// maxRenderings is how many are kept: most looks at a Rollout find its routes as they were.
const maxRenderings = 1024

// observeRoute is what a release sees of the object.
func (g *gateway) observeRoute(rel traffic.Release, steps map[int32]traffic.Strategy) rollout.Route {
	route := g.renderRoute(rel, steps)
	route.Referenced, route.Lag = g.referenced, g.lag
	return route
}

// renderRoute compares the object with what the steps want of it.
func (g *gateway) renderRoute(rel traffic.Release, steps map[int32]traffic.Strategy) rollout.Route {
	g.rolloutUID = rel.UID
	madeOf := g.digestInputs(rel, steps)
	if g.inputsDigest == madeOf {
		return g.route
	}
	if known, ok := g.renderings.Get(madeOf); ok {
		if g.rendering, ok = known.(rendering); ok {
			return g.route
		}
	}
	g.inputsDigest = madeOf
	run := g.renderScript
	if g.ingressScript != nil {
		run = traffic.IngressScript(context.Background(), *g.ingressScript, g.namespaceObjects)
	}
	g.route, g.plan = traffic.ObserveRoute(g.ref, g.live, rel, steps, traffic.RefuseMissingBackends(g.absentBackends, g.surroundings.AddTo(run)), slices.Concat(g.namespaceObjects, g.policies)...)
	if !g.route.ScriptTimedOut() {
		g.renderings.Add(madeOf, g.rendering)
	}
	return g.route
}

// digestInputs tell apart all that a rendering is made of.
func (g *gateway) digestInputs(rel traffic.Release, steps map[int32]traffic.Strategy) string {
	made := []any{g.ref, rel, steps, g.scriptHash, g.surroundings, g.absentBackends, fingerprintsOf(g.namespaceObjects), fingerprintsOf(g.policies)}
	if g.live != nil {
		made = append(made, g.live.GetUID(), g.live.GetResourceVersion(), g.live.GetAnnotations()[api.AnnotationOriginalSpec])
	}
	body, err := json.Marshal(made)
	if err != nil {
		body = fmt.Append(nil, made...)
	}
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:])
}

func (o *observation) readGateway(ctx context.Context, g *gateway) {
	o.reads.Go(func() error {
		of := apiclient.Kind{APIVersion: g.ref.APIVersion, Name: g.ref.Kind}
		found, err := o.resolveKind(ctx, of)
		switch {
		case apiclient.IsUnservedKind(err):
			g.confirmedLive = true
			o.addProblem(routeUnserved(g.ref))
			return nil
		case err != nil:
			return err
		}
		g.resource, g.access = found.GroupVersionResource, apiclient.Access{Verb: "get", Group: found.Group, Resource: found.Resource, Name: g.ref.Name, Route: g.ref}
		if found.Namespaced {
			g.access.Namespace = o.namespace
		}
		g.client = o.client.objects.Resource(found.GroupVersionResource).Namespace(g.access.Namespace)
		o.startRead(ctx, g.access, func(bounded context.Context) error {
			live, err := o.fetchGateway(bounded, g)
			if api.Unserved(err) { // its CustomResourceDefinition was deleted meanwhile
				o.client.kinds.InvalidateKind(of)
				o.addProblem(routeUnserved(g.ref))
				return nil
			}
			if err != nil {
				return o.reportUnreadable(g.resource, g.access, true, err)
			}
			if problem := o.namespaceProblem(g, live); problem != nil {
				o.addProblem(*problem)
			}
			o.storeGateway(ctx, g, live)
			return nil
		})
		return nil
	})
}

// resolveKind finds the resource of a kind.
func (o *observation) resolveKind(ctx context.Context, of apiclient.Kind) (apiclient.Resource, error) {
	if o.source == fromMemory && !o.client.kinds.IsCached(of) {
		return apiclient.Resource{}, errNotCached
	}
	return apiclient.WithDeadline(ctx, func(ctx context.Context) (apiclient.Resource, error) { return o.client.kinds.ResourceFor(ctx, of) })
}

func (o *observation) fetchGateway(ctx context.Context, g *gateway) (*unstructured.Unstructured, error) {
	g.confirmedLive = false
	return fetchObject(ctx, o, objectQuery[*unstructured.Unstructured]{
		overlay: o.client.informers.forGateway(g.resource), name: types.NamespacedName{Namespace: g.access.Namespace, Name: g.ref.Name}, expected: true, onAnswer: func() { g.confirmedLive = true },
		call: func(ctx context.Context) (*unstructured.Unstructured, error) {
			live, err := g.client.Get(ctx, g.ref.Name, metav1.GetOptions{})
			return live, o.client.serverErrors.recordResult(g.resource, err, time.Now())
		},
	})
}

func routeUnserved(ref rollout.Ref) rollout.Problem {
	return rollout.Problem{Reason: rollout.ReasonRouteMissing, Message: fmt.Sprintf(
		"This cluster does not serve %s of %s: install the CustomResourceDefinition of that kind (kubectl get crd shows those that are there), or correct customNetworkRefs",
		ref, ref.APIVersion)}
}

func gatewayOf(gateways []*gateway, ref rollout.Ref) *gateway {
	for _, g := range gateways {
		if g.ref == ref {
			return g
		}
	}
	return nil
}

// applyRoute writes the rendering that was chosen; one that is no longer what would be rendered is refused.
func (c *Client) applyRoute(ctx context.Context, g *gateway, a rollout.ApplyRoute, sure time.Time) error {
	if g == nil || g.plan == nil || g.route.Steps[a.Step].Digest != a.Digest || a.Digest == "" {
		return apiclient.StaleAction(a)
	}
	desired, beside, err := g.plan.DesiredObject(a.Step)
	if err != nil {
		return refusedRoute(a, a.Object, err)
	}
	if g.plan.ReferencesChildren(a.Step) {
		// A run that ends the release does not see that the object is about to reference the objects that go.
		if g.route.Steps[a.Step].ChildrenMissing {
			return apiclient.StaleAction(a)
		}
		if err := checkFence(ctx, sure, a); err != nil {
			return err
		}
		var cancel context.CancelFunc
		ctx, cancel = withFenceDeadline(ctx, sure)
		defer cancel()
	}
	if err := c.deleteChildren(ctx, g, a, beside.DeleteFirst); err != nil {
		return err
	}
	if err := c.applyChildren(ctx, g, a, sure, beside.Apply); err != nil {
		return err
	}
	if desired != nil {
		if err := c.writeRoute(ctx, g, a, desired); err != nil {
			return err
		}
	}
	return c.deleteChildren(ctx, g, a, beside.DeleteLast)
}

// prepareRoute makes what the object will name in a step.
func (c *Client) prepareRoute(ctx context.Context, g *gateway, a rollout.PrepareRoute, sure time.Time) error {
	if g == nil || g.plan == nil || g.route.Steps[a.Step].Digest != a.Digest || a.Digest == "" {
		return apiclient.StaleAction(a)
	}
	all, err := g.plan.ChildrenToPrepare(a.Step)
	if err != nil {
		return refusedRoute(a, a.Object, err)
	}
	return c.applyChildren(ctx, g, a, sure, all)
}

func (c *Client) clearRoute(ctx context.Context, g *gateway, a rollout.ClearRoute) error {
	if g == nil || g.plan == nil || g.route.Shaped {
		return apiclient.StaleAction(a)
	}
	return c.deleteChildren(ctx, g, a, g.plan.ReferencedChildren())
}

func (c *Client) restoreRoute(ctx context.Context, g *gateway, a rollout.RestoreRoute) error {
	if g == nil || g.plan == nil {
		return apiclient.StaleAction(a)
	}
	restored, err := g.plan.RestoredObject()
	if err != nil {
		return refusedRoute(a, a.Object, err)
	}
	made := g.plan.UnreferencedChildren()
	if restored != nil {
		if err := c.writeRestored(ctx, g, a, restored); err != nil {
			return err
		}
	}
	return c.deleteChildren(ctx, g, a, made)
}

func (c *Client) writeRestored(ctx context.Context, g *gateway, a rollout.RestoreRoute, restored *unstructured.Unstructured) error {
	if _, releases := restored.GetAnnotations()[api.AnnotationReleases]; g.storedIn == "" || releases {
		return c.writeRoute(ctx, g, a, restored)
	}
	return c.restoreStored(ctx, g, a, restored)
}

// writeRoute updates the object. It also writes the digest of the stored content, so that a later run can tell an edit of another client from the
// API server's own changes. Validation is strict for a step: from a match that an older definition of the kind does not know, the API server would
// drop everything, and all requests would reach the canary. The API server must always accept a restored object.
func (c *Client) writeRoute(ctx context.Context, g *gateway, a rollout.Action, desired *unstructured.Unstructured) error {
	validation := metav1.FieldValidationIgnore
	if _, step := a.(rollout.ApplyRoute); step {
		validation = metav1.FieldValidationStrict
	}
	desired, stored := traffic.CompactOriginal(desired, g.storedIn != "")
	if stored != nil {
		if err := c.storeOriginal(ctx, g, a, stored); err != nil {
			return err
		}
	}
	desired.SetManagedFields(nil) // it may not have all of them, and the API server knows them
	_, releases := desired.GetAnnotations()[api.AnnotationReleases]
	stamped := desired
	if releases {
		kept, err := c.predictedDigest(ctx, g, desired, validation)
		if err != nil {
			return apiclient.ActionError(a, g.updateAccess(), err)
		}
		stamped = traffic.StampRendered(desired, kept)
	}
	live, err := c.updateRoute(ctx, g, stamped, metav1.UpdateOptions{FieldValidation: validation})
	if err == nil && releases && traffic.LastAppliedDigest(live) != traffic.ContentDigest(live) {
		live, err = c.restampRoute(ctx, g, live, desired)
	}
	if err != nil {
		return apiclient.ActionError(a, g.updateAccess(), err)
	}
	g.live, g.storedIn, g.confirmedLive = live, traffic.StoredIn(live), true
	if stored != nil {
		g.live = traffic.ExpandOriginal(live, stored.Data)
	}
	return nil
}

func (g *gateway) updateAccess() apiclient.Access {
	on := g.access
	on.Verb = "update"
	return on
}

func (c *Client) updateRoute(ctx context.Context, g *gateway, next *unstructured.Unstructured, options metav1.UpdateOptions) (*unstructured.Unstructured, error) {
	options.FieldManager = api.FieldManager
	live, err := apiclient.WithDeadline(ctx, func(ctx context.Context) (*unstructured.Unstructured, error) {
		return g.client.Update(ctx, next, options)
	})
	if err == nil && len(options.DryRun) == 0 {
		c.informers.forGateway(g.resource).StoreAnswer(live)
	}
	return live, err
}

// predictedDigest is the digest of what the API server will keep of an object by defaulting and pruning: as is known, or as a dry run tells.
func (c *Client) predictedDigest(ctx context.Context, g *gateway, desired *unstructured.Unstructured, validation string) (string, error) {
	digest := traffic.ContentDigest(desired)
	c.shapes.learnSpec(g.resource, g.live)
	if c.shapes.keepsSpec(g.resource, desired) {
		return digest, nil
	}
	tried, err := c.updateRoute(ctx, g, desired, metav1.UpdateOptions{FieldValidation: validation, DryRun: []string{metav1.DryRunAll}})
	if err != nil {
		return "", err
	}
	kept := traffic.ContentDigest(tried)
	if kept == digest {
		c.shapes.learnSpec(g.resource, desired)
	}
	return kept, nil
}

// restampRoute corrects the record on an object if the API server stored another content than expected. After a crash before that, the difference
// counts as an edit of another client: it becomes part of that client's version.
func (c *Client) restampRoute(ctx context.Context, g *gateway, live, desired *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	c.shapes.markUnreliable(g.resource)
	next := live.DeepCopy()
	next.SetManagedFields(nil)
	annotations := next.GetAnnotations()
	annotations[api.AnnotationRendered] = traffic.StampRendered(desired, traffic.ContentDigest(live)).GetAnnotations()[api.AnnotationRendered]
	next.SetAnnotations(annotations)
	return c.updateRoute(ctx, g, next, metav1.UpdateOptions{})
}

func refusedRoute(a rollout.Action, route rollout.Ref, err error) error {
	return &apiclient.ProblemError{Cause: fmt.Errorf("%s: %w", a, err),
		Problem: rollout.Problem{Reason: rollout.ReasonRouteUnsupported, Route: route, Message: asSentence(err)}}
}
