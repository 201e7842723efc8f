package planner

import (
	"reflect"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
)

// progressInterval is the minimum time between two writes of the status that change only progress.
const progressInterval = 5 * time.Second

// settledInterval replaces progressInterval once a step has had its pods. Their number then changes only if a user scales the workload, or if pods fail.
const settledInterval = time.Second

func progressIntervalOf(state rollout.State) time.Duration {
	if state.InStep() && state != rollout.StateBeforeUpgrade && state != rollout.StateUpgrade {
		return settledInterval
	}
	return progressInterval
}

// throttleStatus keeps the earlier status if only progress has changed and the last write was a moment ago. Otherwise pods that become ready one by
// one would cost one write each. The executor writes the status at once when the release waits for nothing any more.
func (p *planner) throttleStatus() {
	if reflect.DeepEqual(p.seen.Status, p.status) || !differsInProgressOnly(p.seen.Status, p.status) {
		return
	}
	since := writtenAt(p.seen.Status)
	if grace := p.m.GraceUntil; grace != nil && grace.After(since) && p.now.After(grace.Time) {
		since = grace.Time // the present changes came only after the grace period
	}
	arrived := !p.waiting && len(p.actions) == 0
	if due := since.Add(progressIntervalOf(p.currentState())); !arrived && p.now.Before(due) {
		p.status, p.show = *p.seen.Status.DeepCopy(), due
		return
	}
	second := metav1.NewTime(p.now.Truncate(time.Second))
	p.c.LastUpdateTime = &second
}

// OnlyProgress reports whether two statuses differ at most in progress.
func OnlyProgress(a, b api.RolloutStatus) bool {
	return reflect.DeepEqual(withoutProgress(a), withoutProgress(b))
}

// withoutProgress returns a status without the fields that only readers use and no decision depends on. These are the numbers of pods, their hash, the awaited
// event and the current task at the end of the release. The problem that stalls a release is not progress.
func withoutProgress(s api.RolloutStatus) api.RolloutStatus {
	s.Message, s.Conditions = "", slices.Clone(s.Conditions)
	s.CanaryStatus, s.BlueGreenStatus, s.Sluice = shallowCopy(s.CanaryStatus), shallowCopy(s.BlueGreenStatus), shallowCopy(s.Sluice)
	for i := range s.Conditions {
		switch c := &s.Conditions[i]; c.Type {
		case api.ConditionStalled, api.ConditionRouteConflict, api.ConditionStableAtRisk, api.ConditionCanaryUncovered, api.ConditionSessionsTorn,
			api.ConditionMatchesDropped:
		default:
			c.Message, c.LastUpdateTime = "", metav1.Time{}
		}
	}
	if c := s.Common(); c != nil {
		c.Message, c.FinalisingStep, c.PodTemplateHash, c.LastUpdateTime, c.ObservedWorkloadGeneration = "", "", "", nil, 0
	}
	if c := s.CanaryStatus; c != nil {
		c.CanaryRevision, c.CanaryReplicas, c.CanaryReadyReplicas = "", 0, 0
	}
	if c := s.BlueGreenStatus; c != nil {
		c.UpdatedRevision, c.UpdatedReplicas, c.UpdatedReadyReplicas = "", 0, 0
	}
	if s.Sluice != nil {
		s.Sluice.Finalise, s.Sluice.Traffic, s.Sluice.CanaryHash = "", "", ""
	}
	return s
}

func shallowCopy[T any](p *T) *T {
	if p == nil {
		return nil
	}
	copied := *p
	return &copied
}

// writtenAt returns the time of the last write of the status, as far as its fields show it.
func writtenAt(s api.RolloutStatus) time.Time {
	var at time.Time
	if s.Sluice != nil && s.Sluice.Since != nil {
		at = s.Sluice.Since.Time
	}
	if c := s.Common(); c != nil && c.LastUpdateTime != nil && c.LastUpdateTime.After(at) {
		at = c.LastUpdateTime.Time
	}
	for _, c := range s.Conditions {
		if c.LastUpdateTime.After(at) {
			at = c.LastUpdateTime.Time
		}
	}
	return at
}
