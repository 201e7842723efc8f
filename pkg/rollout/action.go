package rollout

import (
	"fmt"
	"strings"
)

// Action is one change to the world. The set is closed: isAction is not exported, so every action is a type of this file. A run may stop after any
// action of a decision. Each action is idempotent: the executor adds the precondition (resourceVersion or UID) of the observed object.
type Action interface {
	fmt.Stringer
	isAction()
	// RaisesExposure reports whether the action raises exposure or creates an object. Such an action is taken only after the status
	// that intends it has been committed.
	RaisesExposure() bool
}

// AddFinalizer puts our finalizer on the Rollout, so that nothing of a release outlives it.
type AddFinalizer struct{}

// RemoveFinalizer lets the Rollout go. It is the last action of its life.
type RemoveFinalizer struct{}

// AdoptWorkload marks the workload as ours, so that the admission policies hold its next change.
type AdoptWorkload struct {
	Workload Ref
	StableID StableID
}

// StableID says, after an action, whether the rollout-id of the stable version is known.
type StableID string

// Values of StableID.
const (
	StableIDKept    StableID = ""        // the earlier value
	StableIDPresent StableID = "present" // the workload has it
	StableIDUnknown StableID = "unknown"
)

// DisownWorkload takes all our marks off the workload.
type DisownWorkload struct{ Workload Ref }

// HoldWorkload pauses the workload and marks it as being released: the second net under the admission policies.
type HoldWorkload struct{ Workload Ref }

// ResumeWorkload gives the held fields back as their owner last set them and ends the hold, in one patch.
type ResumeWorkload struct {
	Workload Ref
	StableID StableID
	// Paused leaves it where it has come to: the field that keeps its controller from going on stays, as its owner's from now on.
	Paused bool
	// Surge is the number of pods above its replicas that a paused Deployment with two versions keeps. The action assigns it to the Deployment
	// controller, which would otherwise fill the owner's surge in proportion to the versions.
	Surge int32
}

// TakeOverWorkload holds the workload, and takes over the fields that let its own controller go on or give up by itself: new pods do not count as
// available, no deadline passes, and the budget allows no further replacement. Without a budget its controller leaves ReplicaSets as they are. A
// CloneSet gets surge replicas for the pods that it has.
type TakeOverWorkload struct {
	Workload Ref
	Budget   Budget
}

// ResumeRollingUpdate lets the workload's own controller replace pods within the budget, and takes over a Deployment that is not taken over yet. The
// controller of a surged workload creates the pods of the surge in parallel with as many stable ones as the owner wants in all.
type ResumeRollingUpdate struct {
	Workload Ref
	Budget   Budget
}

// PauseWorkload pauses the workload where it is, once it has reached a step. A widened one gets its owner's replicas back, and stays held.
type PauseWorkload struct {
	Workload Ref
	Budget   Budget
}

// FreezeWorkload pauses the workload so that its controller leaves ReplicaSets as they are. A widened one has no room then, and takes no
// pod that is ready by itself.
type FreezeWorkload struct{ Workload Ref }

// ScaleRevision sets the replicas of one revision of a workload that retreats: it brings stable pods back, takes new ones away, or completes a
// version that was agreed to as a whole.
type ScaleRevision struct {
	Workload  Ref
	Hash      string
	Replicas  int32
	Completes bool
}

// PartitionWorkload has the workload's controller leave so many pods in the version that they have, and replace the others.
type PartitionWorkload struct {
	Workload  Ref
	Partition Amount
}

// ReplacePods deletes so many pods of one revision, those that serve least first. The workload's controller creates new ones.
type ReplacePods struct {
	Workload Ref
	Hash     string
	Pods     int32
}

// DeleteRevision deletes one revision of a workload that has no pods.
type DeleteRevision struct {
	Workload Ref
	Hash     string
}

// HoldRevisionUnavailable has the pods of one revision of the workload never count as available.
type HoldRevisionUnavailable struct {
	Workload Ref
	Hash     string
}

// DisableAutoscaler takes an autoscaler off the workload.
type DisableAutoscaler struct{ Object Ref }

// RestoreAutoscaler gives the workload back to an autoscaler.
type RestoreAutoscaler struct{ Object Ref }

// RestoreTemplate gives the workload the pod template of an older revision again.
type RestoreTemplate struct {
	Workload Ref
	// Hash is the pod-template-hash of that revision.
	Hash string
}

// CreateCanary creates the canary workload with the workload's new template. Revision is written on it as it is, and comes back as
// [Canary].Revision.
type CreateCanary struct {
	Name     string
	Replicas int32
	Epoch    int64
	Revision string
}

// ScaleCanary sets the replicas of the canary workload. The core only ever scales up.
type ScaleCanary struct {
	Name     string
	Replicas int32
}

// ShrinkCanary takes pods of the canary workload away whose traffic has left.
type ShrinkCanary struct {
	Name     string
	Replicas int32
}

// ScaleWorkload sets the replicas of the stable workload of a canary, and records the owner's number.
type ScaleWorkload struct {
	Workload Ref
	Replicas int32
	// ScalesDown: the remaining pods get a smaller share of the traffic than before, if no gateway shares it.
	ScalesDown bool
}

// RestoreReplicas gives the workload the replicas that its owner wants, and forgets that they were ours.
type RestoreReplicas struct{ Workload Ref }

// DeleteCanary deletes the canary workload. In the foreground it stays, Deleting, until its last pod is gone. The stable Service must not reach pods
// of an unwanted version, and the executor sees their end only this way.
type DeleteCanary struct {
	Name       string
	Foreground bool
}

// PinService narrows the stable Service to the pods of the stable revision.
type PinService struct{ Name, Hash string }

// UnpinService gives the stable Service its own selector back.
type UnpinService struct{ Name string }

// CreateCanaryService creates the canary Service, a copy of the stable one that selects the canary's pods.
type CreateCanaryService struct {
	Name, Stable, Hash string
	Epoch              int64
}

// PointCanaryService selects another revision of the canary.
type PointCanaryService struct{ Name, Hash string }

// DeleteCanaryService deletes the canary Service.
type DeleteCanaryService struct{ Name string }

// ApplyRoute writes the routing of a step to one gateway object: the rendering with that digest. A step below 0 is a [HandBackStep].
type ApplyRoute struct {
	Object Ref
	Step   int32
	Digest string
}

// PrepareRoute makes the objects that a gateway object will name in a step, and the copies of policies that the step needs. A gateway must know them before it
// sends requests to the canary.
type PrepareRoute struct {
	Object Ref
	Step   int32
	Digest string
}

// ClearRoute deletes the objects that a release created for a gateway object.
type ClearRoute struct{ Object Ref }

// RestoreRoute takes this release off one gateway object; the last release off restores the owner's own version.
type RestoreRoute struct {
	Object Ref
	// Referenced: those restored before it may refer to it, so that it waits until they all are.
	Referenced bool
}

// ClaimTrafficRouting asks a TrafficRouting to route for this release.
type ClaimTrafficRouting struct{ Name string }

// FreeTrafficRouting no longer asks it to.
type FreeTrafficRouting struct{ Name string }

// ForgetRollouts takes the finalizers of Rollouts off that no longer ask for a TrafficRouting.
type ForgetRollouts struct{ Rollouts []string }

func (AddFinalizer) RaisesExposure() bool   { return false }
func (AdoptWorkload) RaisesExposure() bool  { return false }
func (HoldWorkload) RaisesExposure() bool   { return false }
func (ResumeWorkload) RaisesExposure() bool { return true }
func (ForgetRollouts) RaisesExposure() bool { return false }

func (AddFinalizer) isAction()            {}
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

// ScaleRevision raises nothing with stable pods that come back, or new ones that go.
func (a ScaleRevision) RaisesExposure() bool { return a.Completes }

// DisownWorkload ends a hold as well.
func (DisownWorkload) RaisesExposure() bool { return true }

// RemoveFinalizer raises nothing, but after it there is no status left to commit.
func (RemoveFinalizer) RaisesExposure() bool { return true }

// DeleteRevision takes away what has no pods.
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

// RaisesExposure is false for a step below 0: it takes traffic from the canary.
func (a ApplyRoute) RaisesExposure() bool        { return a.Step > 0 }
func (PrepareRoute) RaisesExposure() bool        { return true }
func (ClearRoute) RaisesExposure() bool          { return false }
func (RestoreRoute) RaisesExposure() bool        { return false }
func (ClaimTrafficRouting) RaisesExposure() bool { return true }
func (FreeTrafficRouting) RaisesExposure() bool  { return false }

func (AddFinalizer) String() string       { return "add finalizer" }
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

// LabelPods tells the new pods that do not know it yet which release and batch they belong to, by OpenKruise's labels.
type LabelPods struct {
	// RolloutID is the owner's id of the release. Where it makes no label value, Revision stands in.
	RolloutID, Revision string
	// Batch is the step, counted from 1.
	Batch int32
}

// RaisesExposure is false: labels that nothing selects by expose nothing.
func (LabelPods) RaisesExposure() bool { return false }

func (a LabelPods) String() string { return fmt.Sprintf("label pods of batch %d", a.Batch) }

// LabelKeptPods marks the pods that run the version of a rollback already, and so need no update.
type LabelKeptPods struct {
	// RolloutID is the id of the rollback. Where it makes no label value, Revision stands in.
	RolloutID, Revision string
}

// RaisesExposure is false: labels that nothing selects by expose nothing.
func (LabelKeptPods) RaisesExposure() bool { return false }

func (LabelKeptPods) String() string { return "mark the pods that need no update" }

func (f ForgetRollouts) String() string {
	return "take the finalizers of Rollouts off that no longer name it: " + strings.Join(f.Rollouts, ", ")
}
