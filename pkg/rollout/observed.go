package rollout

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"sluice.dev/sluice/pkg/api"
)

// Ref names an object in the Rollout's namespace.
type Ref struct {
	APIVersion, Kind, Name string
	// Class is the controller of an Ingress, which selects its script; "" for any other kind.
	Class string `json:",omitempty"`
}

// IngressRef is the Ingress of a name and a class; an empty class is nginx.
func IngressRef(name, class string) Ref {
	return Ref{APIVersion: "networking.k8s.io/v1", Kind: "Ingress", Name: name, Class: cmp.Or(class, "nginx")}
}

// RefOf is the object that a field of a Rollout names.
func RefOf(o api.ObjectRef) Ref { return Ref{APIVersion: o.APIVersion, Kind: o.Kind, Name: o.Name} }

func (r Ref) String() string { return r.Kind + " " + r.Name }

// KubectlName is what kubectl takes for the object, such as deployment/demo.
func (r Ref) KubectlName() string {
	kind := strings.ToLower(r.Kind)
	if group := r.Group(); group == GroupKruise {
		kind += "." + group // kubectl would take the other StatefulSet
	}
	return kind + "/" + r.Name
}

// Group returns the API group of the object, "" for the core group.
func (r Ref) Group() string {
	group, _, versioned := strings.Cut(r.APIVersion, "/")
	if !versioned {
		return ""
	}
	return group
}

// Groups of the API that have workloads.
const (
	groupApps   = "apps"
	GroupKruise = "apps.kruise.io"
)

func (r Ref) IsDeployment() bool { return r.Group() == groupApps && r.Kind == "Deployment" }

func (r Ref) IsCloneSet() bool { return r.Group() == GroupKruise && r.Kind == "CloneSet" }

// Seen is what a shell saw of the world for one Rollout, as values: everything that the planner may know.
type Seen struct {
	Namespace, Name string
	UID             string
	Generation      int64
	Deleting        bool
	Finalizer       bool // our finalizer is on the Rollout

	Spec   Spec
	Status api.RolloutStatus

	Workload *Workload // nil if it does not exist
	Canary   *Canary   // nil if it does not exist

	// Backends are what the entries of Spec.Routing route to, in their order.
	Backends []Backend

	// Routes are the gateway objects in the order in which a step is applied to them; restoring goes the other way.
	Routes []Route

	// TrafficRouting is the TrafficRouting that the Rollout names; nil if it does not exist, or if the Rollout names none.
	TrafficRouting *TrafficRouting

	// Autoscalers are the autoscalers of the workload. They are read in blue-green style, and in canary style with constant capacity.
	Autoscalers []Autoscaler

	// Problems hold what could not be read or is not there. The first one is shown; a release waits for it to go.
	Problems []Problem
	// AtRisk is the problem that pods of the stable version have lost, or may lose, an object that they need; nil without such a problem.
	AtRisk *Problem
	// Uncovered is the problem that policies cover the stable version and not the canary; nil without such a policy.
	Uncovered *Problem
	// Torn is the problem that a step with a share of the traffic sends users with a sticky session to both versions; nil without such a problem.
	Torn *Problem
	// Dropped is the problem that a gateway object does not express all matches of a step, which another one of the release does; nil without such a
	// problem.
	Dropped *Problem
	// Permit is the last permit that the hub of the fleet has given this Rollout, verified; nil without one.
	Permit *api.FleetPermit
	// Blocked are the versions that the hub has withdrawn or unblocked, as its last message says.
	Blocked []api.FleetBlock
	// OrderRefused is why the last message of the hub counts for nothing, "" if it counts or if there is none.
	OrderRefused string
	// PermitUsed is the last permit that a release has used up, as an annotation of the Rollout tells; the zero value for none.
	PermitUsed api.PermitNumber
	// Rival is the name of another Rollout that governs the workload, which no Rollout has adopted; "" for none.
	Rival string
	// Editor is the field manager that wrote the status last, when that was not us.
	Editor string
}

// Workload is what a release needs to know of the user's workload.
type Workload struct {
	UID string
	// Observed reports whether the workload's own controller has seen its latest spec.
	Observed bool
	// DesiredReplicas is how many pods its owner wants; SpecReplicas is spec.replicas, which its controller carries out. ScaledDown: an executor has
	// written SpecReplicas, which may be less, in a release of constant capacity.
	DesiredReplicas, SpecReplicas int32
	ScaledDown                    bool
	// AutoscalerActive: an autoscaler that a user has enabled again wrote SpecReplicas.
	AutoscalerActive bool
	Paused           bool
	// OwnerPaused is the value of spec.paused that its owner wants back after the release.
	OwnerPaused bool
	// Revision identifies spec.template: an opaque digest, equal for equal templates.
	Revision string
	// Version names the template for a fleet.
	Version api.FleetVersion
	// Images are the images of the containers of its template, with init containers, and Containers the names of these.
	Images, Containers []string
	// Delivered is the permit of a fleet whose images the executor has set last, the zero value for none.
	Delivered api.PermitNumber
	// TemplateManager is the field manager that changed the template last, other than Sluice; "" for none.
	TemplateManager string
	// Adopted reports whether this Rollout's marks are on the workload, complete.
	Adopted bool
	// AdoptedBy is the name of another live Rollout that has adopted the workload, "" for none.
	AdoptedBy string
	// Held reports whether the mark of a held change (in-progressing) is on the workload.
	Held bool
	// HasMarks reports whether any mark of this Rollout is on the workload.
	HasMarks bool
	// RolloutID is the id that its owner gave the release, "" for none.
	RolloutID string
	// IDLetsThrough: a change of the template under its present rollout-id is no release, as that id is an annotation of the stable version.
	IDLetsThrough bool
	// Generation is metadata.generation.
	Generation int64
	// Revisions are the revisions that exist, oldest first.
	Revisions []Revision
	// Updated, Available and Total count pods of the current template, available pods and all pods.
	Updated, Available, Total int32
	// MaxUnavailable and MaxSurge are the owner's budget in a native rolling update: pods that may be missing, or be too many. One of them
	// is above 0 while there are replicas.
	MaxUnavailable, MaxSurge int32
	// Recreate: its owner wants all pods replaced at once.
	Recreate bool
	// OwnerOnDelete: its owner deletes the pods that are to be replaced, so that there is nothing to release.
	OwnerOnDelete bool
	// HistoryLimit is how many revisions without pods its controller keeps.
	HistoryLimit int32
	// UpdateMechanism is how its pods are replaced a few at a time.
	UpdateMechanism UpdateMechanism
	// Partition is how many pods its controller leaves in the version that they have; of [MechanismPartition] only. PercentPartition: it may be a
	// percentage.
	Partition        Amount
	PercentPartition bool
	// OwnerPartition is how many pods its owner wants left in the version that they have: a partition of the owner's own.
	OwnerPartition int32
	// RevertsTo is the hash of the revision in which a pod that is deleted comes back while the workload is held; "" for the new one.
	RevertsTo string
	// TakenOver reports whether the release has set the fields that let the workload's controller go on or give up by itself.
	TakenOver bool
	// Surged: the release has set the replicas of a CloneSet to the owner's number and a surge for its pods. None of its pods counts as available then,
	// so the CloneSet controller deletes no ready pod.
	Surged bool
	// Budget is how far its controller may go while it is taken over and not paused. For a surged workload, the surge of the budget is the number of
	// surge replicas.
	Budget Budget
	// ReplicaSetsFrozen: its controller leaves ReplicaSets as they are, for us to scale.
	ReplicaSetsFrozen bool
	// HasOrdinals: its pods are numbered, and replaced from the last one down to the partition.
	HasOrdinals bool
	// Batches are the batches of the new pods.
	Batches PodBatches
	// UnlabelledKept is the number of pods of its template that no rollback in batches has marked as those that it keeps.
	UnlabelledKept int32
	Deleting       bool
}

// AlteredByRelease reports whether anything of the workload is not as its owner wants it.
func (w *Workload) AlteredByRelease() bool {
	return w.Held || w.TakenOver || w.UpdateMechanism == MechanismRollingUpdate && w.Paused != w.OwnerPaused
}

// UpdateMechanism is how the pods of a workload are replaced a few at a time.
type UpdateMechanism string

// Levers, by kind of workload.
const (
	// MechanismRollingUpdate: its controller replaces as many pods as a budget lets be missing or too many. Deployments.
	MechanismRollingUpdate UpdateMechanism = ""
	// MechanismPartition: its controller leaves so many pods in the version that they have. StatefulSets of both groups, CloneSets and
	// Advanced DaemonSets.
	MechanismPartition UpdateMechanism = "partition"
	// MechanismOnDelete: the controller replaces each deleted pod by a pod of the new version. DaemonSets.
	MechanismOnDelete UpdateMechanism = "deletion"
)

// Revision is one revision of the workload: of a Deployment a Revision, of other kinds a ControllerRevision and the pods that bear its
// hash and are not being deleted.
type Revision struct {
	Hash            string // value of the label that tells its pods apart, such as pod-template-hash
	Revision        string // comparable with Workload.Revision
	Replicas, Ready int32
	// Surplus is how many pods the controller of a ReplicaSet has still to delete.
	Surplus int32
	// Ordinals are the numbers of its pods, counted from 0 without those that no pod may have, lowest first; where the workload is ordered only.
	Ordinals []int32
	// CreationOrder is its position among all revisions in the order of their creation. The order of revision numbers differs: a revision that is used
	// again gets the newest number.
	CreationOrder int32
	Deleting      bool
	// UnavailableRequested: the spec of its pods keeps them from counting as available. Unavailable: no pod counts, so the workload's controller waits
	// for the executor.
	UnavailableRequested, Unavailable bool
}

// Autoscaler is an autoscaler of the workload.
type Autoscaler struct {
	Object Ref
	// Disabled: a release has taken it off the workload. Marked: something of a release is on it, also where its owner has put it back.
	Disabled, Marked bool
}

// Canary is the canary workload: the second Deployment of canary style.
type Canary struct {
	UID   string
	Ours  bool
	Epoch int64
	// Revision is the revision of the [CreateCanary] that created it.
	Revision  string
	Observed  bool
	Replicas  int32
	Updated   int32
	Available int32
	// Hash is the pod-template-hash of its pods, "" until its Revision exists.
	Hash     string
	Deleting bool
	// Batches are the batches of its pods.
	Batches PodBatches
}

// Service is what a release needs to know of a Service.
type Service struct {
	UID  string
	Ours bool
	// Hash is the pod-template-hash that it selects, "" when it selects all revisions.
	Hash     string
	Epoch    int64
	Deleting bool
}

// Backend is what one entry of the routing routes to.
type Backend struct {
	StableService *Service // nil if it does not exist
	CanaryService *Service
	// CanaryEndpoints is the number of ready endpoints behind the canary Service.
	CanaryEndpoints int32
	// Stable are the pods that the stable Service selects. They are read while a release is under way or due; nil if they were not read.
	Stable *Selected
}

// Selected are the pods behind a Service, as its EndpointSlices list them.
type Selected struct {
	// Pods has the endpoints of the pods of the workload, by the Hash of their [Revision].
	Pods map[string]Endpoints
	// Others are the names of ready pods that belong neither to the workload nor to its canary, sorted.
	Others []string
}

// Endpoints are the pods of one version behind a Service.
type Endpoints struct {
	// Ready is how many of them get requests.
	Ready int32
	// UnreachableReason is why none of them can get any, such as "its selector does not match them"; "" when they can.
	UnreachableReason string
}

// Route is one gateway object together with its renderings for this release.
type Route struct {
	Object Ref
	// Missing: the object does not exist.
	Missing bool
	// Referenced: other objects may refer to what this one defines, as a VirtualService does to the subsets of a DestinationRule.
	Referenced bool
	// Lag is how long its gateway may still route as before, where that is longer than [DefaultGrace].
	Lag time.Duration
	// Steps holds the renderings, by step (1-based); the rendering of [HandBackStep] is among them.
	Steps map[int32]Rendering
	// Shaped reports whether this release is on the object. False means nothing of ours is left to restore.
	Shaped bool
	// DeletingChild is an object that this release created for the route and that is being deleted, "" for none. A gateway may still use it.
	DeletingChild string
	// HasChildren: objects are there that this release made for it to name. They do nothing once it no longer is Ours.
	HasChildren bool
	// Weight is the share of the traffic in percent that this release gives the canary by it; 0 where another client changed it.
	Weight Percent
	// Content is a digest of what the object holds.
	Content string
	// Foreign is set when another client changed the object after we wrote it, as its annotations tell: a digest of what they
	// wrote. ForeignBy is who wrote last, other than us.
	Foreign, ForeignBy string
	// Version changes with every write of the object; "" when it is not known.
	Version string
}

// ScriptTimedOut reports whether the clock stopped the script of the object; the same script may succeed next time.
func (r Route) ScriptTimedOut() bool {
	for _, step := range r.Steps {
		if step.TimedOut {
			return true
		}
	}
	return false
}

// TrafficRouting is what a release needs to know of the TrafficRouting that it asks for. That one is carried out by runs of its own.
type TrafficRouting struct {
	Deleting bool
	// Claimed: the finalizer that this Rollout uses to claim it is on it.
	Claimed bool
	// Finalizing: it takes its routes back, for none asked for it.
	Finalizing bool
	// Applied: all its gateway objects route as it says now.
	Applied bool
	// Inactive: it routes for others only, or not at all.
	Inactive bool
	// Message is what it does or waits for.
	Message string
	// Grace is spent before something goes away that traffic might still reach by it.
	Grace time.Duration
}

// Rendering is how one gateway object looks against what a step wants of it.
type Rendering struct {
	Applied  bool
	Accepted bool
	Refused  string // why the gateway kind or its script cannot express the step; "" when it can
	TimedOut bool   // it is Refused because the clock stopped the script
	Digest   string
	// ChildrenMissing: not all objects are there that it is to name. Since is when the last of those that are there was made.
	ChildrenMissing bool
	Since           time.Time
}

// Decision is the next status and actions. The executor commits Status before it takes Actions if CommitFirst is set, and after them otherwise,
// possibly together with the status of the next decision; see planner.Run.
type Decision struct {
	Status      api.RolloutStatus
	Actions     []Action
	CommitFirst bool
	// WakeAt is when to look again although nothing happened; zero means only an event matters.
	WakeAt time.Time
	// Report is what a Rollout of a fleet tells its hub once Status is committed; nil for any other Rollout.
	Report *api.FleetReport
	// KubeEvents are Kubernetes Events to record in addition to the transitions in Status.
	KubeEvents []KubeEvent
}

// PinnedHash is the pod-template-hash that the stable Service selects, "" for all.
func (b Backend) PinnedHash() string {
	if b.StableService == nil {
		return ""
	}
	return b.StableService.Hash
}

// StableEndpoints are the pods of a version behind the stable Service.
func (b Backend) StableEndpoints(hash string) Endpoints {
	if b.Stable == nil {
		return Endpoints{}
	}
	return b.Stable.Pods[hash]
}

// Budget is how far a workload that replaces its own pods may go: it keeps at least its replicas less Unavailable percent of them,
// rounded down, from before, and at most Surge pods more than its replicas. A percentage, because a number would let everything go
// when a user scales the workload down.
type Budget struct {
	Unavailable, Surge int32
	// SurgePercent is the surge as a percentage of the replicas, rounded up, in the place of Surge.
	SurgePercent int32
}

func (b Budget) String() string {
	if b.SurgePercent > 0 {
		return fmt.Sprintf("%d%% and %d%% more", b.Unavailable, b.SurgePercent)
	}
	return fmt.Sprintf("%d%% and %d more", b.Unavailable, b.Surge)
}

// ReadyPods is how many pods of the canary can bear traffic.
func (c *Canary) ReadyPods() int32 {
	if c == nil || !c.Ours || c.Deleting {
		return 0
	}
	return min(c.Available, c.Replicas)
}

// HandBackStep is a step below 0: the share of the traffic, in percent, that the canary keeps while the stable pods come back. It is the share that
// the stable pods cannot bear yet, and at most the share that the ready pods of the canary can bear. It is 0 for no share, and for a workload that
// has all its pods.
func HandBackStep(w *Workload, c *Canary) int32 {
	if w == nil || !w.ScaledDown || w.DesiredReplicas == 0 {
		return 0
	}
	full := w.FullCapacity()
	bears := (100*min(c.ReadyPods(), full) + full - 1) / full
	share := min(bears, 100-100*min(w.ReadyPods(), full)/full)
	if w.SpecReplicas < w.DesiredReplicas { // its last pods are not there yet
		share = max(share, min(bears, 1))
	}
	return -share
}

// Backend is the backend of an entry of the routing; the zero value for an entry that was not read.
func (s *Seen) Backend(i int) Backend {
	if i < len(s.Backends) {
		return s.Backends[i]
	}
	return Backend{}
}

// FullCapacity is how many ready pods bear all of the traffic: as many as a rolling update by its owner's budget would leave, and one at least of a
// workload that has replicas.
func (w *Workload) FullCapacity() int32 {
	return max(min(1, w.DesiredReplicas), w.DesiredReplicas-w.MaxUnavailable)
}

// ProtectedPods is how many pods the executor keeps ready while it ends a release that replaces pods in place: those that the owner's budget protects, and
// at least one if the workload has two or more.
func (w *Workload) ProtectedPods() int32 {
	return max(min(1, w.DesiredReplicas-1), w.DesiredReplicas-w.MaxUnavailable)
}

// MayTakeAll reports whether the workload's controller may take all pods before another one is ready.
func (w *Workload) MayTakeAll() bool { return w.Recreate || w.MaxUnavailable >= w.DesiredReplicas }

// MayTakeOthers reports whether the controller may take all of several pods, so that the executor could keep one of them until another is ready.
func (w *Workload) MayTakeOthers() bool { return w.MayTakeAll() && w.DesiredReplicas > 1 }

// ReadyPods is how many of its pods are ready, those that are about to go left out.
func (w *Workload) ReadyPods() int32 {
	var n int32
	for _, set := range w.Revisions {
		n += min(set.Ready, set.Replicas)
	}
	if w.ScaledDown {
		n = min(n, w.SpecReplicas)
	}
	return n
}

// StatusRevision is where a status shows the revision that is being released. The status has one of the two parts.
func StatusRevision(s *api.RolloutStatus) *string {
	if s.BlueGreenStatus != nil {
		return &s.BlueGreenStatus.UpdatedRevision
	}
	return &s.CanaryStatus.CanaryRevision
}
