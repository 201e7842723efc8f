package api

// Annotations of OpenKruise Rollouts.
const (
	// AnnotationRollingStyle selects the style of a Rollout in the v1alpha1 form; case does
	// not matter, absent means canary.
	AnnotationRollingStyle = "rollouts.kruise.io/rolling-style"
	// AnnotationTrafficRouting names the TrafficRouting that a Rollout drives.
	AnnotationTrafficRouting = "rollouts.kruise.io/trafficrouting"
	// AnnotationRollbackInBatch, when "true", rolls back step by step.
	AnnotationRollbackInBatch = "rollouts.kruise.io/rollback-in-batch"
	// AnnotationKeepPaused on a Rollout, when "true", leaves a workload paused when the Rollout is deleted during its release.
	AnnotationKeepPaused = "sluice.dev/keep-paused"
	// AnnotationRolloutID is the annotation form of LabelRolloutID, on a workload.
	AnnotationRolloutID = "rollouts.kruise.io/rollout-id"
	// AnnotationInProgressing marks a held workload; the value is {"rolloutName":"<name>"}.
	AnnotationInProgressing = "rollouts.kruise.io/in-progressing"
	// AnnotationRolloutHash carries, on a Rollout, the hash of its steps and its routing, as in status.canaryStatus.rolloutHash.
	AnnotationRolloutHash = "rollouts.kruise.io/hash"
	// AnnotationOriginalStrategy carries, on a Deployment during a blue-green release, the fields that its owner gets back, as JSON: maxUnavailable,
	// maxSurge, minReadySeconds and progressDeadlineSeconds.
	AnnotationOriginalStrategy = "rollouts.kruise.io/original-deployment-strategy"
	// AnnotationOriginalSpec carries, on a gateway object, its {spec,labels,annotations}
	// from before the release, as compact JSON.
	AnnotationOriginalSpec = "rollouts.kruise.io/original-spec-configuration"
)

// Annotations of Sluice.
const (
	// AnnotationRollout carries, on an adopted workload, the name of its Rollout.
	AnnotationRollout = "sluice.dev/rollout"
	// AnnotationStableRolloutID carries, on an adopted workload, the rollout-id of the version that is stable.
	AnnotationStableRolloutID = "sluice.dev/stable-rollout-id"
	// AnnotationOriginalPrefix and the name of a field is the annotation that keeps the owner's
	// value of a held field, on a workload.
	AnnotationOriginalPrefix = "sluice.dev/original."
	// AnnotationSurgeReplicas carries, on a workload with surge replicas, the replicas that the release gives it. Any other number is the owner's.
	AnnotationSurgeReplicas = "sluice.dev/surge-replicas"
	// AnnotationAssignedReplicas carries, on a workload that a release scales down, the replicas that the
	// release gives it. AnnotationOriginalPrefix with replicas keeps the owner's number.
	AnnotationAssignedReplicas = "sluice.dev/assigned-replicas"
	// AnnotationAllowNamespaces lists, on a cluster-scoped gateway object, the namespaces whose releases may change it, with commas
	// between them; * is all.
	AnnotationAllowNamespaces = "sluice.dev/allow-namespaces"
	// AnnotationReleases lists, on a gateway object, the releases that shape it.
	AnnotationReleases = "sluice.dev/releases"
	// AnnotationRendered carries, on a gateway object, the digest of the last written content.
	AnnotationRendered = "sluice.dev/rendered"
	// AnnotationEpoch carries, on created objects, the release that they belong to.
	AnnotationEpoch = "sluice.dev/epoch"
	// AnnotationVersion carries, on a workload, the name of its version for a fleet.
	AnnotationVersion = "sluice.dev/version"
	// AnnotationPermitUsed carries, on a Rollout of a fleet, the epoch and the number of the last permit that a release has used
	// up, with a dot between them.
	AnnotationPermitUsed = "sluice.dev/permit-used"
	// AnnotationDelivered carries, on a workload, the epoch and the number of the permit whose images the executor has set, with a dot between
	// them.
	AnnotationDelivered = "sluice.dev/delivered"
	// AnnotationOverride, when "true" on a script ConfigMap, lets its scripts win over built-in ones.
	AnnotationOverride = "sluice.dev/override"
)

// Values of AnnotationRollingStyle.
const (
	RollingStyleCanary    = "canary"
	RollingStylePartition = "partition"
	RollingStyleBlueGreen = "bluegreen"
)
