package planner

import (
	"reflect"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sluice.dev/sluice/pkg/api"
)

// progressInterval is the least time between two writes of the status that only tell how far something has come.
const progressInterval = 5 * time.Second

// throttleStatus leaves the status as it was if only its progress has changed and it was written a moment ago. Otherwise each pod that becomes ready
// would cost a write. The last message of a wait stays, and is written at once.
func (p *planner) throttleStatus() {
	if reflect.DeepEqual(p.seen.Status, p.status) || !differsInProgressOnly(p.seen.Status, p.status) {
		return
	}
	since := writtenAt(p.seen.Status)
	if grace := p.m.GraceUntil; grace != nil && grace.After(since) && p.now.After(grace.Time) {
		since = grace.Time // the next wait began only then
	}
	arrived := !p.waiting && len(p.actions) == 0
	if due := since.Add(progressInterval); !arrived && p.now.Before(due) {
		p.status, p.show = *p.seen.Status.DeepCopy(), due
		return
	}
	second := metav1.NewTime(p.now.Truncate(time.Second))
	p.c.LastUpdateTime = &second
}

// OnlyProgress reports whether two statuses differ at most in how far something has come.
func OnlyProgress(a, b api.RolloutStatus) bool {
	return reflect.DeepEqual(withoutProgress(a), withoutProgress(b))
}

// withoutProgress is a status without the fields that only people read: the numbers of pods, the wait, and the current part of finalising. A problem
// that stops a release is not progress.
func withoutProgress(s api.RolloutStatus) api.RolloutStatus {
	s.Message, s.Conditions = "", slices.Clone(s.Conditions)
	s.CanaryStatus, s.BlueGreenStatus, s.Sluice = shallowCopy(s.CanaryStatus), shallowCopy(s.BlueGreenStatus), shallowCopy(s.Sluice)
	for i := range s.Conditions {
		switch c := &s.Conditions[i]; c.Type {
		case api.ConditionStalled, api.ConditionRouteConflict, api.ConditionStableAtRisk, api.ConditionCanaryUncovered, api.ConditionSessionsTorn:
		default:
			c.Message, c.LastUpdateTime = "", metav1.Time{}
		}
	}
	if c := s.Common(); c != nil {
		c.Message, c.FinalisingStep, c.PodTemplateHash, c.LastUpdateTime, c.ObservedWorkloadGeneration = "", "", "", nil, 0
	}
	if c := s.CanaryStatus; c != nil {
		c.CanaryReplicas, c.CanaryReadyReplicas = 0, 0
	}
	if c := s.BlueGreenStatus; c != nil {
		c.UpdatedReplicas, c.UpdatedReadyReplicas = 0, 0
	}
	if s.Sluice != nil {
		s.Sluice.Finalise, s.Sluice.Traffic = "", ""
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

// writtenAt is when the status was written last, as far as it tells.
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
