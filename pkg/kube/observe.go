package kube

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/kube/apiclient"
	"sluice.dev/sluice/pkg/kube/cache"
	"sluice.dev/sluice/pkg/kube/policies"
	"sluice.dev/sluice/pkg/rollout"
	"sluice.dev/sluice/pkg/script"
)

// Observe reads everything that the next step of a Rollout depends on. It uses the watches of [Client.Start] as far as
// possible. They may be late, so [Client.ConfirmDecision] comes before any action. A problem that a person must solve
// is in the snapshot. [apiclient.IsGone] recognizes the error for a deleted Rollout; every other error passes by
// itself, and the caller retries.
func (c *Client) Observe(ctx context.Context, key types.NamespacedName) (*Snapshot, error) {
	c.changes.putVersions(key, nil)
	if c.liveReads.isDue(key, c.isReleasing(key), time.Now()) {
		return c.observeFrom(ctx, key, fromServer)
	}
	return c.observeFrom(ctx, key, fromWatch)
}

// ObserveLive is Observe with every read from the API server. It is for answers that must be up to date.
func (c *Client) ObserveLive(ctx context.Context, key types.NamespacedName) (*Snapshot, error) {
	return c.observeFrom(ctx, key, fromServer)
}

// ObserveLiveInto replaces a snapshot with the result of [Client.ObserveLive].
func (c *Client) ObserveLiveInto(ctx context.Context, s *Snapshot) error {
	again, err := c.ObserveLive(ctx, s.rolloutKey())
	if err != nil {
		return err
	}
	*s = *again
	return nil
}

// ObserveCached observes a Rollout without a call to the API server; ok is false if that is not possible. It does not
// observe the labels of pods.
func (c *Client) ObserveCached(key types.NamespacedName) (s *Snapshot, ok bool) {
	s, err := c.observeFrom(context.Background(), key, fromMemory) // no read in it waits
	return s, err == nil
}

func (c *Client) observeFrom(ctx context.Context, key types.NamespacedName, from readSource) (*Snapshot, error) {
	s := &Snapshot{observedAt: time.Now()}
	if from != fromMemory {
		s.podLabelCache = &c.podLabels
	}
	o := &observation{client: c, snapshot: s, namespace: key.Namespace, source: from, wanted: allParts()}
	if err := o.readRollout(ctx, key); err != nil {
		return nil, apiclient.RolloutError("read", &api.Rollout{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}, err)
	}
	if governor := s.rollout.Spec.Fleet; governor != nil {
		s.order, s.orderedBy = c.opts.Order(s.rollout), *governor
	}
	var err error
	if s.spec, err = rollout.Parse(s.rollout); err != nil {
		s.AddProblem(rollout.Problem{Reason: rollout.ReasonInvalidSpec, Unknown: true, Message: fmt.Sprintf("The Rollout is not valid: %s", err)})
		return s, nil
	}
	if err := o.readAll(ctx); err != nil {
		return nil, fmt.Errorf("observe Rollout %s: %w", key, err)
	}
	s.updateView()
	return s, nil
}

// observation is one observation of a Rollout. Its reads run in parallel, and each writes its own field of the
// snapshot.
type observation struct {
	client    *Client
	snapshot  *Snapshot
	namespace string
	source    readSource
	wanted    partSet
	reads     *errgroup.Group
	scripts   script.ConfigMap

	// dependentsRead counts the reads of the revisions and pods of a workload that is not a Deployment.
	dependentsRead atomic.Int32

	mu sync.Mutex // guards snapshot.problems and the live parts
}

func (o *observation) readAll(ctx context.Context) error {
	if err := o.readParts(ctx); err != nil {
		return err
	}
	o.findScripts()
	if err := o.readChildren(ctx); err != nil {
		return err
	}
	if err := errors.Join(o.readPolicies(ctx), o.readFeatures(ctx), o.readClasses(ctx), o.readBackends(ctx), o.readNamedObjects(ctx), o.readNeeds(ctx), o.readUncovered(ctx)); err != nil {
		return err
	}
	o.checkCopies()
	return nil
}

// readParts reads the wanted parts. It reads objects with known names first, then their dependents, then the dependents
// of ReplicaSets.
func (o *observation) readParts(ctx context.Context) error {
	for _, some := range []func(context.Context){o.readByName, o.readDependents, o.readNewPods} {
		group, bounded := errgroup.WithContext(ctx)
		o.reads = group
		some(bounded)
		if err := group.Wait(); err != nil {
			return err
		}
	}
	return nil
}

func (o *observation) readByName(ctx context.Context) {
	switch {
	case !o.wanted[partWorkload]:
	case o.snapshot.spec.Workload.IsDeployment():
		o.readDeployment(ctx, partWorkload, o.snapshot.spec.Workload.Name, &o.snapshot.deployment)
	default:
		o.readWorkloadObject(ctx)
	}
	if o.wanted == allParts() {
		o.reads.Go(func() error {
			if p := o.policyProblem(ctx); p != nil {
				o.addProblem(*p)
			}
			return nil
		})
	}
	if o.wanted[partCanary] {
		o.readDeployment(ctx, partCanary, o.snapshot.spec.Workload.Name+api.SuffixCanary, &o.snapshot.canary)
	}
	o.readRouting(ctx)
	if o.wanted == allParts() {
		o.readTrafficRouting(ctx)
		o.checkAnalysis(ctx)
	}
}

func (o *observation) policyProblem(ctx context.Context) *rollout.Problem {
	of := o.client.installCheckers[policies.FamilyOf(o.snapshot.spec.Workload)]
	if o.source == fromMemory {
		return of.CachedProblem()
	}
	return of.FindProblem(ctx)
}

// readDependents reads the ReplicaSets or the revisions, the pods, and the other Rollout that claims the workload.
func (o *observation) readDependents(ctx context.Context) {
	s := o.snapshot
	if o.wanted[partReplicaSets] {
		if s.spec.Workload.IsDeployment() {
			o.readReplicaSets(ctx)
		} else if s.object.isPresent() {
			o.readObjectDependents(ctx)
		}
	}
	if o.wanted == allParts() || s.scaledByOthers() {
		o.readAutoscalers(ctx)
	}
	of := s.workloadMeta()
	if o.wanted[partStableEndpoints] {
		o.readStableEndpoints(ctx, of)
	}
	if !o.wanted[partWorkload] {
		return
	}
	o.readRival(ctx, of)
}

// readNewPods reads the pods of the new version, whose ReplicaSet has been read.
func (o *observation) readNewPods(ctx context.Context) {
	if o.wanted[partReplicaSets] && o.snapshot.object.isPresent() {
		o.storeDependents()
	}
	if o.wanted == allParts() && o.readsPods() {
		o.readPods(ctx)
	}
}

// readsPods reports whether the labels of pods matter now.
func (o *observation) readsPods() bool {
	return o.source != fromMemory && o.snapshot.releaseState().InStep()
}

// sameObject reports whether two references name one object, regardless of the version.
func sameObject(a, b rollout.Ref) bool {
	return a.Group() == b.Group() && a.Kind == b.Kind && a.Name == b.Name
}

// startRead starts one read in parallel with the others. A missing permission becomes a problem; every other failure is
// an error.
func (o *observation) startRead(ctx context.Context, on apiclient.Access, call func(context.Context) error) {
	o.reads.Go(func() error {
		ctx, cancel := context.WithTimeout(ctx, apiclient.CallDeadline)
		defer cancel()
		err := call(ctx)
		if apiclient.IsForbidden(err) {
			o.addProblem(apiclient.ForbiddenProblem(on, err))
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s %s %s: %w", on.Verb, on.Resource, on.Name, err)
		}
		return nil
	})
}

func (o *observation) addProblem(p rollout.Problem) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !slices.Contains(o.snapshot.problems, p) {
		o.snapshot.problems = append(o.snapshot.problems, p)
	}
}

func (o *observation) accessTo(verb, group, resource, name string) apiclient.Access {
	return apiclient.Access{Verb: verb, Group: group, Resource: resource, Namespace: o.namespace, Name: name}
}

func (o *observation) readRollout(ctx context.Context, key types.NamespacedName) error {
	r, err := fetchObject(ctx, o, objectQuery[*api.Rollout]{
		overlay: o.client.informers.rollouts, name: key, expected: true, onAnswer: o.markLive(partRollout), call: func(ctx context.Context) (*api.Rollout, error) {
			return o.client.getRollout(ctx, key)
		}})
	if err == nil && r == nil {
		return apiclient.ErrGone
	}
	if err == nil && o.client.opts.IgnoreFleets {
		r = r.DeepCopy()
		r.Spec.Fleet, r.Status.Fleet = nil, nil
	}
	o.snapshot.rollout = r
	return err
}

func (o *observation) readDeployment(ctx context.Context, p part, name string, into **appsv1.Deployment) {
	c := o.client
	o.startRead(ctx, o.accessTo("get", "apps", "deployments", name), func(ctx context.Context) (err error) {
		*into, err = fetchObject(ctx, o, objectQuery[*appsv1.Deployment]{
			overlay: c.informers.deployments, name: o.keyOf(name), expected: p == partWorkload, confirmAbsence: p == partWorkload, isComplete: cache.MarkedDeployment, onAnswer: o.markLive(p), call: func(ctx context.Context) (*appsv1.Deployment, error) {
				return c.apps.Deployments(o.namespace).Get(ctx, name, metav1.GetOptions{})
			}})
		return err
	})
}

// readReplicaSets reads the ReplicaSets of the workload and of its canary. The selector of the workload matches both.
func (o *observation) readReplicaSets(ctx context.Context) {
	s, c := o.snapshot, o.client
	selector := labels.Set{api.LabelRolloutUID: string(s.rollout.UID)}.String()
	switch {
	case s.deployment != nil && s.deployment.Spec.Selector != nil:
		selector = metav1.FormatLabelSelector(s.deployment.Spec.Selector)
	case s.canary != nil && s.canary.Spec.Selector != nil:
		selector = metav1.FormatLabelSelector(s.canary.Spec.Selector)
	}
	o.startRead(ctx, o.accessTo("list", "apps", "replicasets", ""), func(ctx context.Context) (err error) {
		if o.needsLiveRead(s.liveParts[partReplicaSets]) {
			if confirmed, err := o.confirmReplicaSets(ctx); confirmed || err != nil {
				return err
			}
		}
		s.replicaSets, s.replicaSetsVersion, err = listByKey(ctx, o, o.markLive(partReplicaSets), c.informers.replicaSets, s.replicaSetOwners(), func(ctx context.Context) ([]*appsv1.ReplicaSet, string, error) {
			found, err := c.apps.ReplicaSets(o.namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
			if err != nil {
				return nil, "", err
			}
			return pointersTo(found.Items), found.ResourceVersion, nil
		})
		return err
	})
}

func pointersTo[T any](items []T) []*T {
	all := make([]*T, len(items))
	for i := range items {
		all[i] = &items[i]
	}
	return all
}

func (o *observation) keyOf(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: o.namespace, Name: name}
}

// needsLiveRead reports whether the executor must read a part live. live says that the API server has answered the part
// already.
func (o *observation) needsLiveRead(live bool) bool {
	return o.source == fromServer && o.wanted != allParts() && !live
}

// markLive notes that a part was read live.
func (o *observation) markLive(p part) func() { return o.markLiveIn(&o.snapshot.liveParts, p) }

func (o *observation) markLiveIn(live *partSet, p part) func() {
	return func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		live[p] = true
	}
}

// readRouting reads the Services and the gateway objects.
func (o *observation) readRouting(ctx context.Context) {
	s := o.snapshot
	if len(s.backends) == 0 {
		for _, routing := range s.spec.Routing {
			s.backends = append(s.backends, &backend{routing: routing})
		}
	}
	for _, b := range s.backends {
		if o.wanted[partStableService] {
			o.readService(ctx, b, partStableService, b.routing.Service, &b.stable)
		}
		if b.routing.SeparateService() && o.wanted[partCanaryService] {
			o.readService(ctx, b, partCanaryService, b.routing.CanaryService, &b.canary)
		}
		if b.routing.SeparateService() && o.wanted[partEndpoints] && s.releaseState().Releasing() {
			o.readEndpoints(ctx, b, partEndpoints, b.routing.CanaryService, &b.canaryEndpoints)
		}
	}
	if len(s.backends) > 0 && o.wanted[partRoutes] {
		o.readRoutes(ctx)
	}
}

// readRoutes reads the gateway objects, and the users' scripts that may render them.
func (o *observation) readRoutes(ctx context.Context) {
	s, c := o.snapshot, o.client
	if len(s.gateways) > 0 { // read their current state in the same order
		for _, g := range s.gateways {
			o.readGateway(ctx, g)
		}
		return
	}
	for _, ref := range s.routeRefs() {
		g := &gateway{ref: ref, renderings: c.renderings}
		s.gateways = append(s.gateways, g)
		o.readGateway(ctx, g)
	}
	o.readScriptsOfUsers(ctx)
}

// readScriptsOfUsers reads the ConfigMap that may hold scripts for the gateway objects.
func (o *observation) readScriptsOfUsers(ctx context.Context) {
	s := o.snapshot
	if name := o.client.opts.ScriptConfigMap; name.Name != "" && len(s.gateways) > 0 {
		o.scripts.Name = name.String()
		s.scriptsName = name.String()
		on := apiclient.Access{Verb: "get", Resource: "configmaps", Namespace: name.Namespace, Name: name.Name}
		o.startRead(ctx, on, func(ctx context.Context) error { return o.readScripts(ctx, on, name) })
	}
}

func (o *observation) readService(ctx context.Context, b *backend, p part, name string, into **corev1.Service) {
	c := o.client
	o.startRead(ctx, o.accessTo("get", "", "services", name), func(ctx context.Context) (err error) {
		*into, err = fetchObject(ctx, o, objectQuery[*corev1.Service]{
			overlay: c.informers.services, name: o.keyOf(name), expected: p == partStableService, onAnswer: o.markLiveIn(&b.liveParts, p), call: func(ctx context.Context) (*corev1.Service, error) {
				return c.core.Services(o.namespace).Get(ctx, name, metav1.GetOptions{})
			}})
		return err
	})
}

// readStableEndpoints reads the EndpointSlices of the stable Services. An observation of the whole Rollout leaves them
// out while no release is under way or due.
func (o *observation) readStableEndpoints(ctx context.Context, workload metav1.Object) {
	due := o.snapshot.releasingOrHeld(workload) || o.wanted != allParts()
	for _, b := range o.snapshot.backends {
		if due && b.routing.SeparateService() {
			o.readEndpoints(ctx, b, partStableEndpoints, b.routing.Service, &b.stableEndpoints)
		}
	}
}

// releasingOrHeld reports whether a release is under way, or due because the workload is held.
func (s *Snapshot) releasingOrHeld(workload metav1.Object) bool {
	if workload == nil || s.releaseState().Releasing() {
		return s.releaseState().Releasing()
	}
	_, held := workload.GetAnnotations()[api.AnnotationInProgressing]
	return held
}

func (o *observation) readEndpoints(ctx context.Context, b *backend, p part, service string, into *endpointSlices) {
	c := o.client
	if p == partEndpoints && o.needsLiveRead(b.liveParts[p]) && len(into.slices) > 0 {
		o.startRead(ctx, o.accessTo("get", discoveryv1.GroupName, "endpointslices", service), func(ctx context.Context) error {
			err := o.confirmEndpoints(ctx, into)
			if err == nil {
				o.markLiveIn(&b.liveParts, p)()
			}
			return err
		})
		return
	}
	selector := labels.Set{discoveryv1.LabelServiceName: service}.String()
	o.startRead(ctx, o.accessTo("list", discoveryv1.GroupName, "endpointslices", service), func(ctx context.Context) (err error) {
		into.slices, into.version, err = listByKey(ctx, o, o.markLiveIn(&b.liveParts, p), c.informers.endpointSlices, []string{o.keyOf(service).String()},
			func(ctx context.Context) ([]*discoveryv1.EndpointSlice, string, error) {
				found, err := c.endpoints.EndpointSlices(o.namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
				if err != nil {
					return nil, "", err
				}
				return pointersTo(found.Items), found.ResourceVersion, nil
			})
		into.read = err == nil
		return err
	})
}

// confirmEndpoints reads the known slices one by one. The API server answers a list only once its own cache has caught
// up with its store, which takes up to 100 ms. Endpoints in slices that are not known yet are missing, and that raises
// no share.
func (o *observation) confirmEndpoints(ctx context.Context, known *endpointSlices) error {
	var found []*discoveryv1.EndpointSlice
	var since string
	for _, seen := range known.slices {
		o.client.readCounts.live.Add(1)
		slice, err := o.client.endpoints.EndpointSlices(o.namespace).Get(ctx, seen.Name, metav1.GetOptions{})
		if apiclient.IsNotFound(err) {
			continue
		}
		if err != nil {
			return err
		}
		if found = append(found, slice); since == "" || cache.IsNewerVersion(slice.ResourceVersion, since) {
			since = slice.ResourceVersion
		}
	}
	known.slices, known.version = found, since
	return nil
}

func (o *observation) readScripts(ctx context.Context, on apiclient.Access, name types.NamespacedName) error {
	cm, err := fetchObject(ctx, o, objectQuery[*corev1.ConfigMap]{overlay: o.client.informers.scripts, name: name, onAnswer: func() {}, call: func(ctx context.Context) (*corev1.ConfigMap, error) {
		return o.client.core.ConfigMaps(name.Namespace).Get(ctx, name.Name, metav1.GetOptions{})
	}})
	if apiclient.IsForbidden(err) { // only the rendering of the gateway objects is unknown
		for _, g := range o.snapshot.gateways {
			p := apiclient.ForbiddenProblem(on, err)
			p.Route = g.ref
			o.addProblem(p)
		}
		return nil
	}
	if cm != nil {
		o.scripts.Data, o.scripts.Override = cm.Data, cm.Annotations[api.AnnotationOverride] == "true"
	}
	o.snapshot.scriptsFingerprint = fingerprintOf(cm)
	return err
}

// asSentence capitalizes the text of an error, for a message to users.
func asSentence(err error) string {
	text := err.Error()
	if text == "" {
		return text
	}
	return strings.ToUpper(text[:1]) + text[1:]
}
