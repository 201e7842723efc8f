package watcher

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"sluice.dev/sluice/pkg/rollout"
)

// measuredRollout waits in its first step. An analysis measures this step, and another one the whole release.
var measuredRollout = strings.Replace(pausedRollout, "  sluice: {", `  analysis:
    step: {phase: Running, epoch: 1, step: 1, pauseSeq: 3, startedAt: "2026-11-20T10:00:00.000000Z", routedAt: "2026-11-20T09:59:59.000000Z",
      renewBy: "2026-11-20T10:10:00.000000Z", metrics: [{name: errors, phase: Running, passed: 1}]}
    release: {phase: Passing, epoch: 1, step: 1, pauseSeq: 2, startedAt: "2026-11-20T10:00:00.000000Z", routedAt: "2026-11-20T09:59:59.000000Z",
      renewBy: "2026-11-20T10:05:00.000000Z"}
  sluice: {`, 1)

// commitState is the write of an executor when the state machine enters a state of the first step.
func commitState(state string) change {
	return all(set(state, "status", "sluice", "state"), set(state, "status", "canaryStatus", "currentStepState"))
}

// beginRun is the write of an executor when it begins the analysis of another pause.
var beginRun = all(set(int64(4), "status", "sluice", "pauseSeq"), set(int64(4), "status", "analysis", "step", "pauseSeq"), set("Running", "status", "analysis", "step", "phase"))

func TestExecutorsHearWhatAnalysesFindOutAndNoMore(t *testing.T) {
	t.Parallel()
	phase := func(of, phase string) change { return set(phase, "status", "analysis", of, "phase") }
	end := func(of string) change { return set("2026-11-20T10:02:00.000000Z", "status", "analysis", of, "endedAt") }
	count := set([]any{map[string]any{"name": "errors", "passed": int64(2), "lastValue": "0.5"}}, "status", "analysis", "step", "metrics")
	renew := all(set("2026-11-20T10:20:00.000000Z", "status", "analysis", "step", "renewBy"), set("still running", "status", "analysis", "step", "message"))
	check(t, rolloutFacts, measuredRollout, wakes{
		"the step passed":  {all(phase("step", "Passed"), end("step")), atOnce},
		"the step failed":  {phase("step", "Failed"), atOnce},
		"the step is held": {phase("step", "Waiting"), atOnce},
		"the step has ended and its phase is as before":   {end("step"), atOnce},
		"the release failed":                              {phase("release", "Failed"), atOnce},
		"the release is not fine any more":                {phase("release", "Running"), atOnce},
		"another measurement":                             {count, never},
		"a renewal":                                       {renew, never},
		"all that and another phase":                      {all(count, renew, phase("step", "Passed")), atOnce},
		"our commit that routes the next step":            {all(commitState("StepTrafficRouting"), set("2026-11-20T10:03:00.000000Z", "status", "analysis", "release", "routedAt")), never},
		"our commit that begins another analysis":         {all(commitState("StepMetricsAnalysis"), beginRun), never},
		"another analysis of which only the end is seen":  {all(commitState("StepMetricsAnalysis"), beginRun, phase("step", "Failed")), atOnce},
		"our commit that ends the analysis with the stay": {all(commitState("StepReady"), end("step")), never},
		"our commit that ends both with the release":      {all(set(string(rollout.StateFinalising), "status", "sluice", "state"), end("step"), end("release")), never},
		"our commit that forgets the analyses":            {unset("status", "analysis"), never},
		"a late word about another stay":                  {all(set(int64(2), "status", "analysis", "step", "pauseSeq"), phase("step", "Failed")), never},
		"a late word about another release":               {all(set(int64(0), "status", "analysis", "release", "epoch"), phase("release", "Failed")), never},
	})
	for name, c := range map[string]struct {
		after change
		want  urgency
	}{
		"our commit that begins another after one that failed": {beginRun, never},
		"another one that failed as well":                      {all(beginRun, phase("step", "Failed")), atOnce},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before, after := read(t, measuredRollout), read(t, measuredRollout)
			phase("step", "Failed")(before)
			c.after(after)
			if got := factOf(t, rolloutFacts, after).urgencySince(factOf(t, rolloutFacts, before)); got != c.want {
				t.Errorf("urgency %d, want %d", got, c.want)
			}
		})
	}
	t.Run("and back again is another word", func(t *testing.T) {
		t.Parallel()
		held := read(t, measuredRollout)
		phase("step", "Waiting")(held)
		if got := factOf(t, rolloutFacts, read(t, measuredRollout)).urgencySince(factOf(t, rolloutFacts, held)); got != atOnce {
			t.Errorf("it wakes with urgency %d", got)
		}
	})
}

func TestACommandWakesUntilItIsTaken(t *testing.T) {
	t.Parallel()
	command := func(action string, pause int64) change {
		return set(map[string]any{"action": action, "epoch": int64(1), "pauseSeq": pause, "actor": "ada"}, "status", "command")
	}
	check(t, rolloutFacts, pausedRollout, wakes{
		"an abort":                {command("Abort", 0), atOnce},
		"a forced approval":       {command("Approve", 3), atOnce},
		"one and our own commits": {all(command("Abort", 0), set("x", "status", "message")), atOnce},
	})
	for name, c := range map[string]struct {
		before, after change
		want          urgency
	}{
		"it is taken":                 {command("Abort", 0), unset("status", "command"), never},
		"it is still there":           {command("Abort", 0), all(command("Abort", 0), set("x", "status", "message")), never},
		"another one is in its place": {command("Approve", 3), command("Abort", 0), atOnce},
		"it is given again for the next stay": {command("Approve", 3),
			all(command("Approve", 4), set(int64(4), "status", "sluice", "pauseSeq")), atOnce},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before, after := read(t, pausedRollout), read(t, pausedRollout)
			c.before(before)
			c.after(after)
			if got := factOf(t, rolloutFacts, after).urgencySince(factOf(t, rolloutFacts, before)); got != c.want {
				t.Errorf("urgency %d, want %d", got, c.want)
			}
		})
	}
}

func TestAnalyzersHearWhatIsToBeMeasuredAndNoMore(t *testing.T) {
	t.Parallel()
	nothing := func(*unstructured.Unstructured) {}
	disable := all(set(true, "spec", "disabled"), set(int64(3), "metadata", "generation"))
	for name, c := range map[string]struct {
		before, after change
		want          bool
	}{
		"nothing":                          {nothing, nothing, false},
		"the first analysis":               {unset("status", "analysis"), nothing, true},
		"an analysis of the next stay":     {nothing, all(commitState("StepMetricsAnalysis"), beginRun), true},
		"an analysis of the whole release": {unset("status", "analysis", "release"), nothing, true},
		"another routing":                  {nothing, set("2026-11-20T10:03:00.000000Z", "status", "analysis", "release", "routedAt"), true},
		"what analyzers write":             {nothing, all(set("Waiting", "status", "analysis", "step", "phase"), set("2026-11-20T10:20:00.000000Z", "status", "analysis", "step", "renewBy")), false},
		"the end of one of two":            {nothing, set("2026-11-20T10:03:00.000000Z", "status", "analysis", "step", "endedAt"), false},
		"our commit that pauses":           {commitState("StepMetricsAnalysis"), nothing, false},
		"traffic that is being changed":    {nothing, commitState("StepTrafficRouting"), false},
		"traffic that has been changed":    {commitState("StepTrafficRouting"), nothing, true},
		"another plan":                     {nothing, set(int64(3), "metadata", "generation"), true},
		"another plan of what is at rest":  {unset("status", "analysis"), all(unset("status", "analysis"), set(int64(3), "metadata", "generation")), false},
		"a Rollout that is disabled":       {nothing, disable, false},
		"a Rollout that is enabled again":  {disable, set(int64(4), "metadata", "generation"), true},
		"a deletion":                       {nothing, set("2026-11-20T10:00:00Z", "metadata", "deletionTimestamp"), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before, after := read(t, measuredRollout), read(t, measuredRollout)
			c.before(before)
			c.after(after)
			if got := factOf(t, rolloutFacts, after).rollout.startsMeasuring(factOf(t, rolloutFacts, before).rollout); got != c.want {
				t.Errorf("an analyzer is told: %v, want %v", got, c.want)
			}
		})
	}
	if !factOf(t, rolloutFacts, read(t, measuredRollout)).rollout.startsMeasuring(nil) {
		t.Error("nobody is told of an analysis that runs when the watcher starts")
	}
}

func TestAnAnalysisIsUnheardOfAfterTheFirstTimeThatIsPromised(t *testing.T) {
	t.Parallel()
	at := func(clock string) time.Time {
		t.Helper()
		when, err := time.Parse(time.TimeOnly, clock)
		if err != nil {
			t.Fatal(err)
		}
		return time.Date(2026, 11, 20, when.Hour(), when.Minute(), when.Second(), 0, time.UTC)
	}
	for name, c := range map[string]struct {
		change change
		now    string
		want   bool
	}{
		"before that of either":           {unset("none"), "10:04:59", false},
		"after that of the release":       {unset("none"), "10:05:01", true},
		"of what has ended":               {set("2026-11-20T10:03:00.000000Z", "status", "analysis", "release", "endedAt"), "10:05:01", false},
		"of what is left":                 {set("2026-11-20T10:03:00.000000Z", "status", "analysis", "release", "endedAt"), "10:10:01", true},
		"while the traffic is changed":    {commitState("StepTrafficRouting"), "11:00:00", false},
		"of what promises nothing":        {all(unset("status", "analysis", "release", "renewBy"), unset("status", "analysis", "step", "renewBy")), "11:00:00", false},
		"of a Rollout without any":        {unset("status", "analysis"), "11:00:00", false},
		"of one whose promise is no time": {all(set("soon", "status", "analysis", "release", "renewBy"), set("", "status", "analysis", "step", "renewBy")), "11:00:00", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := read(t, measuredRollout)
			c.change(u)
			if got := factOf(t, rolloutFacts, u).rollout.analyses.renewalOverdue(at(c.now)); got != c.want {
				t.Errorf("unheard of: %v, want %v", got, c.want)
			}
		})
	}
}

const byTemplates = `
apiVersion: rollouts.kruise.io/v1beta1
kind: Rollout
metadata: {name: web, namespace: shop, uid: u, generation: 1}
spec:
  workloadRef: {apiVersion: apps/v1, kind: Deployment, name: web}
  strategy:
    analysis: {templates: [{name: errors}, {name: latency, clusterScope: true}]}
    canary:
      steps: [{replicas: 1, analysis: {templates: [{name: errors}, {name: smoke}]}}, {replicas: 50%}]
`

func TestTheIndexKnowsWhoIsMeasuredByATemplate(t *testing.T) {
	t.Parallel()
	d := dependenciesIn(t, byTemplates)
	var got []string
	for _, o := range d.objects {
		if o.group == "sluice.dev" {
			got = append(got, o.kind+" "+o.name.String())
		}
	}
	want := []string{"AnalysisTemplate shop/errors", "ClusterAnalysisTemplate /latency", "AnalysisTemplate shop/smoke"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("templates (-want +got):\n%s", diff)
	}
	var kinds []string
	for _, gvk := range d.refs {
		kinds = append(kinds, gvk.String())
	}
	if diff := cmp.Diff([]string{"sluice.dev/v1alpha1, Kind=AnalysisTemplate", "sluice.dev/v1alpha1, Kind=ClusterAnalysisTemplate"}, kinds); diff != "" {
		t.Errorf("kinds that must be there (-want +got):\n%s", diff)
	}
}
