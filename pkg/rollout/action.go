package rollout

import (
	"fmt"
	"strings"

	"sluice.dev/sluice/pkg/api"
)

// Action is one change to the cluster. The set is closed: every action is a type of this file. The executor may stop after any action of a decision.
// Each action is idempotent: the executor adds the observed resourceVersion or UID as its precondition.
type Action interface {
	fmt.Stringer
	isAction()
	// RaisesExposure reports whether the action raises exposure or creates an object. The executor takes such an action only after it has committed
	// the status that intends the action.
	RaisesExposure() bool
}

// AddFinalizer adds Sluice's finalizer to the Rollout, so a release leaves no objects behind when the Rollout is deleted.
type AddFinalizer struct{}

// RemoveFinalizer removes the finalizer. It is the last action in the life of a Rollout.
type RemoveFinalizer struct{}

// RecordPermit records on the Rollout, outside of its status, that a release uses up a permit of the fleet. An executor of a version without fleets
// keeps this record, although it drops status.fleet.
type RecordPermit struct{ Permit api.PermitNumber }

// AdoptWorkload marks the workload as adopted, so the admission policies hold its next change.
type AdoptWorkload struct {
	Workload Ref
	StableID StableID
}

// StableID tells, after an action, whether the rollout-id of the stable version is known.
type StableID string

// Values of StableID.
const (
	StableIDKept    StableID = ""        // the earlier value
	StableIDPresent StableID = "present" // the workload has it
	StableIDUnknown StableID = "unknown"
)

// DisownWorkload removes all marks of Sluice from the workload.
type DisownWorkload struct{ Workload Ref }

// HoldWorkload pauses the workload and marks it as being released. It also holds changes that the admission policies missed.
type HoldWorkload struct{ Workload Ref }

// ResumeWorkload restores the held fields as their owner last set them and ends the hold, in one patch.
type ResumeWorkload struct {
	Workload Ref
	StableID StableID
	// Paused leaves the workload as it is: the field that stops its controller stays, and belongs to the owner afterwards.
	Paused bool
	// Surge is the number of pods above its replicas that a paused Deployment with two versions keeps. The executor writes it to the Deployment:
	// otherwise the controller would distribute the owner's surge in proportion to the versions.
	Surge int32
}

// TakeOverWorkload holds the workload and takes over the fields that let its own controller continue or give up. New pods do not count as available,
// no deadline passes, and the budget leaves the controller nothing to do. Without a budget, the controller leaves ReplicaSets as they are. A CloneSet
// gets surge replicas, with room for its present pods.
type TakeOverWorkload struct {
	Workload Ref
	Budget   Budget
}

// ResumeRollingUpdate lets the workload's own controller replace pods within the budget. It first takes over a Deployment that is not taken over yet.
// The controller of a surged CloneSet creates the surge pods in parallel to all the stable pods that the owner wants.
type ResumeRollingUpdate struct {
	Workload Ref
	Budget   Budget
}

// PauseWorkload pauses the workload once it has reached a step. A surged CloneSet gets its owner's replicas again and stays held.
type PauseWorkload struct {
	Workload Ref
	Budget   Budget
}

// FreezeWorkload pauses the workload, so its controller leaves ReplicaSets as they are. A surged CloneSet then has no room, and its controller
// deletes no ready pod by itself.
type FreezeWorkload struct{ Workload Ref }

// ScaleRevision sets the replicas of one revision. It restores stable pods, removes new pods, or completes a version that was approved as a whole.
type ScaleRevision struct {
	Workload  Ref
	Hash      string
	Replicas  int32
	Completes bool
}

// PartitionWorkload has the workload's controller leave so many pods in their version and replace the others.
type PartitionWorkload struct {
	Workload  Ref
	Partition Amount
}

// ReplacePods deletes so many pods of one revision, pods that serve no requests first. The workload's controller creates them again.
type ReplacePods struct {
	Workload Ref
	Hash     string
	Pods     int32
}

// DeleteRevision deletes one revision of a workload. The revision has no pods.
type DeleteRevision struct {
	Workload Ref
	Hash     string
}

// HoldRevisionUnavailable prevents the pods of one revision of the workload from counting as available.
type HoldRevisionUnavailable struct {
	Workload Ref
	Hash     string
}

// DisableAutoscaler disables an autoscaler for the workload.
type DisableAutoscaler struct{ Object Ref }

// RestoreAutoscaler enables an autoscaler for the workload again.
type RestoreAutoscaler struct{ Object Ref }

// RestoreTemplate gives the workload the pod template of an older revision again.
type RestoreTemplate struct {
	Workload Ref
	// Hash is the pod-template-hash of that revision.
	Hash string
	// Version is the fleet's name of that version. It is "" if the fleet has no name for it, and nil if no fleet governs the Rollout.
	Version *string
}

// SetImages holds the workload and gives its template the images of a permit of the fleet, in one patch.
type SetImages struct {
	Workload Ref
	// Images are the images by the names of all containers.
	Images map[string]string
	// Version is the fleet's name of the version, "" to leave the name on the workload as it is.
	Version string
	Permit  api.PermitNumber
}

// CreateCanary creates the canary workload with the workload's new template. The executor writes Revision on it unchanged, and reads it back as
// [Canary].Revision.
type CreateCanary struct {
	Name     string
	Replicas int32
	Epoch    int64
	Revision string
}

// ScaleCanary sets the replicas of the canary workload. The planner uses it only to scale up.
type ScaleCanary struct {
	Name     string
	Replicas int32
}

// ShrinkCanary scales down the canary workload after its traffic has left.
type ShrinkCanary struct {
	Name     string
	Replicas int32
}

// ScaleWorkload sets the replicas of the workload in a release of constant capacity, and records the replicas that its owner wants.
type ScaleWorkload struct {
	Workload Ref
	Replicas int32
	// ScalesDown: the remaining stable pods get less of the traffic than before if no gateway shares it.
	ScalesDown bool
}

// RestoreReplicas restores the replicas that the owner wants, and removes their record.
type RestoreReplicas struct{ Workload Ref }

// DeleteCanary deletes the canary workload. With Foreground, the canary stays, Deleting, until its last pod is gone. Until then the stable Service
// must not select pods of an unwanted version, and only so does the executor see their end.
type DeleteCanary struct {
	Name       string
	Foreground bool
}

// PinService narrows the stable Service to the pods of the stable revision.
type PinService struct{ Name, Hash string }

// UnpinService restores the stable Service's own selector.
type UnpinService struct{ Name string }

// CreateCanaryService creates the canary Service, a copy of the stable Service that selects the canary's pods.
type CreateCanaryService struct {
	Name, Stable, Hash string
	Epoch              int64
}

// PointCanaryService makes the canary Service select another revision.
type PointCanaryService struct{ Name, Hash string }

// DeleteCanaryService deletes the canary Service.
type DeleteCanaryService struct{ Name string }

// ApplyRoute writes the routing of a step, as the rendering with this digest, to one gateway object. For a step below 0 see [HandBackStep].
type ApplyRoute struct {
	Object Ref
	Step   int32
	Digest string
}

// PrepareRoute creates the objects that a gateway object names in a step, and the copies of policies that the step needs. A gateway must know them
// before it sends requests to the canary.
type PrepareRoute struct {
	Object Ref
	Step   int32
	Digest string
}

// ClearRoute deletes the objects that were created for the route.
type ClearRoute struct{ Object Ref }

// RestoreRoute removes this release from one gateway object. With the last release, it restores the owner's version.
type RestoreRoute struct {
	Object Ref
	// Referenced: objects that are restored earlier may refer to this object, so it waits for all of them.
	Referenced bool
}

// ClaimTrafficRouting asks a TrafficRouting to route for this release.
type ClaimTrafficRouting struct{ Name string }

// FreeTrafficRouting withdraws that request.
type FreeTrafficRouting struct{ Name string }

// ForgetRollouts removes the finalizers of Rollouts that no longer ask for a TrafficRouting.
type ForgetRollouts struct{ Rollouts []string }

func (AddFinalizer) RaisesExposure() bool   { return false }
func (RecordPermit) RaisesExposure() bool   { return false }
func (AdoptWorkload) RaisesExposure() bool  { return false }
func (HoldWorkload) RaisesExposure() bool   { return false }
func (ResumeWorkload) RaisesExposure() bool { return true }
func (ForgetRollouts) RaisesExposure() bool { return false }

func (AddFinalizer) isAction()            {}
func (RecordPermit) isAction()            {}
func (AdoptWorkload) isAction()           {}
func (HoldWorkload) isAction()            {}
func (ResumeWorkload) isAction()          {}
func (ScaleRevision) isAction()           {}
func (DisownWorkload) isAction()          {}
func (RemoveFinalizer) isAction()         {}
func (DeleteRevision) isAction()          {}
func (TakeOverWorkload) isAction()        {}
func (ResumeRollingUpdate) isAction()     {}
func (PauseWorkload) isAction()           {}
func (FreezeWorkload) isAction()          {}
func (PartitionWorkload) isAction()       {}
func (ReplacePods) isAction()             {}
func (HoldRevisionUnavailable) isAction() {}
func (DisableAutoscaler) isAction()       {}
func (RestoreAutoscaler) isAction()       {}
func (RestoreTemplate) isAction()         {}
func (SetImages) isAction()               {}
func (CreateCanary) isAction()            {}
func (ScaleCanary) isAction()             {}
func (ShrinkCanary) isAction()            {}
func (ScaleWorkload) isAction()           {}
func (RestoreReplicas) isAction()         {}
func (DeleteCanary) isAction()            {}
func (PinService) isAction()              {}
func (UnpinService) isAction()            {}
func (CreateCanaryService) isAction()     {}
func (PointCanaryService) isAction()      {}
func (DeleteCanaryService) isAction()     {}
func (ApplyRoute) isAction()              {}
func (PrepareRoute) isAction()            {}
func (ClearRoute) isAction()              {}
func (RestoreRoute) isAction()            {}
func (ClaimTrafficRouting) isAction()     {}
func (FreeTrafficRouting) isAction()      {}
func (LabelPods) isAction()               {}
func (LabelKeptPods) isAction()           {}
func (ForgetRollouts) isAction()          {}

// RaisesExposure is false because the workload is held.
func (SetImages) RaisesExposure() bool { return false }

// RaisesExposure is false for stable pods that return and for new pods that go.
func (a ScaleRevision) RaisesExposure() bool { return a.Completes }

// RaisesExposure is true because disowning also ends a hold.
func (DisownWorkload) RaisesExposure() bool { return true }

// RaisesExposure is true because no status is left to commit after this action.
func (RemoveFinalizer) RaisesExposure() bool { return true }

// RaisesExposure is false because the revision has no pods.
func (DeleteRevision) RaisesExposure() bool { return false }

func (TakeOverWorkload) RaisesExposure() bool        { return false }
func (ResumeRollingUpdate) RaisesExposure() bool     { return true }
func (PauseWorkload) RaisesExposure() bool           { return false }
func (FreezeWorkload) RaisesExposure() bool          { return false }
func (PartitionWorkload) RaisesExposure() bool       { return true }
func (ReplacePods) RaisesExposure() bool             { return true }
func (HoldRevisionUnavailable) RaisesExposure() bool { return false }
func (DisableAutoscaler) RaisesExposure() bool       { return false }
func (RestoreAutoscaler) RaisesExposure() bool       { return false }
func (RestoreTemplate) RaisesExposure() bool         { return false }
func (CreateCanary) RaisesExposure() bool            { return true }
func (ScaleCanary) RaisesExposure() bool             { return true }
func (ShrinkCanary) RaisesExposure() bool            { return false }
func (a ScaleWorkload) RaisesExposure() bool         { return a.ScalesDown }
func (RestoreReplicas) RaisesExposure() bool         { return false }
func (DeleteCanary) RaisesExposure() bool            { return false }
func (PinService) RaisesExposure() bool              { return false }
func (UnpinService) RaisesExposure() bool            { return true }
func (CreateCanaryService) RaisesExposure() bool     { return true }
func (PointCanaryService) RaisesExposure() bool      { return true }
func (DeleteCanaryService) RaisesExposure() bool     { return false }

// RaisesExposure is false for a step below 0, because that step takes traffic from the canary.
func (a ApplyRoute) RaisesExposure() bool        { return a.Step > 0 }
func (PrepareRoute) RaisesExposure() bool        { return true }
func (ClearRoute) RaisesExposure() bool          { return false }
func (RestoreRoute) RaisesExposure() bool        { return false }
func (ClaimTrafficRouting) RaisesExposure() bool { return true }
func (FreeTrafficRouting) RaisesExposure() bool  { return false }

func (AddFinalizer) String() string { return "add finalizer" }
func (a RecordPermit) String() string {
	return fmt.Sprintf("record that permit %d of epoch %d is used", a.Permit.Seq, a.Permit.Epoch)
}
func (RemoveFinalizer) String() string    { return "remove finalizer" }
func (a AdoptWorkload) String() string    { return "adopt " + a.Workload.String() }
func (a DisownWorkload) String() string   { return "disown " + a.Workload.String() }
func (a HoldWorkload) String() string     { return "hold " + a.Workload.String() }
func (a TakeOverWorkload) String() string { return "take over " + a.Workload.String() }
func (a ResumeWorkload) String() string {
	if a.Paused {
		return "release " + a.Workload.String() + ", paused"
	}
	return "resume " + a.Workload.String()
}
func (a ResumeRollingUpdate) String() string {
	return fmt.Sprintf("let %s replace pods: %s", a.Workload, a.Budget)
}
func (a PauseWorkload) String() string  { return "pause " + a.Workload.String() }
func (a FreezeWorkload) String() string { return "freeze " + a.Workload.String() }
func (a ScaleRevision) String() string {
	return fmt.Sprintf("scale %s of %s to %d", a.Hash, a.Workload, a.Replicas)
}
func (a PartitionWorkload) String() string {
	return fmt.Sprintf("let %s replace pods: all but %s", a.Workload, a.Partition)
}
func (a ReplacePods) String() string {
	return fmt.Sprintf("replace %d pods of %s of %s", a.Pods, a.Hash, a.Workload)
}
func (a DeleteRevision) String() string { return fmt.Sprintf("delete %s of %s", a.Hash, a.Workload) }
func (a HoldRevisionUnavailable) String() string {
	return fmt.Sprintf("hold %s of %s unavailable", a.Hash, a.Workload)
}
func (a DisableAutoscaler) String() string { return "disable " + a.Object.String() }
func (a RestoreAutoscaler) String() string { return "restore " + a.Object.String() }
func (a RestoreTemplate) String() string {
	return fmt.Sprintf("restore the template of %s on %s", a.Hash, a.Workload)
}
func (a SetImages) String() string {
	return fmt.Sprintf("set the images of permit %d of epoch %d on %s", a.Permit.Seq, a.Permit.Epoch, a.Workload)
}
func (a CreateCanary) String() string {
	return fmt.Sprintf("create canary %s with %d replicas", a.Name, a.Replicas)
}
func (a ScaleCanary) String() string {
	return fmt.Sprintf("scale canary %s to %d replicas", a.Name, a.Replicas)
}
func (a ShrinkCanary) String() string {
	return fmt.Sprintf("scale down canary %s to %d replicas", a.Name, a.Replicas)
}
func (a ScaleWorkload) String() string {
	return fmt.Sprintf("scale %s to %d replicas", a.Workload, a.Replicas)
}
func (a RestoreReplicas) String() string { return "give " + a.Workload.String() + " its replicas back" }
func (a DeleteCanary) String() string    { return "delete canary " + a.Name }
func (a PinService) String() string      { return fmt.Sprintf("pin Service %s to %s", a.Name, a.Hash) }
func (a UnpinService) String() string    { return "unpin Service " + a.Name }
func (a CreateCanaryService) String() string {
	return fmt.Sprintf("create Service %s selecting %s", a.Name, a.Hash)
}
func (a PointCanaryService) String() string {
	return fmt.Sprintf("point Service %s to %s", a.Name, a.Hash)
}
func (a DeleteCanaryService) String() string { return "delete Service " + a.Name }
func (a ApplyRoute) String() string {
	if a.Step < 0 {
		return fmt.Sprintf("leave %d%% on the canary by %s", -a.Step, a.Object)
	}
	return fmt.Sprintf("route step %d on %s", a.Step, a.Object)
}
func (a PrepareRoute) String() string {
	return fmt.Sprintf("create the objects that step %d of %s references", a.Step, a.Object)
}
func (a ClearRoute) String() string          { return "delete the objects created for " + a.Object.String() }
func (a RestoreRoute) String() string        { return "restore " + a.Object.String() }
func (a ClaimTrafficRouting) String() string { return "claim TrafficRouting " + a.Name }
func (a FreeTrafficRouting) String() string  { return "release TrafficRouting " + a.Name }

// LabelPods adds OpenKruise's labels for the release and the batch to new pods without them.
type LabelPods struct {
	// RolloutID is the owner's id of the release. Revision replaces it if it is not a valid label value.
	RolloutID, Revision string
	// Plan has the number of pods of each batch, from batch 1 to that of the current step.
	Plan []int32
}

// RaisesExposure is false because no selector uses these labels.
func (LabelPods) RaisesExposure() bool { return false }

func (a LabelPods) String() string { return fmt.Sprintf("label pods of batch %d", len(a.Plan)) }

// LabelKeptPods marks the pods that already run the version of a rollback, so they need no update.
type LabelKeptPods struct {
	// RolloutID is the id of the rollback. Revision replaces it if it is not a valid label value.
	RolloutID, Revision string
}

// RaisesExposure is false because no selector uses these labels.
func (LabelKeptPods) RaisesExposure() bool { return false }

func (LabelKeptPods) String() string { return "mark the pods that need no update" }

func (f ForgetRollouts) String() string {
	return "take the finalizers of Rollouts off that no longer name it: " + strings.Join(f.Rollouts, ", ")
}
