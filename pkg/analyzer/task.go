package analyzer

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"time"

	"sluice.dev/sluice/pkg/analysis"
	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/kube"
)

// task is one run of analysis with its loaded sums. It sends no requests and writes nothing.
type task struct {
	uid string
	run kube.AnalysisRun
	// states are the states of the run's metrics, in the order of the metrics.
	states   []analysis.State
	revision uint64
	// sumsLost: the status shows measurements that the stored sums lack.
	sumsLost bool
	// counted holds the measurements since the sums were loaded.
	counted []countedMeasurement
}

// countedMeasurement is a measurement that changed the sums.
type countedMeasurement struct {
	metric  kube.AnalysisMetric
	verdict analysis.Verdict
	// reason is one word for programs.
	reason string
}

// sums is the stored form of a run: the states of its metrics, by [kube.AnalysisMetric.ID].
type sums struct {
	Version int                        `json:"version"`
	Metrics map[string]json.RawMessage `json:"metrics"`
}

const sumsVersion = 1

// sumsKey returns the key of the stored sums.
func (t *task) sumsKey() string {
	r := t.run.Record
	return fmt.Sprintf("%s.%d.%d.%s", t.uid, r.Epoch, r.PauseSeq, t.run.Scope)
}

// metricsDigest changes when an owner edits a metric of the run.
func (t *task) metricsDigest() string {
	hash := fnv.New64a()
	for _, m := range t.run.Metrics {
		fmt.Fprintln(hash, m.ID())
	}
	return fmt.Sprintf("%016x", hash.Sum64())
}

// loadStates decodes stored sums; revision 0 means that none are stored. A metric without a stored state begins at the last change of the traffic.
func (t *task) loadStates(data []byte, revision uint64) {
	t.revision = revision
	var stored sums
	if revision > 0 {
		if err := json.Unmarshal(data, &stored); err != nil || stored.Version != sumsVersion {
			stored = sums{}
		}
	}
	known := 0
	for _, m := range t.run.Metrics {
		state, err := analysis.DecodeState(stored.Metrics[m.ID()])
		if err != nil {
			state = analysis.NewState(t.changedAt())
		} else {
			known++
		}
		t.states = append(t.states, state.TrafficChanged(t.changedAt()))
	}
	t.sumsLost = known == 0 && len(stored.Metrics) == 0 && hasMeasured(t.run.Record)
}

// changedAt returns the time of the last traffic change.
func (t *task) changedAt() time.Time {
	switch r := t.run.Record; {
	case r.RoutedAt != nil:
		return r.RoutedAt.Time
	case r.StartedAt != nil:
		return r.StartedAt.Time
	}
	return time.Time{}
}

func hasMeasured(r *api.AnalysisRun) bool {
	for _, m := range r.Metrics {
		if m.Passed+m.Failed+m.Inconclusive+m.NoData+m.Errors > 0 {
			return true
		}
	}
	return false
}

func (t *task) encodeSums() ([]byte, error) {
	stored := sums{Version: sumsVersion, Metrics: map[string]json.RawMessage{}}
	for i, m := range t.run.Metrics {
		data, err := t.states[i].Encode()
		if err != nil {
			return nil, err
		}
		stored.Metrics[m.ID()] = data
	}
	return json.Marshal(stored)
}

// dueMeasurement is a due measurement of a metric, and its scheduled time.
type dueMeasurement struct {
	metric int
	at     time.Time
	// past: the measurement also reads the time before the release.
	past bool
}

// dueMeasurements returns the measurements that are due now, and the time of the next one; zero for never.
func (t *task) dueMeasurements(now time.Time) (list []dueMeasurement, next time.Time) {
	if t.isOver() {
		return nil, time.Time{}
	}
	for i, m := range t.run.Metrics {
		at := analysis.NextDue(t.states[i], m.Metric, t.scheduleSeed(m), now)
		switch {
		case at.IsZero():
		case !at.After(now):
			list = append(list, dueMeasurement{i, at, t.states[i].NeedsPast(m.Metric, at)})
		case next.IsZero() || at.Before(next):
			next = at
		}
	}
	return list, next
}

// scheduleSeed spreads metrics over their intervals. An edited metric keeps its schedule.
func (t *task) scheduleSeed(m kube.AnalysisMetric) string {
	return t.uid + "/" + string(t.run.Scope) + "/" + m.Template + "/" + m.Name
}

// isOver reports whether nothing is left to measure. A failed run, and a run with a problem, get no more measurements.
func (t *task) isOver() bool {
	if t.run.Problem != "" {
		return true
	}
	gate, _ := t.combinedGate()
	return gate == analysis.GateFailed || t.allEnded()
}

func (t *task) allEnded() bool {
	for _, s := range t.states {
		if !s.Ended {
			return false
		}
	}
	return true
}

func (t *task) combinedGate() (analysis.Gate, int) {
	verdicts := make([]analysis.Verdict, 0, len(t.states))
	for i, s := range t.states {
		verdicts = append(verdicts, s.Verdict(t.run.Metrics[i].Metric))
	}
	return analysis.CombineVerdicts(verdicts)
}

// countMeasurement adds a measurement to the sums, and reports whether it counted.
func (t *task) countMeasurement(metric int, m analysis.Measurement, reason string, now time.Time) bool {
	spec := t.run.Metrics[metric]
	state, verdict := analysis.NextState(t.states[metric], m, spec.Metric, now)
	if verdict.Ignored {
		return false
	}
	if reason == "" {
		reason = string(verdict.Measured.Outcome)
	}
	t.states[metric] = state
	t.counted = append(t.counted, countedMeasurement{metric: spec, verdict: verdict, reason: reason})
	return true
}

// nextWake returns the time of the next run: when a metric is due, and after problemRetry for a run that the analyzer cannot measure. Zero means never.
func nextWake(tasks []*task, now time.Time, problemRetry time.Duration) (at time.Time) {
	for _, t := range tasks {
		if t.run.Record.EndedAt != nil {
			continue
		}
		list, next := t.dueMeasurements(now)
		for _, d := range list { // it became due meanwhile
			next = d.at
		}
		if t.run.Problem != "" { // a watch reports most of the changes that fix a problem
			next = now.Add(problemRetry)
		}
		for _, when := range []time.Time{next, t.renewAt()} {
			if !when.IsZero() && (at.IsZero() || when.Before(at)) {
				at = when
			}
		}
	}
	return at
}
