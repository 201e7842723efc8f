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
)

// item is something that a run looks at: an object, or all that hang on one. The name is <namespace>/<name>.
type item struct{ kind, name string }

// Kinds of items; those that are watched on demand have their resource.
const (
	rolloutItem    = "rollout"
	deploymentItem = "deployment"
	setsItem       = "replicasets of"
	serviceItem    = "service"
	endpointsItem  = "endpoints of"
	scriptsItem    = "scripts"

	templateItem        = "analysistemplate"
	clusterTemplateItem = "clusteranalysistemplate"
)

func (k watchedKind) item() string {
	if k.workload {
		return "workload " + k.String()
	}
	return k.String()
}

// all is the item of all objects of a kind in a namespace.
func (k watchedKind) all(namespace string) item { return item{k.item(), namespace + "/"} }

func itemOf(kind string, o metav1.Object) item {
	return item{kind, o.GetNamespace() + "/" + o.GetName()}
}

// version tells apart what an item was when it was looked at.
type version struct {
	// print is equal for equal objects.
	print string
	// since is the resourceVersion that a mirror must have reached for its answer to be no older; "" for any.
	since string
}

// manyRecent is how many Rollouts are remembered. Those beyond it are found by the resync if a watch was late for them.
const manyRecent = 4096

// recent remembers, by Rollout, what its last run here knew of the world. A hint may come sooner than the news itself does by a
// watch of this process: then the run sees nothing new, and is asked for again when the news is here.
type recent struct {
	mu    sync.Mutex
	moved func(types.NamespacedName) // nil while nothing is watched
	runs  map[types.NamespacedName]map[item]version
	users map[item]map[types.NamespacedName]bool
	// ends are how those runs ended.
	ends map[types.NamespacedName]end
}

// end is when a run ended, and in which state it left the machine.
type end struct {
	at      time.Time
	machine api.SluiceStatus
}

// newsDelay is how much later than a hint the watches may show what it is about.
const newsDelay = 5 * time.Second

func newRecent() *recent {
	return &recent{runs: map[types.NamespacedName]map[item]version{}, users: map[item]map[types.NamespacedName]bool{}, ends: map[types.NamespacedName]end{}}
}

func (r *recent) start(moved func(types.NamespacedName)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.moved = moved
}

func (r *recent) stop() { r.start(nil) }

// touched tells the Rollouts whose last run looked at an item.
func (r *recent) touched(it item) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.moved == nil {
		return
	}
	for name := range r.users[it] {
		r.moved(name)
	}
}

// put remembers what a run knew; nil forgets it until the run is over.
func (r *recent) put(name types.NamespacedName, knew map[item]version) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.drop(name)
	if knew == nil || r.moved == nil {
		delete(r.ends, name)
		return
	}
	for other := range r.runs {
		if len(r.runs) < manyRecent {
			break
		}
		r.drop(other)
		delete(r.ends, other)
	}
	r.runs[name] = knew
	for it := range knew {
		if r.users[it] == nil {
			r.users[it] = map[types.NamespacedName]bool{}
		}
		r.users[it][name] = true
	}
}

func (r *recent) drop(name types.NamespacedName) {
	for it := range r.runs[name] {
		delete(r.users[it], name)
		if len(r.users[it]) == 0 {
			delete(r.users, it)
		}
	}
	delete(r.runs, name)
}

func (r *recent) knew(name types.NamespacedName) map[item]version {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.runs[name]
}

// ended remembers the end of a run.
func (r *recent) ended(name types.NamespacedName, e end) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, known := r.runs[name]; known {
		r.ends[name] = e
	}
}

func (r *recent) end(name types.NamespacedName) (end, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e, ok := r.ends[name]
	return e, ok
}

// Rest says that a run is over. From now on moved of [Client.Keep] is told when something is not as the snapshot has it.
func (c *Client) Rest(s *Snapshot) {
	name := s.name()
	c.Know(s)
	c.recent.ended(name, end{time.Now(), machineOf(s.rollout)})
	if c.Moved(name) {
		c.recent.touched(item{rolloutItem, name.String()})
	}
}

// Know makes a snapshot what [Client.Moved] goes by, without a run.
func (c *Client) Know(s *Snapshot) {
	c.recent.put(s.name(), s.versions())
}

// Overtaken reports whether another executor has committed since the last run of the Rollout here, and that run is so long ago that
// the watches have shown whatever it came too soon for.
func (c *Client) Overtaken(name types.NamespacedName) bool {
	last, remembered := c.recent.end(name)
	r, known := c.mirrors.rollouts.get(name)
	return remembered && known && r != nil && time.Since(last.at) > newsDelay && !apiequality.Semantic.DeepEqual(last.machine, machineOf(r))
}

// machineOf is the state of a Rollout's machine as committed.
func machineOf(r *api.Rollout) api.SluiceStatus {
	if r.Status.Sluice == nil {
		return api.SluiceStatus{}
	}
	return *r.Status.Sluice
}

// Moved reports whether something is not as the last run of the Rollout here left it, as far as the watches have shown.
func (c *Client) Moved(name types.NamespacedName) bool {
	for it, knew := range c.recent.knew(name) {
		if now, ok := c.versionNow(it, knew.since); ok && now != knew.print {
			return true
		}
	}
	return false
}

// versions are what the snapshot knows, by item.
func (s *Snapshot) versions() map[item]version {
	ns := s.rollout.Namespace
	all := map[item]version{itemOf(rolloutItem, s.rollout): {print: print(s.rollout)}}
	maps.Copy(all, s.templates)
	maps.Copy(all, s.depended)
	name, canary := ns+"/"+s.spec.Workload.Name, ns+"/"+s.spec.Workload.Name+api.SuffixCanary
	all[item{deploymentItem, canary}] = version{print: print(s.canary)}
	if isDeployment(s.spec.Workload) {
		all[item{deploymentItem, name}] = version{print: print(s.deployment)}
		for _, owner := range []string{name, canary} {
			all[item{setsItem, owner}] = version{prints(s.setsOf(owner)), s.setsSince}
		}
	} else if s.object != nil {
		all[item{s.object.watched().item(), name}] = version{print: print(s.object.Live)}
	}
	for _, b := range s.backends {
		stable := ns + "/" + b.routing.Service
		all[item{serviceItem, stable}] = version{print: print(b.stable)}
		if !b.routing.SeparateService() {
			continue
		}
		canary := ns + "/" + b.routing.CanaryService
		all[item{serviceItem, canary}] = version{print: print(b.canary)}
		if s.state().Releasing() {
			all[item{endpointsItem, canary}] = version{prints(b.canaryEndpoints.slices), b.canaryEndpoints.since}
			all[item{endpointsItem, stable}] = version{prints(b.stableEndpoints.slices), b.stableEndpoints.since}
		}
	}
	for _, g := range s.gateways {
		if g.resource.Resource != "" {
			of := watchedKind{GroupVersionResource: g.resource}.item()
			all[item{of, g.on.namespace + "/" + g.ref.Name}] = version{print: print(g.live)}
			for _, made := range g.made() {
				beside := watchedKind{GroupVersionResource: g.makes[kind{made.GetAPIVersion(), made.GetKind()}]}.item()
				all[item{beside, ns + "/" + made.GetName()}] = version{print: print(made)}
			}
		}
	}
	if s.scriptsName != "" {
		all[item{scriptsItem, s.scriptsName}] = version{print: s.scriptsPrint}
	}
	return all
}

// setsOf are the ReplicaSets of a Deployment, given as <namespace>/<name>. A live list has those of others as well.
func (s *Snapshot) setsOf(owner string) []*appsv1.ReplicaSet {
	return slices.DeleteFunc(slices.Clone(s.sets), func(set *appsv1.ReplicaSet) bool { return ownerName(set) != owner })
}

// versionNow is what the mirrors have of an item now; ok is false when they cannot tell.
func (c *Client) versionNow(it item, since string) (now string, ok bool) {
	m := c.mirrors
	namespace, name, _ := strings.Cut(it.name, "/")
	at := types.NamespacedName{Namespace: namespace, Name: name}
	switch it.kind {
	case rolloutItem:
		return printOf(m.rollouts, at)
	case deploymentItem:
		return printOf(m.deployments, at)
	case serviceItem:
		return printOf(m.services, at)
	case scriptsItem:
		return printOf(m.scripts, at)
	case templateItem:
		return printOf(m.templates, at)
	case clusterTemplateItem:
		return printOf(m.clusterTemplates, at)
	case setsItem:
		return printsBy(m.sets, byOwner, it.name, since)
	case endpointsItem:
		return printsBy(m.slices, byService, it.name, since)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for kind, found := range m.kinds {
		switch {
		case kind.item() != it.kind:
		case name == "":
			all, known := found.inNamespace(namespace)
			return prints(all), known
		default:
			return printOf(found, at)
		}
	}
	return "", false
}

// print tells apart the states of an object; "" is none.
func print[T object](o T) string {
	var none T
	if o == none {
		return ""
	}
	if o.GetDeletionTimestamp() != nil {
		return string(o.GetUID()) + " " + o.GetResourceVersion() + " leaving"
	}
	return string(o.GetUID()) + " " + o.GetResourceVersion()
}

func prints[T object](objects []T) string {
	all := make([]string, 0, len(objects))
	for _, o := range objects {
		all = append(all, print(o))
	}
	slices.SortFunc(all, cmp.Compare[string])
	return strings.Join(all, "\n")
}

func printOf[T object](m *mirror[T], name types.NamespacedName) (string, bool) {
	o, known := m.get(name)
	return print(o), known
}

func printsBy[T object](m *mirror[T], index, value, since string) (string, bool) {
	if !m.usable() || since != "" && isNewer(since, m.upTo()) {
		return "", false
	}
	found, known := m.by(index, value)
	return prints(found), known
}
