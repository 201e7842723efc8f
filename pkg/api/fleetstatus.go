package api

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// FleetRolloutStatus is what the hub has decided for one release over many clusters. Epoch, Grant.Seq, PauseSeq and TransitionSeq never go
// down.
type FleetRolloutStatus struct {
	// Number of the release or withdrawal. It grows, also over a hub that was restored or made again.
	// +optional
	Epoch int64 `json:"epoch,omitempty"`
	// The epoch in which the release began. A hub that was restored goes on with it in a newer epoch.
	// +optional
	Began int64 `json:"began,omitempty"`
	// Release, Withdraw or Abort: what the permits of this epoch are for.
	// +optional
	Verb FleetVerb `json:"verb,omitempty"`
	// The version that the epoch is about.
	// +optional
	Release *FleetRelease `json:"release,omitempty"`
	// The plan that the release began with. A change of the FleetPlan counts for the next release.
	// +optional
	Plan *FleetStrategy `json:"plan,omitempty"`
	// The last grant.
	// +optional
	Grant *FleetGrant `json:"grant,omitempty"`
	// Phase of the release over all clusters.
	// +optional
	Phase FleetPhase `json:"phase,omitempty"`
	// Why the phase is what it is, as one word.
	// +optional
	Reason string `json:"reason,omitempty"`
	// The same as a sentence, with the next thing to do.
	// +optional
	Message string `json:"message,omitempty"`
	// How many clusters have each phase.
	// +optional
	Counts map[FleetTargetPhase]int32 `json:"counts,omitempty"`
	// What needs a person, the oldest first. At most 20 entries.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=20
	Attention []FleetAttention `json:"attention,omitempty"`
	// Conditions of the release: Ready, Reconciling, and Stalled if a person must act.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// The generation of the FleetRollout that the rest of the status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// The wave under way, counted from 1.
	// +optional
	Wave int32 `json:"wave,omitempty"`
	// The waves that have begun, in the order of the plan.
	// +optional
	// +listType=atomic
	Waves []FleetWaveStatus `json:"waves,omitempty"`
	// Clusters that a person told the release to pass over.
	// +optional
	// +listType=atomic
	Skipped []string `json:"skipped,omitempty"`
	// Clusters that a person told to try again, and that have no newer permit yet.
	// +optional
	// +listType=atomic
	Retries []string `json:"retries,omitempty"`
	// Versions that were withdrawn. No cluster gets a permit for one before a person unblocks it.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Blocked []FleetBlock `json:"blocked,omitempty"`
	// The last wave whose pauses a person told the release to pass over, counted from 1.
	// +optional
	Promoted int32 `json:"promoted,omitempty"`
	// The same for the soaks of those waves.
	// +optional
	SkipSoak bool `json:"skipSoak,omitempty"`
	// Names of templates whose analyses the clusters of those waves skip.
	// +optional
	// +listType=atomic
	SkipAnalyses []string `json:"skipAnalyses,omitempty"`
	// A person paused the release by a command.
	// +optional
	Paused bool `json:"paused,omitempty"`
	// The hub found reports that are newer than its own memory. It gives no forward permit before a person resumes.
	// +optional
	Restored bool `json:"restored,omitempty"`
	// Since when more than half of the members are cut off from the hub.
	// +optional
	CutOffSince *metav1.MicroTime `json:"cutOffSince,omitempty"`
	// Counts the pauses that were entered.
	// +optional
	PauseSeq int64 `json:"pauseSeq,omitempty"`
	// The decisions of persons and programs about pauses, the latest ones.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Approvals []FleetApproval `json:"approvals,omitempty"`
	// A command for the release.
	// +optional
	Command *FleetCommand `json:"command,omitempty"`
	// Counts the transitions.
	// +optional
	TransitionSeq int64 `json:"transitionSeq,omitempty"`
	// The latest transitions, oldest first.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	Transitions []FleetTransition `json:"transitions,omitempty"`
}

// FleetAttention is something that needs a person.
type FleetAttention struct {
	// The cluster. Absent for the release as a whole.
	// +optional
	Cluster string `json:"cluster,omitempty"`
	// The phase of the cluster.
	// +optional
	Phase FleetTargetPhase `json:"phase,omitempty"`
	// Why, as one word.
	Reason string `json:"reason"`
	// Since when.
	// +optional
	Since *metav1.MicroTime `json:"since,omitempty"`
	// What to do.
	// +optional
	Message string `json:"message,omitempty"`
}

// FleetPhase is the phase of a release over all clusters.
type FleetPhase string

// Values of FleetPhase.
const (
	FleetPhaseIdle        FleetPhase = "Idle"
	FleetPhaseWaiting     FleetPhase = "Waiting"
	FleetPhaseProgressing FleetPhase = "Progressing"
	FleetPhaseSoaking     FleetPhase = "Soaking"
	FleetPhasePaused      FleetPhase = "Paused"
	FleetPhaseStalled     FleetPhase = "Stalled"
	FleetPhaseWithdrawing FleetPhase = "Withdrawing"
	FleetPhaseWithdrawn   FleetPhase = "Withdrawn"
	FleetPhaseAborted     FleetPhase = "Aborted"
	FleetPhaseSucceeded   FleetPhase = "Succeeded"
)

// FleetVerb is what a permit tells a member.
//
// +kubebuilder:validation:Enum=Release;Hold;Abort;Withdraw
type FleetVerb string

// Values of FleetVerb.
const (
	// FleetVerbRelease allows one release of the version, up to the step of HoldAt.
	FleetVerbRelease FleetVerb = "Release"
	// FleetVerbHold allows no further step.
	FleetVerbHold FleetVerb = "Hold"
	// FleetVerbAbort takes a release under way back, and leaves a completed one.
	FleetVerbAbort FleetVerb = "Abort"
	// FleetVerbWithdraw takes the version back, also where it has completed, and blocks it.
	FleetVerbWithdraw FleetVerb = "Withdraw"
)

// FleetRelease names the version of a release.
//
// +kubebuilder:validation:XValidation:rule="has(self.version) || has(self.images)",message="name the release by version, by images, or by both"
type FleetRelease struct {
	// The version that the workloads carry: the annotation sluice.dev/version, or else their rollout-id.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[!-~]+$')",message="write a version of 1 to 253 ASCII characters without spaces"
	Version string `json:"version,omitempty"`
	// Images by the names of their containers.
	// +optional
	// +kubebuilder:validation:MinProperties=1
	// +kubebuilder:validation:MaxProperties=64
	// +kubebuilder:validation:XValidation:rule="self.all(c, c != '' && c.size() <= 63 && self[c] != '')",message="give each container a name of 1 to 63 characters and an image"
	Images map[string]string `json:"images,omitempty"`
}

// FleetGrant is the last group of permits that the hub gave.
type FleetGrant struct {
	// The release or withdrawal that it belongs to.
	Epoch int64 `json:"epoch"`
	// Counts the grants. It never falls.
	Seq int64 `json:"seq"`
	// What the permits say.
	Verb FleetVerb `json:"verb"`
	// The step at which the clusters hold, counted from 1. 0: they go on to the end.
	// +optional
	HoldAt int32 `json:"holdAt,omitempty"`
	// The wave that it was given for, counted from 1. 0 for a grant over all waves.
	// +optional
	Wave int32 `json:"wave,omitempty"`
	// When it was given.
	Time metav1.MicroTime `json:"time"`
	// The clusters that got it.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=500
	Clusters []string `json:"clusters"`
}

// FleetWaveStatus is a wave that has begun.
type FleetWaveStatus struct {
	// Name of the wave in the plan.
	Name string `json:"name"`
	// How far the wave has come.
	Stage FleetWaveStage `json:"stage"`
	// When the stage began.
	Since metav1.MicroTime `json:"since"`
	// When the wave began.
	Began metav1.MicroTime `json:"began"`
	// Since when the hub waits until the version has arrived: since the wave began, since its last cluster joined, or since the last pause.
	DeliveryFrom metav1.MicroTime `json:"deliveryFrom"`
	// How many clusters the wave has had when it began. Percentages are about this number, also after other clusters have joined. Absent in a wave that began with none.
	// +optional
	Size int32 `json:"size,omitempty"`
	// The clusters of the wave, in the order of their permits.
	// +optional
	// +listType=atomic
	Clusters []string `json:"clusters,omitempty"`
}

// FleetWaveStage is how far a wave has come.
type FleetWaveStage string

// Values of FleetWaveStage, in their order.
const (
	// FleetWaveToHold: the clusters go to the step of holdAt.
	FleetWaveToHold FleetWaveStage = "ToHold"
	// FleetWaveHoldSoak: all clusters are at that step, and soak.
	FleetWaveHoldSoak FleetWaveStage = "HoldSoak"
	// FleetWaveHoldPause: the wave waits at that step, for an approval or for a time.
	FleetWaveHoldPause FleetWaveStage = "HoldPause"
	// FleetWaveGoing: the clusters go to the end of their releases, and soak.
	FleetWaveGoing FleetWaveStage = "Going"
	// FleetWavePause: the wave waits at its end, for an approval or for a time.
	FleetWavePause FleetWaveStage = "Pause"
	// FleetWavePassed: the next wave may begin.
	FleetWavePassed FleetWaveStage = "Passed"
	// FleetWaveSkipped: a person told the release to go on, although no cluster of the wave has proven the version.
	FleetWaveSkipped FleetWaveStage = "Skipped"
)

// MaxFleetBlocks is how many withdrawn versions a status keeps, the latest ones.
const MaxFleetBlocks = 64

// FleetBlock is a version that was withdrawn.
type FleetBlock struct {
	// The version: version/ and its name, or images/ and the digest of its images.
	Version string `json:"version"`
	// The withdrawal, or the release at which a person unblocked it.
	Epoch int64 `json:"epoch"`
	// A person unblocked it. The entry stays, because members may still report the withdrawal.
	// +optional
	Unblocked bool `json:"unblocked,omitempty"`
}

// FleetApproval is a decision that was accepted. It counts for one pause of one wave.
type FleetApproval struct {
	// The wave it was for, counted from 1.
	Wave int32 `json:"wave"`
	// The release it was for.
	Epoch int64 `json:"epoch"`
	// The pause it was for.
	PauseSeq int64 `json:"pauseSeq"`
	// approve or reject.
	Decision Decision `json:"decision"`
	// The user or principal who decided.
	// +optional
	Actor string `json:"actor,omitempty"`
	// When it was accepted.
	Time metav1.MicroTime `json:"time"`
	// The id of the event that brought it.
	// +optional
	EventID string `json:"eventID,omitempty"`
	// The source of the event that brought it.
	// +optional
	Source string `json:"source,omitempty"`
	// The comment of the actor.
	// +optional
	Comment string `json:"comment,omitempty"`
}

// FleetCommand tells the hub to do something with a release. It counts for that release only, and is taken away once it was followed or
// refused.
type FleetCommand struct {
	// The order.
	Action FleetCommandAction `json:"action"`
	// The release it is for, as in status.epoch.
	Epoch int64 `json:"epoch"`
	// The pause that Approve and Reject are for, as in status.pauseSeq.
	// +optional
	PauseSeq int64 `json:"pauseSeq,omitempty"`
	// The clusters that Retry and Skip are for.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=500
	Clusters []string `json:"clusters,omitempty"`
	// The version that Unblock is for, as in status.blocked.
	// +optional
	Version string `json:"version,omitempty"`
	// The last wave that Promote is for, counted from 1. 0: the wave under way.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Through int32 `json:"through,omitempty"`
	// Promote also passes over soaks.
	// +optional
	SkipSoak bool `json:"skipSoak,omitempty"`
	// Promote also passes over the analyses of these AnalysisTemplates and ClusterAnalysisTemplates.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	SkipAnalyses []string `json:"skipAnalyses,omitempty"`
	// The user who gives it.
	// +kubebuilder:validation:MaxLength=1024
	Actor string `json:"actor"`
	// Why it is given.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Comment string `json:"comment,omitempty"`
}

// FleetCommandAction is what a command asks for.
//
// +kubebuilder:validation:Enum=Approve;Reject;Pause;Resume;Rollback;Abort;Retry;Skip;Promote;Unblock
type FleetCommandAction string

// Values of FleetCommandAction.
const (
	FleetCommandApprove  FleetCommandAction = "Approve"
	FleetCommandReject   FleetCommandAction = "Reject"
	FleetCommandPause    FleetCommandAction = "Pause"
	FleetCommandResume   FleetCommandAction = "Resume"
	FleetCommandRollback FleetCommandAction = "Rollback"
	FleetCommandAbort    FleetCommandAction = "Abort"
	FleetCommandRetry    FleetCommandAction = "Retry"
	FleetCommandSkip     FleetCommandAction = "Skip"
	FleetCommandPromote  FleetCommandAction = "Promote"
	FleetCommandUnblock  FleetCommandAction = "Unblock"
)

// FleetTransition is one change of a release over many clusters.
type FleetTransition struct {
	// Number of the transition.
	Seq int64 `json:"seq"`
	// When it happened.
	Time metav1.MicroTime `json:"time"`
	// The phase or the stage of a wave that was left.
	// +optional
	From string `json:"from,omitempty"`
	// The phase or the stage of a wave that was entered.
	To string `json:"to"`
	// The wave it happened in, counted from 1. 0 outside of waves.
	// +optional
	Wave int32 `json:"wave,omitempty"`
	// The release, abort or withdrawal that it belongs to.
	// +optional
	Epoch int64 `json:"epoch,omitempty"`
	// The epoch in which that release began.
	// +optional
	Began int64 `json:"began,omitempty"`
	// The version of that release, as in permits.
	// +optional
	Version string `json:"version,omitempty"`
	// Why, as one word.
	// +optional
	Reason string `json:"reason,omitempty"`
	// Why, as a sentence.
	// +optional
	Message string `json:"message,omitempty"`
	// The user or principal that caused it.
	// +optional
	Actor string `json:"actor,omitempty"`
}
