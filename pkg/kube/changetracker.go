package kube

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/kube/apiclient"
	"sluice.dev/sluice/pkg/kube/cache"
)

// trackedItem is something that a run looks at: an object, or all objects that belong to one. The name is
// <namespace>/<name>.
type trackedItem struct{ kind, name string }

// Kinds of items. For kinds that are watched on demand, the kind is the resource.
const (
	rolloutItem     = "rollout"
	deploymentItem  = "deployment"
	replicaSetsItem = "replicasets of"
	serviceItem     = "service"
	endpointsItem   = "endpoints of"
	scriptsItem     = "scripts"

	templateItem        = "analysistemplate"
	clusterTemplateItem = "clusteranalysistemplate"
)

func (k watchedKind) itemKind() string {
	if k.isWorkload {
		return "workload " + k.String()
	}
	return k.String()
}

// namespaceItem is the item of all objects of a kind in a namespace.
func (k watchedKind) namespaceItem(namespace string) trackedItem {
	return trackedItem{k.itemKind(), namespace + "/"}
}

func itemOf(kind string, o metav1.Object) trackedItem {
	return trackedItem{kind, o.GetNamespace() + "/" + o.GetName()}
}

// itemVersion tells the states of an item apart.
type itemVersion struct {
	// fingerprint is equal for equal objects.
	fingerprint string
	// minVersion is the resourceVersion that an overlay must have reached so that its answer is not older; "" for any.
	minVersion string
}

// maxTracked is how many Rollouts the tracker remembers. The resync finds a change of the others if a watch was late.
const maxTracked = 4096

// changeTracker remembers, by Rollout, what the last run of this process knew. A hint may arrive before a watch of this
// process shows the change. The run then sees nothing new, and the tracker asks for another one when the watch shows
// the change.
type changeTracker struct {
	mu             sync.Mutex
	notify         func(types.NamespacedName) // nil while no watch runs
	versions       map[types.NamespacedName]map[trackedItem]itemVersion
	rolloutsByItem map[trackedItem]map[types.NamespacedName]bool
	// ends has the ends of those runs.
	ends map[types.NamespacedName]runEnd
}

// runEnd is the time at which a run ended, and the state of the state machine at that time.
type runEnd struct {
	at     time.Time
	status api.SluiceStatus
}

// watchDelay is how much later than a hint the watches may show its change.
const watchDelay = 5 * time.Second

func newChangeTracker() *changeTracker {
	return &changeTracker{versions: map[types.NamespacedName]map[trackedItem]itemVersion{}, rolloutsByItem: map[trackedItem]map[types.NamespacedName]bool{}, ends: map[types.NamespacedName]runEnd{}}
}

func (r *changeTracker) startTracking(moved func(types.NamespacedName)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.notify = moved
}

func (r *changeTracker) stopTracking() { r.startTracking(nil) }

// notifyRollouts notifies the Rollouts whose last run read an item.
func (r *changeTracker) notifyRollouts(it trackedItem) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.notify == nil {
		return
	}
	for name := range r.rolloutsByItem[it] {
		r.notify(name)
	}
}

// notifyOf returns a function that notifies the Rollouts whose last run read an object of a kind of items.
func (r *changeTracker) notifyOf(kind string) func(metav1.Object) {
	return func(o metav1.Object) { r.notifyRollouts(itemOf(kind, o)) }
}

// putVersions remembers what a run knew; nil forgets it until the run is over.
func (r *changeTracker) putVersions(name types.NamespacedName, knew map[trackedItem]itemVersion) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.dropVersions(name)
	if knew == nil || r.notify == nil {
		delete(r.ends, name)
		return
	}
	for other := range r.versions {
		if len(r.versions) < maxTracked {
			break
		}
		r.dropVersions(other)
		delete(r.ends, other)
	}
	r.versions[name] = knew
	for it := range knew {
		if r.rolloutsByItem[it] == nil {
			r.rolloutsByItem[it] = map[types.NamespacedName]bool{}
		}
		r.rolloutsByItem[it][name] = true
	}
}

func (r *changeTracker) dropVersions(name types.NamespacedName) {
	for it := range r.versions[name] {
		delete(r.rolloutsByItem[it], name)
		if len(r.rolloutsByItem[it]) == 0 {
			delete(r.rolloutsByItem, it)
		}
	}
	delete(r.versions, name)
}

func (r *changeTracker) versionsOf(name types.NamespacedName) map[trackedItem]itemVersion {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.versions[name]
}

// setRunEnd remembers the end of a run.
func (r *changeTracker) setRunEnd(name types.NamespacedName, e runEnd) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, known := r.versions[name]; known {
		r.ends[name] = e
	}
}

func (r *changeTracker) lastRunEnd(name types.NamespacedName) (runEnd, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e, ok := r.ends[name]
	return e, ok
}

// TrackAfterRun says that a run is over. From then on [Client.Start] calls moved when an object is not as the snapshot
// has it.
func (c *Client) TrackAfterRun(s *Snapshot) {
	name := s.rolloutKey()
	c.TrackSnapshot(s)
	c.changes.setRunEnd(name, runEnd{time.Now(), sluiceStatusOf(s.rollout)})
	if c.HasChanged(name) {
		c.changes.notifyRollouts(trackedItem{rolloutItem, name.String()})
	}
}

// TrackSnapshot makes [Client.HasChanged] compare with a snapshot, without a run.
func (c *Client) TrackSnapshot(s *Snapshot) {
	c.changes.putVersions(s.rolloutKey(), s.itemVersions())
}

// IsSuperseded reports whether another executor has committed since the last run of the Rollout here. It also requires
// that the run ended so long ago that the watches have shown every change that the run missed.
func (c *Client) IsSuperseded(name types.NamespacedName) bool {
	last, remembered := c.changes.lastRunEnd(name)
	r, known := c.informers.rollouts.GetObject(name)
	return remembered && known && r != nil && time.Since(last.at) > watchDelay && !apiequality.Semantic.DeepEqual(last.status, sluiceStatusOf(r))
}

// sluiceStatusOf returns the committed state of a Rollout's state machine.
func sluiceStatusOf(r *api.Rollout) api.SluiceStatus {
	if r.Status.Sluice == nil {
		return api.SluiceStatus{}
	}
	return *r.Status.Sluice
}

// HasChanged reports whether the watches have shown a change since the last run of the Rollout here.
func (c *Client) HasChanged(name types.NamespacedName) bool {
	for it, knew := range c.changes.versionsOf(name) {
		if now, ok := c.currentFingerprint(it, knew.minVersion); ok && now != knew.fingerprint {
			return true
		}
	}
	return false
}

// itemVersions returns the states that the snapshot knows, by item.
func (s *Snapshot) itemVersions() map[trackedItem]itemVersion {
	ns := s.rollout.Namespace
	all := map[trackedItem]itemVersion{itemOf(rolloutItem, s.rollout): {fingerprint: fingerprintOf(s.rollout)}}
	maps.Copy(all, s.templates)
	maps.Copy(all, s.dependencies)
	name, canary := ns+"/"+s.spec.Workload.Name, ns+"/"+s.spec.Workload.Name+api.SuffixCanary
	all[trackedItem{deploymentItem, canary}] = itemVersion{fingerprint: fingerprintOf(s.canary)}
	if s.spec.Workload.IsDeployment() {
		all[trackedItem{deploymentItem, name}] = itemVersion{fingerprint: fingerprintOf(s.deployment)}
		for _, owner := range []string{name, canary} {
			all[trackedItem{replicaSetsItem, owner}] = itemVersion{fingerprintsOf(s.replicaSetsOf(owner)), s.replicaSetsVersion}
		}
	} else if s.object != nil {
		all[trackedItem{s.object.watchedKind().itemKind(), name}] = itemVersion{fingerprint: fingerprintOf(s.object.Live)}
	}
	for _, b := range s.backends {
		stable := ns + "/" + b.routing.Service
		all[trackedItem{serviceItem, stable}] = itemVersion{fingerprint: fingerprintOf(b.stable)}
		if !b.routing.SeparateService() {
			continue
		}
		canary := ns + "/" + b.routing.CanaryService
		all[trackedItem{serviceItem, canary}] = itemVersion{fingerprint: fingerprintOf(b.canary)}
		if s.releaseState().Releasing() {
			all[trackedItem{endpointsItem, canary}] = itemVersion{fingerprintsOf(b.canaryEndpoints.slices), b.canaryEndpoints.version}
			all[trackedItem{endpointsItem, stable}] = itemVersion{fingerprintsOf(b.stableEndpoints.slices), b.stableEndpoints.version}
		}
	}
	for _, g := range s.gateways {
		if g.resource.Resource != "" {
			of := watchedKind{GroupVersionResource: g.resource}.itemKind()
			all[trackedItem{of, g.access.Namespace + "/" + g.ref.Name}] = itemVersion{fingerprint: fingerprintOf(g.live)}
			for _, made := range g.children() {
				beside := watchedKind{GroupVersionResource: g.childResources[apiclient.Kind{APIVersion: made.GetAPIVersion(), Name: made.GetKind()}]}.itemKind()
				all[trackedItem{beside, ns + "/" + made.GetName()}] = itemVersion{fingerprint: fingerprintOf(made)}
			}
		}
	}
	if s.scriptsName != "" {
		all[trackedItem{scriptsItem, s.scriptsName}] = itemVersion{fingerprint: s.scriptsFingerprint}
	}
	return all
}

// replicaSetsOf returns the ReplicaSets of a Deployment, given as <namespace>/<name>. A live list has the ReplicaSets
// of other Deployments too.
func (s *Snapshot) replicaSetsOf(owner string) []*appsv1.ReplicaSet {
	return slices.DeleteFunc(slices.Clone(s.replicaSets), func(set *appsv1.ReplicaSet) bool { return cache.OwnerKey(set) != owner })
}

// currentFingerprint returns the fingerprint of an item in the overlays now; ok is false when they cannot tell.
func (c *Client) currentFingerprint(it trackedItem, since string) (now string, ok bool) {
	m := c.informers
	namespace, name, _ := strings.Cut(it.name, "/")
	at := types.NamespacedName{Namespace: namespace, Name: name}
	switch it.kind {
	case rolloutItem:
		return cachedFingerprint(m.rollouts, at)
	case deploymentItem:
		return cachedFingerprint(m.deployments, at)
	case serviceItem:
		return cachedFingerprint(m.services, at)
	case scriptsItem:
		return cachedFingerprint(m.scripts, at)
	case templateItem:
		return cachedFingerprint(m.templates, at)
	case clusterTemplateItem:
		return cachedFingerprint(m.clusterTemplates, at)
	case replicaSetsItem:
		return indexedFingerprint(m.replicaSets, it.name, since)
	case endpointsItem:
		return indexedFingerprint(m.endpointSlices, it.name, since)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for kind, found := range m.kinds {
		switch {
		case kind.itemKind() != it.kind:
		case name == "":
			all, known := found.ListNamespace(namespace)
			return fingerprintsOf(all), known
		default:
			return cachedFingerprint(found, at)
		}
	}
	return "", false
}

// fingerprintOf tells the states of an object apart; it is "" for nil.
func fingerprintOf[T cache.Object](o T) string {
	var none T
	if o == none {
		return ""
	}
	if o.GetDeletionTimestamp() != nil {
		return string(o.GetUID()) + " " + o.GetResourceVersion() + " leaving"
	}
	return string(o.GetUID()) + " " + o.GetResourceVersion()
}

func fingerprintsOf[T cache.Object](objects []T) string {
	all := make([]string, 0, len(objects))
	for _, o := range objects {
		all = append(all, fingerprintOf(o))
	}
	slices.SortFunc(all, cmp.Compare[string])
	return strings.Join(all, "\n")
}

func cachedFingerprint[T cache.Object](m *cache.Overlay[T], name types.NamespacedName) (string, bool) {
	o, known := m.GetObject(name)
	return fingerprintOf(o), known
}

func indexedFingerprint[T cache.Object](m *cache.Overlay[T], key, since string) (string, bool) {
	if !m.IsUsable() || since != "" && cache.IsNewerVersion(since, m.LastSyncedVersion()) {
		return "", false
	}
	found, known := m.ByKey(key)
	return fingerprintsOf(found), known
}
