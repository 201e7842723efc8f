package analysis

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sluice.dev/sluice/pkg/api"
)

// stateVersion changes when an older State can no longer be continued.
const stateVersion = 2

// ErrVersion says that another version of this package stored a state; the caller starts the run again.
var ErrVersion = errors.New("the stored run of the metric is of another version")

// State is the stored state of a metric's run between two measurements. It is a few kilobytes of JSON at most. A caller that loses it starts the run
// again with [NewState].
type State struct {
	Version int `json:"version"`
	// ChangedAt is the time of the last change of traffic. Nothing from before counts.
	ChangedAt time.Time `json:"changedAt"`
	// LastAt is the time of the last measurement that counted.
	LastAt time.Time `json:"lastAt,omitzero"`
	// Passed to Errors count the measurements of each outcome.
	Passed       int32 `json:"passed,omitempty"`
	Failed       int32 `json:"failed,omitempty"`
	Inconclusive int32 `json:"inconclusive,omitempty"`
	NoData       int32 `json:"noData,omitempty"`
	Errors       int32 `json:"errors,omitempty"`
	// ByPolicyPassed and ByPolicyFailed count measurements without data or answer that passed or failed by a policy.
	ByPolicyPassed int32 `json:"byPolicyPassed,omitempty"`
	ByPolicyFailed int32 `json:"byPolicyFailed,omitempty"`
	// Late counts the measurements that were made noticeably after their due time.
	Late int32 `json:"late,omitempty"`
	// SilentSince is the time of the first measurement without data or answer since the last conclusive one.
	SilentSince time.Time `json:"silentSince,omitzero"`
	// Phase and Message are the current ones; Ended says that they are final.
	Phase       api.MetricPhase `json:"phase"`
	Ended       bool            `json:"ended,omitempty"`
	Message     string          `json:"message,omitempty"`
	LastOutcome Outcome         `json:"lastOutcome,omitempty"`
	LastValue   string          `json:"lastValue,omitempty"`
	// Evidence and Stable are a comparison's sums. Stable holds the stable group's latency so far.
	Evidence *Evidence `json:"evidence,omitempty"`
	Stable   Histogram `json:"stable,omitempty"`
	// PastAt is the time of the next attempt to read the past of the stable group, and PastProblem the reason why the last one failed.
	PastAt      time.Time `json:"pastAt,omitzero"`
	PastProblem string    `json:"pastProblem,omitempty"`
}

// NewState is the state of a run before its first measurement.
func NewState(changedAt time.Time) State {
	return State{Version: stateVersion, ChangedAt: changedAt, Phase: api.MetricRunning, Message: "Nothing has been measured yet."}
}

// TrafficChanged returns the state after a change of traffic: earlier measurements still count, and new windows begin after the change.
func (s State) TrafficChanged(at time.Time) State {
	if at.After(s.ChangedAt) {
		s.ChangedAt = at
	}
	return s
}

// Encode writes the state for storage.
func (s State) Encode() ([]byte, error) {
	data, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("encode the run of a metric: %w", err)
	}
	return data, nil
}

// DecodeState reads the output of Encode. The error wraps [ErrVersion] if another version wrote it.
func DecodeState(data []byte) (State, error) {
	var s State
	if err := json.Unmarshal(data, &s); err != nil {
		return State{}, fmt.Errorf("decode the run of a metric: %w", err)
	}
	if s.Version != stateVersion {
		return State{}, fmt.Errorf("%w: %d instead of %d", ErrVersion, s.Version, stateVersion)
	}
	return s, nil
}

// Status returns the state in the form of a Rollout's status, without its step and pause.
func (s State) Status(spec Metric) api.MetricStatus {
	status := api.MetricStatus{
		Name: spec.Name, Phase: s.Phase, DryRun: spec.DryRun, Message: s.Message, LastValue: s.LastValue,
		Passed: s.Passed, Failed: s.Failed, Inconclusive: s.Inconclusive, NoData: s.NoData, Errors: s.Errors,
	}
	if !s.LastAt.IsZero() {
		at := metav1.NewMicroTime(s.LastAt)
		status.LastTime = &at
	}
	return status
}

// passCount, failCount and countedTotal count the measurements that count towards the limits.
func (s State) passCount() int32    { return s.Passed + s.ByPolicyPassed }
func (s State) failCount() int32    { return s.Failed + s.ByPolicyFailed }
func (s State) countedTotal() int32 { return s.passCount() + s.failCount() + s.Inconclusive }
