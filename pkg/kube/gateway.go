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
	// confirmedLive is true if the object is from an answer of the API server, and not from a watch.
	confirmedLive bool
	// live is the object as it was read. It contains its original, also if that is stored apart; storedIn names where.
	live         *unstructured.Unstructured
	storedIn     string
	renderScript traffic.Script
	scriptHash   string            // hash of the script's text
	scriptStatus *api.ScriptStatus // the status entry of the script; nil without a script
	referenced   bool              // other objects route to what this object defines
	rolloutUID   string            // of the Rollout
	// childKinds are the kinds of objects that the script may create for this object. childResources has the resources
	// that the API server serves for these kinds and for policies. namespaceObjects are all objects of the childKinds
	// in the namespace. ingressScript is the script of an Ingress's class. orders describes the numbers that the
	// created objects need.
	childKinds       []script.GroupVersionKind
	childResources   map[apiclient.Kind]schema.GroupVersionResource
	namespaceObjects []*unstructured.Unstructured
	ingressScript    *script.Source
	capabilities     *script.Capabilities
	// keptMatches has the indexes of the matches that the object takes, by the number of the step, for the steps in which it leaves out some.
	keptMatches map[int32][]int
	orders      *script.Orders
	// carries are the Services whose policies a release copies for this object. policies are the policies and copies of
	// the namespace that are attached to these Services. policiesLive is true if the API server has listed them, and
	// not a watch.
	carries      []rollout.Routing
	policies     []*unstructured.Unstructured
	policiesLive bool
	// surroundings has the facts about other objects that the script gets. needsFeatures is true if the class of the
	// object's Gateway limits what the script can do. needsClass is true if the script is for certain Ingress
	// controllers. readKinds are the kinds of objects that the script reads when the gateway object names them.
	surroundings              traffic.ScriptContext
	needsFeatures, needsClass bool
	readKinds                 []script.Reads
	// backendKinds are kinds other than Service that the object may lead to. absentBackends are objects for canaries
	// that their owner must create before the object may lead to them.
	backendKinds   []script.GroupVersionKind
	absentBackends []traffic.MissingBackend
	// stickyEffect says how a step with a share affects sticky sessions.
	stickyEffect string
	// scriptInputs are the facts that the script asks for.
	scriptInputs []string
	// lag is how long the gateway may still route as before a write.
	lag time.Duration

	rendering
	// renderings is the cache of the client.
	renderings *lru.Cache
}

// rendering is the result of an observation of a gateway object, with a digest of its inputs. It is shared and never
// changes.
type rendering struct {
	inputsDigest string
	route        rollout.Route
	plan         *traffic.Plan
}

// maxRenderings is the size of the cache. Most observations of a Rollout find unchanged routes.
const maxRenderings = 1024

// observeRoute returns the state of the object for a release.
func (g *gateway) observeRoute(rel traffic.Release, steps map[int32]traffic.Strategy) rollout.Route {
	route := g.renderRoute(rel, steps)
	route.Referenced, route.Lag = g.referenced, g.lag
	return route
}

// renderRoute compares the object with the content that each step needs.
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

// digestInputs returns a digest of all inputs of a rendering.
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
			if api.Unserved(err) { // the CustomResourceDefinition was deleted in the meantime
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

// applyRoute writes the rendering of a step that the planner chose. It refuses a rendering that is no longer current.
func (c *Client) applyRoute(ctx context.Context, g *gateway, a rollout.ApplyRoute, sure time.Time) error {
	if g == nil || g.plan == nil || g.route.Steps[a.Step].Digest != a.Digest || a.Digest == "" {
		return apiclient.StaleAction(a)
	}
	desired, beside, err := g.plan.DesiredObject(a.Step)
	if err != nil {
		return refusedRoute(a, a.Object, err)
	}
	if g.plan.ReferencesChildren(a.Step) {
		// Another executor that ends the release cannot see that the object is about to name its children.
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

// prepareRoute creates the objects that the gateway object will name in a step.
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

// writeRoute updates the object. The object gets the digest of the content that the API server keeps of it. So a later
// edit by a user can be told from defaulting by the server. Validation is strict for a step. Without it the API server
// would drop an unknown field of a match, as with an older definition of the kind, and all requests would reach the
// canary. A restored object must always be accepted, so validation is off for it.
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
	desired.SetManagedFields(nil) // this copy may not have all entries, and the API server has them
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

// predictedDigest returns the digest of the content that the API server keeps of an object after defaulting and
// pruning. It uses the known shapes, or asks by a dry run.
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

// restampRoute corrects the digest on an object when the API server kept other content than predicted. After a crash
// before that, the difference counts as an edit by a user, and stays in the user's version.
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
