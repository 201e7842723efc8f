package api

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Labels of OpenKruise Rollouts.
const (
	// LabelWorkloadType marks an adopted workload; its values are the WorkloadType constants.
	LabelWorkloadType = "rollouts.kruise.io/workload-type"
	// LabelRolloutID carries the id of the release, on the workload (set by users) and on pods.
	LabelRolloutID = "rollouts.kruise.io/rollout-id"
	// LabelRolloutBatchID carries the batch of a pod, counted from 1.
	LabelRolloutBatchID = "rollouts.kruise.io/rollout-batch-id"
	// LabelStableRevision carries, on a Deployment during a release in its own pods, the pod-template-hash of its stable revision.
	LabelStableRevision = "rollouts.kruise.io/stable-revision"
	// LabelNoNeedUpdate marks pods that a rollback in batches keeps, with the id of that release.
	LabelNoNeedUpdate = "rollouts.kruise.io/no-need-update"
	// LabelCanaryDeployment carries, on a canary Deployment, the name of the stable one.
	LabelCanaryDeployment = "rollouts.kruise.io/canary-deployment"
	// LabelRolloutName carries, on a RolloutHistory, the name of the Rollout.
	LabelRolloutName = "rollouts.kruise.io/rollout-name"
)

// LabelRolloutUID carries the UID of the Rollout, on everything that Sluice makes.
const LabelRolloutUID = "sluice.dev/rollout-uid"

// LabelOriginalOf carries the UID of a gateway object, on the ControllerRevisions that hold its original.
const LabelOriginalOf = "sluice.dev/original-of"

// Labels of Kubernetes that select revisions of a workload.
const (
	LabelPodTemplateHash        = "pod-template-hash"
	LabelControllerRevisionHash = "controller-revision-hash"
)

// Labels of FleetTargets.
const (
	// LabelFleetRollout is the name of the FleetRollout, or its UID if the name is too long for a label.
	LabelFleetRollout = "sluice.dev/fleet-rollout"
	// LabelFleetMember is the name of the FleetMember.
	LabelFleetMember = "sluice.dev/fleet-member"
)

// Values of LabelWorkloadType.
const (
	WorkloadTypeDeployment  = "deployment"
	WorkloadTypeCloneSet    = "cloneset"
	WorkloadTypeStatefulSet = "statefulset"
	WorkloadTypeDaemonSet   = "daemonset"
)

// RolloutID is the id that the owner of a workload gave its release, "" for none: the annotation, else the label. An annotation that is
// empty counts. It names the release and its pods.
func RolloutID(workload metav1.Object) string {
	if id, is := workload.GetAnnotations()[AnnotationRolloutID]; is {
		return id
	}
	return workload.GetLabels()[LabelRolloutID]
}

// RolloutIDLetsThrough reports whether a change of the pod template under the rollout-id that the workload has is no release and rolls out by
// itself, which is OpenKruise's rule: the id is an annotation, and the version that is stable has it. The admission policies
// use the same rule.
func RolloutIDLetsThrough(workload metav1.Object) bool {
	annotations := workload.GetAnnotations()
	id := annotations[AnnotationRolloutID]
	return id != "" && id == annotations[AnnotationStableRolloutID]
}
