package planner

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
)

// timed gives every step one minute.
func (g *given) timed(then api.DeadlineAction) *given {
	g.Spec.ProgressDeadline, g.Spec.OnDeadline = time.Minute, then
	return g
}

// almost is the longest time before the deadline.
const almost = time.Minute - time.Millisecond

// fewPods is a release that began to wait for the fifth pod of step 2 a moment ago.
func fewPods(then api.DeadlineAction) *given {
	return aRelease().AtStep(2).timed(then).With(func(g *given) { g.Pods(5, 4) }).Planned()
}

const (
	late2     = "Step 2 of 3 was not ready within 1m0s (progressDeadlineSeconds): "
	lateHelp  = ". It goes on by itself when it is ready; see what keeps its pods: kubectl describe pods -n shop; or take the release back: sluice abort demo -n shop"
	fewCanary = "Rollout is in step(2/3), and upgrade workload to new version: 4 of 5 canary pods are available"
)

func TestPlanMeetsDeadlines(t *testing.T) {
	t.Parallel()
	const stopped = "Stopped at step 2 of 3 was not ready within 1m0s (progressDeadlineSeconds): not all of its 5 canary pods are available. " +
		"All traffic is on the stable version. Release another version, roll the workload back, or try again: sluice retry demo -n shop"
	waits := outcome{State: rollout.StateUpgrade, Step: 2, Message: fewCanary}
	holds := outcome{State: rollout.StateUpgrade, Step: 2, Stalled: rollout.ReasonProgressDeadlineExceeded, Message: late2 + "not all of its 5 canary pods are available" + lateHelp}
	runPlanCases(t, map[string]planCase{
		"a step has its whole time":                {fewPods(api.DeadlineAbort).After(almost), waits},
		"then it is held":                          {fewPods("").After(time.Minute), holds},
		"which is what Pause means":                {fewPods(api.DeadlinePause).After(time.Minute), holds},
		"or the release is aborted, traffic first": {fewPods(api.DeadlineAbort).After(time.Minute), outcome{State: rollout.StateAborted, Step: 2, Actions: []string{"restore VirtualService demo"}, Message: stopped}},
		"a step that is held goes on when its pods come": {
			fewPods("").After(time.Minute).Planned().With(func(g *given) { g.Pods(5, 5) }), outcome{State: rollout.StatePaused, Step: 2, Message: confirm2},
		},
		"endpoints must come in time, too": {
			aRelease().AtStep(2).timed("").With(func(g *given) { g.CanaryEndpoints = 4 }).Planned().After(time.Minute),
			outcome{State: rollout.StateUpgrade, Step: 2, Stalled: rollout.ReasonProgressDeadlineExceeded, Message: late2 + "Service demo-canary has not all of its 5 endpoints" + lateHelp},
		},
		"so must the gateway": {
			aRelease().AtStep(2).timed("").With(func(g *given) { g.Routes[0].Steps[2] = rollout.Rendering{Applied: true} }).Planned().After(time.Minute),
			outcome{State: rollout.StateTrafficRouting, Step: 2, Stalled: rollout.ReasonProgressDeadlineExceeded, Message: late2 + "waiting for the gateway to accept VirtualService demo" + lateHelp},
		},
		"pods in the place of others must, too": {
			replacing(2, 3, 0, 8).rolling(rollout.Budget{Unavailable: 20, Surge: 1}).timed("").Planned().After(time.Minute),
			outcome{State: rollout.StateUpgrade, Step: 2, Stalled: rollout.ReasonProgressDeadlineExceeded, Message: late2 + "not all of its 5 new pods are ready" + lateHelp},
		},
		"and old pods must go": {
			replacing(2, 5, 5, 6).rolling(rollout.Budget{Unavailable: 50, Surge: 0}).timed("").Planned().After(time.Minute),
			outcome{State: rollout.StateUpgrade, Step: 2, Stalled: rollout.ReasonProgressDeadlineExceeded, Message: late2 + "not all of the old pods that its new ones replace are gone" + lateHelp},
		},
		"pods beside all others must, too": {
			besideStable(2, 5, 3).resting(50).timed("").Planned().After(time.Minute),
			outcome{State: rollout.StateUpgrade, Step: 2, Stalled: rollout.ReasonProgressDeadlineExceeded, Message: late2 + "not all of its 5 new pods are ready" + lateHelp},
		},
		"or their release is aborted": {
			besideStable(2, 5, 3).resting(50).timed(api.DeadlineAbort).Planned().After(time.Minute), outcome{State: rollout.StateAborted, Step: 2, Message: strings.Replace(stopped, "canary pods are available", "new pods are ready", 1)},
		},
		"a step that waits for its approval has met it": {
			aRelease().AtStep(2).timed(api.DeadlineAbort).Planned().After(time.Hour), outcome{State: rollout.StatePaused, Step: 2, Message: confirm2},
		},
		"and so has one whose pods fail afterwards": {
			aRelease().AtStep(2).timed(api.DeadlineAbort).Planned().After(time.Hour).With(func(g *given) { g.Pods(5, 4) }).Planned().After(time.Hour),
			outcome{State: rollout.StatePaused, Step: 2, Message: fewCanary},
		},
		"a paused Rollout has all the time": {
			fewPods(api.DeadlineAbort).With(func(g *given) { g.Spec.Paused = true }).Planned().After(time.Hour),
			outcome{State: rollout.StateUpgrade, Step: 2, Message: "Rollout has been paused, you can resume it by kube-cli"},
		},
		"and its whole time again when it is resumed": {
			fewPods(api.DeadlineAbort).With(func(g *given) { g.Spec.Paused = true }).Planned().After(time.Hour).
				With(func(g *given) { g.Spec.Paused = false }).Planned().After(almost),
			waits,
		},
		"what a person must change is not held against it": {
			fewPods(api.DeadlineAbort).With(func(g *given) { g.Problems = []rollout.Problem{{Reason: rollout.ReasonForbidden, Message: "No."}} }).Planned().After(time.Hour).
				With(func(g *given) { g.Problems = nil }).Planned().After(almost),
			waits,
		},
		"nor is an object in its way": {
			aRelease().AtStep(2).timed(api.DeadlineAbort).With(func(g *given) { g.CanaryEndpoints, g.CanaryService.Ours = 4, false }).Planned().After(time.Hour).
				With(func(g *given) { g.CanaryService.Ours = true }).Planned().After(almost),
			outcome{State: rollout.StateUpgrade, Step: 2, Message: "waiting for endpoints of Service demo-canary: 4 of 5 are ready"},
		},
		"nor is what cannot be read": {
			fewPods(api.DeadlineAbort).With(func(g *given) {
				g.Problems = []rollout.Problem{{Reason: rollout.ReasonForbidden, Message: "No.", Unknown: true}}
			}).Planned().
				After(time.Hour).With(func(g *given) { g.Problems = nil }).Planned().After(almost),
			waits,
		},
		"nor are replicas that the workload has not got": {
			fewPods(api.DeadlineAbort).With(func(g *given) { g.Workload.DesiredReplicas = 0 }).Planned().After(time.Hour),
			outcome{State: rollout.StateUpgrade, Step: 2, Message: "waiting for the workload to have replicas: it is scaled to 0, so there is nothing to release"},
		},
		"a jump begins a time of its own": {
			fewPods(api.DeadlineAbort).After(almost).Jumping(2).Planned().After(almost), waits,
		},
		"so does an edit of the steps": {
			fewPods(api.DeadlineAbort).After(almost).With(func(g *given) { g.Spec.Steps[2].Replicas = rollout.Amount{Value: 90, Percent: true}; g.replan() }).Planned().After(almost),
			waits,
		},
		"a deadline that is set on the way counts from then": {
			aRelease().AtStep(2).With(func(g *given) { g.Pods(5, 4) }).Planned().After(time.Hour).timed(api.DeadlineAbort).Planned().After(almost), waits,
		},
		"nobody was there to make the pods in time": {
			fewPods(api.DeadlineAbort).With(func(g *given) { g.Canary.Replicas = 4 }).After(time.Hour).Planned().With(func(g *given) { g.Pods(5, 4) }).After(almost),
			waits,
		},
	})
}

func TestTheMachineWakesForItsDeadline(t *testing.T) {
	t.Parallel()
	g := fewPods("")
	due := g.now.Add(time.Minute)
	for name, at := range map[string]time.Duration{"at once": 0, "later": 30 * time.Second} {
		if d := Plan(g.Seen, g.now.Add(at)); !d.Status.Sluice.WakeAt.Time.Equal(due) {
			t.Errorf("%s it wakes at %s, want %s", name, d.Status.Sluice.WakeAt, due)
		}
	}
	if d := Plan(g.Seen, due); d.Status.Sluice.WakeAt != nil {
		t.Errorf("once it is late it wakes again at %s", d.Status.Sluice.WakeAt)
	}
}

// A hold is reported once: each different sentence would be an event.
func TestAStepThatIsLateIsToldOnce(t *testing.T) {
	t.Parallel()
	g := fewPods("").With(func(g *given) { g.Pods(5, 1) }).Planned().After(time.Minute).Planned()
	told := g.Status.Sluice.TransitionSeq
	for n := int32(2); n < 5; n++ {
		g.With(func(g *given) { g.Pods(5, n) }).After(progressInterval).Planned()
	}
	if got := g.Status.Sluice.TransitionSeq; got != told {
		t.Errorf("pods that come one by one were told of %d times", got-told)
	}
	reason := api.Reason("")
	for _, c := range g.Status.Conditions {
		if c.Type == api.ConditionProgressing {
			reason = c.Reason
		}
	}
	if diff := cmp.Diff(api.ReasonFailed, reason); diff != "" {
		t.Errorf("the reason of Progressing (-want +got):\n%s", diff)
	}
}
