package analysis

import (
	"testing"

	"sluice.dev/sluice/pkg/api"
)

func TestWhatMetricsSayTogether(t *testing.T) {
	t.Parallel()
	passed, failed := Verdict{Phase: api.MetricPassed}, Verdict{Phase: api.MetricFailed}
	running, fine := Verdict{Phase: api.MetricRunning}, Verdict{Phase: api.MetricRunning, Passing: true}
	asks, held := Verdict{Phase: api.MetricInconclusive}, Verdict{Phase: api.MetricWaiting}
	dry := func(v Verdict) Verdict { v.DryRun = true; return v }
	for name, c := range map[string]struct {
		verdicts []Verdict
		want     Gate
		index    int
	}{
		"nothing to measure holds nothing, and approves nothing": {nil, GatePassing, -1},
		"all passed":                {[]Verdict{passed, passed}, GatePassed, 0},
		"one has not been measured": {[]Verdict{passed, {}}, GateRunning, 1},
		"one runs":                  {[]Verdict{running, passed}, GateRunning, 0},
		"one passed, one is fine":   {[]Verdict{fine, passed}, GatePassed, 1},
		"all are fine":              {[]Verdict{fine, fine}, GatePassing, -1},
		"one failed":                {[]Verdict{passed, held, asks, running, failed}, GateFailed, 4},
		"one asks":                  {[]Verdict{passed, held, asks}, GateAsk, 2},
		"one is held":               {[]Verdict{passed, running, held}, GateWaiting, 2},
		"a dry run that failed":     {[]Verdict{dry(failed), passed}, GatePassed, 1},
		"a dry run that passed":     {[]Verdict{dry(passed), fine}, GatePassing, -1},
		"nothing but dry runs":      {[]Verdict{dry(passed), dry(failed)}, GatePassing, -1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got, index := CombineVerdicts(c.verdicts); got != c.want || index != c.index {
				t.Errorf("got %s by %d, want %s by %d", got, index, c.want, c.index)
			}
		})
	}
}
