package rollout

import (
	"encoding/json"
	"testing"
	"time"

	"sluice.dev/sluice/pkg/api"
)

// Whatever a status or a view says, Plan decides something and does not panic.
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
		var seen Seen
		if json.Unmarshal(body, &seen) != nil {
			t.Skip()
		}
		now := start.Add(time.Duration(seconds%1e6) * time.Second)
		d := Plan(seen, now)
		if made := d.Status.Sluice.TransitionSeq - machine(&seen.Status).TransitionSeq; made > int64(len(d.Status.Sluice.Transitions)) {
			t.Errorf("%d transitions were made, %d are kept", made, len(d.Status.Sluice.Transitions))
		}
		for _, a := range d.Actions {
			if a.Raises() && !d.CommitFirst {
				t.Errorf("%s before its commit", a)
			}
		}
	})
}

// Whatever the schema lets through, Parse says yes or no.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		`{"spec":{"workloadRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"a"},"strategy":{"canary":{"steps":[{"replicas":"50%","traffic":"0.5%"}]}}}}`,
		`{"spec":{"objectRef":{},"strategy":{"blueGreen":{"steps":[{"weight":5}]}}}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		var r api.Rollout
		if json.Unmarshal(body, &r) != nil {
			t.Skip()
		}
		spec, err := Parse(&r)
		if err == nil && len(spec.Steps) == 0 {
			t.Error("a spec without steps is taken for valid")
		}
	})
}
