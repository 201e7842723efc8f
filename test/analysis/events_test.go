package analysis

import (
	"strings"
	"testing"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/test/world"
)

// failing returns a release that metrics have stopped at its first step.
func failing(t *testing.T) *app {
	p := plan{templates: []string{success}}
	p.steps = []string{"{replicas: 1, traffic: 20%, analysis: " + p.use(t, "success", ", autoPromote: true") + "}"}
	a := start(t, p)
	a.becomes(group{bad: 0.5})
	a.deploy(t, "2")
	a.await(t, aborted)
	a.onStable(t)
	return a
}

func TestAStoppedReleaseIsTriedAgain(t *testing.T) {
	t.Parallel()
	a := failing(t)
	a.becomes(group{})
	a.command(t, a.await(t, aborted), api.CommandRetry)
	a.await(t, func(r *api.Rollout) bool { return world.Healthy(r) && r.Status.Sluice.Epoch == 2 })
	if got := a.image(t); got != "app:2" {
		t.Errorf("%s runs", got)
	}
	a.wantRecorded(t, 1, api.OutcomeAborted, "1 by : Failed")
	a.wantRecorded(t, 2, api.OutcomeCompleted, "1 by analysis: Passed")
}

func TestAnAnalysisEndsWithItsRelease(t *testing.T) {
	t.Parallel()
	for name, turn := range map[string]func(*testing.T, *app) world.Goal{
		"that is rolled back": func(t *testing.T, a *app) world.Goal { a.deploy(t, "1"); return world.Healthy },
		"that is superseded": func(t *testing.T, a *app) world.Goal {
			a.becomes(group{})
			a.deploy(t, "3")
			return func(r *api.Rollout) bool { return world.Healthy(r) && r.Status.Sluice.Epoch == 2 }
		},
		"that is disabled": func(t *testing.T, a *app) world.Goal {
			if err := a.w.Patch(t, a.ns, "rollout", "app", `{"spec":{"disabled":true}}`); err != nil {
				t.Fatal(err)
			}
			return func(r *api.Rollout) bool { return r.Status.Phase == api.PhaseDisabled }
		},
		"that is deleted": func(t *testing.T, a *app) world.Goal {
			a.w.Do(t, "delete", "rollout", "app", "-n", a.ns, "--timeout=600s")
			return nil
		},
		"that a person aborts": func(t *testing.T, a *app) world.Goal {
			a.command(t, a.await(t, analysing(1)), api.CommandAbort)
			return aborted
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := plan{templates: []string{success}, rate: 1} // too few requests to judge
			p.steps = []string{"{replicas: 1, traffic: 20%, analysis: " + p.use(t, "success", ", autoPromote: true") + "}"}
			a := start(t, p)
			a.deploy(t, "2")
			a.await(t, says(api.AnalysisWaiting))
			a.rates(200)
			a.becomes(group{})
			if goal := turn(t, a); goal != nil {
				a.await(t, goal)
			}
			a.onStable(t)
		})
	}
}

func TestWhatIsMissingIsNamedAndAwaited(t *testing.T) {
	t.Parallel()
	p := plan{}
	p.steps = []string{"{replicas: 1, traffic: 20%, analysis: " + p.use(t, "success", ", autoPromote: true") + "}"}
	a := start(t, p)
	a.deploy(t, "2")
	r := a.await(t, world.HeldFor("AnalysisTemplateMissing"))
	if c := world.Condition(r, api.ConditionStalled); !strings.Contains(c.Message, "success") || !strings.Contains(c.Message, "steps[0].analysis.templates[0]") {
		t.Errorf("the condition says %q", c.Message)
	}
	unnamed := strings.Replace(success, "{name: prometheus}", `{name: prometheus}, {name: team}`, 1)
	a.w.Apply(t, a.ns, unnamed)
	r = a.await(t, world.HeldFor("AnalysisInvalid"))
	if c := world.Condition(r, api.ConditionStalled); !strings.Contains(c.Message, "team") {
		t.Errorf("the condition says %q", c.Message)
	}
	a.w.Apply(t, a.ns, success)
	a.await(t, world.Healthy)
}
