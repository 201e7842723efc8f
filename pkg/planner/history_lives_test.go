package planner

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/history"
	"sluice.dev/sluice/pkg/rollout"
)

// The final records are the same regardless of dying executors, repeated observations and repeated writes.
func TestEveryReleaseIsRecordedWhoeverDies(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := rapid.SampledFrom(models()).Draw(t, "model")
		m.acts, m.check = 100, newChecks()
		m.check.where = func() string { return m.name }
		w := newWorld(m)
		random := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		patient := &listener{records: map[int64]api.RolloutHistoryStatus{}}
		mortal := &listener{records: map[int64]api.RolloutHistoryStatus{}}
		for range 300 - rapid.IntRange(0, 299).Draw(t, "shorter by") {
			next := w.anything(random)
			if w.gone || next == nil {
				break
			}
			next.do(&w)
			seen := w.see()
			patient.account.ObserveRollout(seen)
			mortal.account.ObserveRollout(seen)
			switch random.IntN(3) {
			case 0:
				mortal.write()
			case 1:
				mortal.write()
				mortal.account = history.Builder{}
			}
		}
		patient.write()
		mortal.write()
		if diff := cmp.Diff(patient.records, mortal.records); diff != "" {
			t.Fatalf("records differ (-written once +written often by executors that die):\n%s", diff)
		}
		if w.status.Sluice != nil {
			complete(t, *w.status.Sluice, patient.records)
		}
	})
}

// complete checks that each release has one record, that all but the current release have ended, and that times are in order.
func complete(t *rapid.T, m api.SluiceStatus, records map[int64]api.RolloutHistoryStatus) {
	if len(records) != int(m.Epoch) {
		t.Fatalf("there are %d records of %d releases", len(records), m.Epoch)
	}
	for epoch := int64(1); epoch <= m.Epoch; epoch++ {
		r := records[epoch]
		underWay := epoch == m.Epoch && rollout.State(m.State).Releasing() && rollout.State(m.State) != rollout.StateAborted && m.FinaliseReason != api.FinaliseAborted
		leaves := epoch == m.Epoch && m.FinaliseReason == api.FinaliseWithdrawn // the release may have ended before its version was withdrawn
		if r.Epoch != epoch || r.StartedAt == nil || underWay && !leaves && r.Outcome != "" && r.Outcome != api.OutcomeAborted || !underWay && (r.Outcome == "" || r.EndedAt == nil) {
			t.Fatalf("release %d of %d in state %s is recorded as %s", epoch, m.Epoch, m.State, fmt.Sprintf("%+v", r))
		}
		at := r.StartedAt
		for _, s := range r.Steps {
			if s.StartedAt == nil || s.StartedAt.Before(at) || s.EndedAt != nil && s.EndedAt.Before(s.StartedAt) || r.Outcome != "" && s.EndedAt == nil {
				t.Fatalf("the times of release %d are not in order: %+v", epoch, r)
			}
			at = s.StartedAt
		}
	}
}

// listener keeps records as an executor does.
type listener struct {
	account history.Builder
	records map[int64]api.RolloutHistoryStatus
}

func (l *listener) write() {
	for _, epoch := range l.account.ReleasesToRecord() {
		record := l.account.BuildRecord(epoch, l.records[epoch])
		l.records[epoch] = record
		l.account.DropRecorded(record)
	}
}
