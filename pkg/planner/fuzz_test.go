package planner

import (
	"encoding/json"
	"testing"
	"time"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
)

// For every status and every observed state, Plan returns a decision and does not panic.
func FuzzPlan(f *testing.F) {
	for _, g := range []*given{
		aRollout(), aRelease(), aRelease().AtStep(2).Paused().Approved(), aRelease().AtStep(3).Jumping(1), aRelease().AtStep(2).Disabled(),
		aRelease().AtStep(2).RolledBack().Finalising(api.FinaliseRollback), aRelease().AtStep(2).Deleted(), aRollout().With(invalid),
	} {
		body, err := json.Marshal(g.Seen)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(body, int64(0))
	}
	f.Fuzz(func(t *testing.T, body []byte, seconds int64) {
		var seen rollout.Seen
		if json.Unmarshal(body, &seen) != nil {
			t.Skip()
		}
		now := start.Add(time.Duration(seconds%1e6) * time.Second)
		d := Plan(seen, now)
		if made := d.Status.Sluice.TransitionSeq - machine(&seen.Status).TransitionSeq; made > int64(len(d.Status.Sluice.Transitions)) {
			t.Errorf("%d transitions were made, %d are kept", made, len(d.Status.Sluice.Transitions))
		}
		for _, a := range d.Actions {
			if a.RaisesExposure() && !d.CommitFirst {
				t.Errorf("%s before its commit", a)
			}
		}
	})
}
