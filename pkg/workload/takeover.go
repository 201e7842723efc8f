package workload

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
)

const (
	// maxReadySeconds is the time for which a new pod of a taken-over Deployment must be ready to count as available: it never does. The API needs a
	// longer deadline. Both values are OpenKruise's.
	maxReadySeconds    = math.MaxInt32 - 1
	maxProgressSeconds = math.MaxInt32

	annotationOriginalReady       = api.AnnotationOriginalPrefix + "minReadySeconds"
	annotationOriginalDeadline    = api.AnnotationOriginalPrefix + "progressDeadlineSeconds"
	annotationOriginalSurge       = api.AnnotationOriginalPrefix + "maxSurge"
	annotationOriginalUnavailable = api.AnnotationOriginalPrefix + "maxUnavailable"
	annotationOriginalType        = api.AnnotationOriginalPrefix + "type"

	// Defaults that the API server sets for absent fields.
	defaultDeadline = 600
	defaultBudget   = "25%"
)

// TakeOverDeployment holds the Deployment and takes over what would let its controller go on, or give up, by itself. Its owner's values are remembered
// in annotations, as text; those that are remembered already stay.
func TakeOverDeployment(d *appsv1.Deployment, rolloutName string, b rollout.Budget) Patch {
	if b == (rollout.Budget{}) {
		return takeOverPatch(d, rolloutName, true, recreateStrategy())
	}
	return takeOverPatch(d, rolloutName, true, rollingUpdateStrategy(b))
}

// ResumeRollingUpdate lets a Deployment replace pods within the budget. The same patch takes over a Deployment that is not taken over yet.
func ResumeRollingUpdate(d *appsv1.Deployment, rolloutName string, b rollout.Budget) Patch {
	if !isTakenOver(d) {
		return takeOverPatch(d, rolloutName, false, rollingUpdateStrategy(b))
	}
	return newPatch(d, nil, nil, map[string]any{"paused": false, "strategy": rollingUpdateStrategy(b)})
}

func takeOverPatch(d *appsv1.Deployment, rolloutName string, paused bool, strategy map[string]any) Patch {
	annotations := holdMarks(d, rolloutName)
	if !hasOriginals(d) {
		rolling := ownRolling(d)
		annotations[annotationOriginalReady] = strconv.Itoa(int(d.Spec.MinReadySeconds))
		annotations[annotationOriginalDeadline] = strconv.Itoa(int(progressDeadline(d)))
		annotations[annotationOriginalSurge] = rolling.MaxSurge.String()
		annotations[annotationOriginalUnavailable] = rolling.MaxUnavailable.String()
		annotations[annotationOriginalType] = nil
		if d.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType {
			annotations[annotationOriginalType] = string(appsv1.RecreateDeploymentStrategyType)
		}
	}
	return newPatch(d, typeLabels(api.WorkloadTypeDeployment), annotations, map[string]any{
		"paused": paused, "minReadySeconds": maxReadySeconds, "progressDeadlineSeconds": maxProgressSeconds, "strategy": strategy,
	})
}

// PauseDeployment pauses a taken-over Deployment that has reached its budget.
func PauseDeployment(d *appsv1.Deployment, b rollout.Budget) Patch {
	return newPatch(d, nil, nil, map[string]any{"paused": true, "strategy": rollingUpdateStrategy(b)})
}

// FreezeDeployment keeps the controller of a taken-over Deployment from scaling ReplicaSets: paused with the strategy Recreate, it only brings a
// single one to the number of replicas.
func FreezeDeployment(d *appsv1.Deployment) Patch {
	return newPatch(d, nil, nil, map[string]any{"paused": true, "strategy": recreateStrategy()})
}

func rollingUpdateStrategy(b rollout.Budget) map[string]any {
	var surge any = int64(b.Surge)
	if b.SurgePercent > 0 {
		surge = fmt.Sprintf("%d%%", b.SurgePercent)
	}
	var unavailable any = int64(0)
	if b.Unavailable > 0 {
		unavailable = fmt.Sprintf("%d%%", b.Unavailable)
	}
	return map[string]any{
		"type":          string(appsv1.RollingUpdateDeploymentStrategyType),
		"rollingUpdate": map[string]any{"maxUnavailable": unavailable, "maxSurge": surge},
	}
}

func recreateStrategy() map[string]any {
	return map[string]any{"type": string(appsv1.RecreateDeploymentStrategyType), "rollingUpdate": nil}
}

// hasOriginals reports whether the owner's values stand in annotations.
func hasOriginals(d *appsv1.Deployment) bool {
	_, ok := d.Annotations[annotationOriginalSurge]
	return ok
}

func isTakenOver(d *appsv1.Deployment) bool {
	return hasOriginals(d) && d.Spec.MinReadySeconds == maxReadySeconds && progressDeadline(d) == maxProgressSeconds
}

// observeTakeover reads whether a Deployment is taken over, and the rolling update that its owner wants.
func observeTakeover(d *appsv1.Deployment, w *rollout.Workload) {
	w.TakenOver = isTakenOver(d)
	w.Recreate = ownType(d) == appsv1.RecreateDeploymentStrategyType
	if !w.Recreate {
		w.MaxUnavailable, w.MaxSurge = budgetOf(ownRolling(d), w.DesiredReplicas)
	}
	if !w.TakenOver {
		return
	}
	w.ReplicaSetsFrozen = d.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType
	w.Budget = rollout.Budget{Unavailable: -1, Surge: -1}
	r := d.Spec.Strategy.RollingUpdate
	if r == nil || r.MaxSurge == nil || r.MaxUnavailable == nil {
		return
	}
	unavailable, ok := parsePercent(r.MaxUnavailable)
	ok = ok || *r.MaxUnavailable == intstr.FromInt32(0)
	surge, percent := parsePercent(r.MaxSurge)
	switch {
	case ok && percent:
		w.Budget = rollout.Budget{Unavailable: unavailable, SurgePercent: surge}
	case ok && r.MaxSurge.Type == intstr.Int:
		w.Budget = rollout.Budget{Unavailable: unavailable, Surge: r.MaxSurge.IntVal}
	}
}

// parsePercent reads "30%"; ok is false for anything else.
func parsePercent(value *intstr.IntOrString) (n int32, ok bool) {
	number, percent := strings.CutSuffix(value.StrVal, "%")
	parsed, err := strconv.ParseInt(number, 10, 32)
	return int32(parsed), percent && err == nil
}

func isHeldUnavailable(set *appsv1.ReplicaSet) bool {
	return set.Spec.MinReadySeconds == maxReadySeconds && set.Status.ObservedGeneration >= set.Generation && set.Status.AvailableReplicas == 0
}

// ownType is the strategy that its owner wants.
func ownType(d *appsv1.Deployment) appsv1.DeploymentStrategyType {
	switch {
	case !hasOriginals(d):
		return d.Spec.Strategy.Type
	case d.Annotations[annotationOriginalType] == string(appsv1.RecreateDeploymentStrategyType):
		return appsv1.RecreateDeploymentStrategyType
	}
	return appsv1.RollingUpdateDeploymentStrategyType
}

// ownRolling is the rolling update that its owner wants; both fields are set. A value that cannot be read becomes the API's default.
func ownRolling(d *appsv1.Deployment) appsv1.RollingUpdateDeployment {
	own := appsv1.RollingUpdateDeployment{}
	if hasOriginals(d) {
		own.MaxSurge = parseBudget(d.Annotations[annotationOriginalSurge])
		own.MaxUnavailable = parseBudget(d.Annotations[annotationOriginalUnavailable])
	} else if r := d.Spec.Strategy.RollingUpdate; r != nil {
		own = *r
	}
	for _, field := range []**intstr.IntOrString{&own.MaxSurge, &own.MaxUnavailable} {
		if *field == nil {
			standard := intstr.FromString(defaultBudget)
			*field = &standard
		}
	}
	return own
}

// parseBudget parses "3" or "30%"; it returns nil for any other text.
func parseBudget(s string) *intstr.IntOrString {
	number, percent := strings.CutSuffix(s, "%")
	n, err := strconv.ParseInt(number, 10, 32)
	if err != nil || n < 0 || percent && n > 100 {
		return nil
	}
	value := intstr.Parse(s)
	return &value
}

// originalFields are the fields of the spec as their owner wants them. A field that has the API's default goes rather than being set to it,
// so that nothing of ours stays in managedFields.
func originalFields(d *appsv1.Deployment) map[string]any {
	spec := map[string]any{"minReadySeconds": nil, "progressDeadlineSeconds": nil, "strategy": nil}
	if n := originalSeconds(d, annotationOriginalReady, 0); n != 0 {
		spec["minReadySeconds"] = n
	}
	if n := originalSeconds(d, annotationOriginalDeadline, defaultDeadline); n != defaultDeadline {
		spec["progressDeadlineSeconds"] = n
	}
	own := ownRolling(d)
	switch {
	case ownType(d) == appsv1.RecreateDeploymentStrategyType:
		spec["strategy"] = recreateStrategy()
	case isZero(own.MaxSurge) && isZero(own.MaxUnavailable): // the API does not take it
	case own.MaxSurge.String() != defaultBudget || own.MaxUnavailable.String() != defaultBudget:
		spec["strategy"] = map[string]any{
			"type":          string(appsv1.RollingUpdateDeploymentStrategyType),
			"rollingUpdate": map[string]any{"maxSurge": *own.MaxSurge, "maxUnavailable": *own.MaxUnavailable},
		}
	}
	return spec
}

// strategyWithSurge is the rolling update that its owner wants, with another surge.
func strategyWithSurge(d *appsv1.Deployment, surge int32) map[string]any {
	unavailable := ownRolling(d).MaxUnavailable
	if isZero(unavailable) { // the API refuses both at 0
		one := intstr.FromInt32(1)
		unavailable = &one
	}
	return map[string]any{
		"type":          string(appsv1.RollingUpdateDeploymentStrategyType),
		"rollingUpdate": map[string]any{"maxSurge": int64(surge), "maxUnavailable": *unavailable},
	}
}

func isZero(n *intstr.IntOrString) bool { return n.String() == "0" || n.String() == "0%" }

// originalSeconds is a remembered number of seconds, or the API's default where it cannot be read.
func originalSeconds(d *appsv1.Deployment, annotation string, standard int64) int64 {
	n, err := strconv.ParseInt(d.Annotations[annotation], 10, 32)
	if err != nil || n < 0 {
		return standard
	}
	return n
}

func progressDeadline(d *appsv1.Deployment) int32 {
	if d.Spec.ProgressDeadlineSeconds == nil {
		return defaultDeadline
	}
	return *d.Spec.ProgressDeadlineSeconds
}

// HoldReplicaSetUnavailable has the pods of a ReplicaSet never count as available.
func HoldReplicaSetUnavailable(set *appsv1.ReplicaSet) Patch {
	return Patch{
		"metadata": map[string]any{"uid": string(set.UID), "resourceVersion": set.ResourceVersion},
		"spec":     map[string]any{"minReadySeconds": maxReadySeconds},
	}
}

// ScaleReplicaSet sets the replicas of a ReplicaSet.
func ScaleReplicaSet(set *appsv1.ReplicaSet, n int32) Patch {
	return Patch{
		"metadata": map[string]any{"uid": string(set.UID), "resourceVersion": set.ResourceVersion},
		"spec":     map[string]any{"replicas": int64(n)},
	}
}
