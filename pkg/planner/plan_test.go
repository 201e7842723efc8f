package planner

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
)

type planCase struct {
	given *given
	want  outcome
}

func runPlanCases(t *testing.T, cases map[string]planCase) {
	t.Helper()
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, c.given.outcome()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

const (
	confirm1   = "Rollout is in step(1/3), and you need manually confirm to enter the next step"
	confirm2   = "Rollout is in step(2/3), and you need manually confirm to enter the next step"
	canceling  = "The workload has been rolled back and the rollout process will be canceled"
	continuous = "Workload is continuous release"
	disabling  = "Disabling rollout, release resources"
)

func TestPlanWalksThroughAStep(t *testing.T) {
	runPlanCases(t, map[string]planCase{
		"a held change begins a release and pins the stable Service first": {
			aRollout().HeldAt("v2"),
			outcome{State: rollout.StateBeforeUpgrade, Step: 1, Actions: []string{"pin Service demo to h1"}, Message: "Rollout is in Progressing"},
		},
		"with the Service pinned the canary is made": {
			aRelease().With(func(g *given) { g.StableService.Hash = "h1" }),
			outcome{State: rollout.StateUpgrade, Step: 1, Actions: []string{"create canary demo-canary with 1 replicas"}, Message: "Rollout is in Progressing"},
		},
		"pods that are not available are waited for": {
			aRelease().AtStep(2).With(func(g *given) { g.Pods(5, 4) }),
			outcome{State: rollout.StateUpgrade, Step: 2, Message: "Rollout is in step(2/3), and upgrade workload to new version: 4 of 5 canary pods are available"},
		},
		"pods that are not available yet are labelled": {
			aRelease().AtStep(2).With(func(g *given) { g.Pods(5, 0); g.Canary.Batches.Unlabelled = 5 }),
			outcome{State: rollout.StateUpgrade, Step: 2, Actions: []string{"label pods of batch 2"}, Message: "Rollout is in Progressing"},
		},
		"pods above the plan of their step get no batch": {
			aRelease().AtStep(1).With(func(g *given) {
				g.Pods(3, 0)
				g.Canary.Batches = rollout.PodBatches{Labelled: []int32{1}, Unlabelled: 2}
			}),
			outcome{State: rollout.StateUpgrade, Step: 1, Message: "Rollout is in step(1/3), and upgrade workload to new version: 0 of 1 canary pods are available"},
		},
		"the failure threshold lets a step go on with unready pods": {
			aRelease().AtStep(2).With(func(g *given) {
				g.Spec.FailureThreshold = rollout.Amount{Value: 20, Percent: true}
				g.Pods(5, 4)
				g.CanaryEndpoints = 4
			}),
			outcome{State: rollout.StatePaused, Step: 2, Message: confirm2},
		},
		"a failure threshold of everything still wants one pod": {
			aRelease().AtStep(2).With(func(g *given) {
				g.Spec.FailureThreshold = rollout.Amount{Value: 100, Percent: true}
				g.Pods(5, 0)
			}),
			outcome{State: rollout.StateUpgrade, Step: 2, Message: "Rollout is in step(2/3), and upgrade workload to new version: 0 of 5 canary pods are available"},
		},
		"the canary Service comes after the pods": {
			aRelease().AtStep(1).With(func(g *given) { g.CanaryService = nil }),
			outcome{State: rollout.StateUpgrade, Step: 1, Actions: []string{"create Service demo-canary selecting hc"}, Message: "Rollout is in Progressing"},
		},
		"endpoints that lag behind are waited for": {
			aRelease().AtStep(2).With(func(g *given) { g.CanaryEndpoints = 4 }),
			outcome{State: rollout.StateUpgrade, Step: 2, Message: "waiting for endpoints of Service demo-canary: 4 of 5 are ready"},
		},
		"routes come last": {
			aRelease().AtStep(2).With(func(g *given) { g.unrouted() }),
			outcome{State: rollout.StateTrafficRouting, Step: 2, Actions: []string{"route step 2 on VirtualService demo"}, Message: "Rollout is in Progressing"},
		},
		"a route is not done before its gateway has accepted it": {
			aRelease().AtStep(2).With(func(g *given) { g.Routes[0].Steps[2] = rollout.Rendering{Applied: true} }),
			outcome{State: rollout.StateTrafficRouting, Step: 2, Message: "waiting for the gateway to accept VirtualService demo"},
		},
		"a step that is done waits for approval": {
			aRelease().AtStep(1), outcome{State: rollout.StatePaused, Step: 1, Message: confirm1},
		},
		"a pause of 30 seconds is waited for": {
			aRelease().AtStep(1).With(func(g *given) { g.Spec.Steps[0].Manual, g.Spec.Steps[0].Pause = false, 30*time.Second }).Paused().After(29 * time.Second),
			outcome{State: rollout.StatePaused, Step: 1, Message: "Rollout is in step(1/3), and wait duration(30 seconds) to enter the next step"},
		},
		"a pause that is over leads to the next step": {
			aRelease().AtStep(1).With(func(g *given) { g.Spec.Steps[0].Manual, g.Spec.Steps[0].Pause = false, 30*time.Second }).Paused().After(30 * time.Second),
			outcome{State: rollout.StateUpgrade, Step: 2, Actions: []string{"scale canary demo-canary to 5 replicas"}, Message: "Rollout is in Progressing"},
		},
		"a pause of 0 does not pause": {
			aRelease().AtStep(1).With(func(g *given) { g.Spec.Steps[0].Manual = false }),
			outcome{State: rollout.StateUpgrade, Step: 2, Actions: []string{"scale canary demo-canary to 5 replicas"}, Message: "Rollout is in Progressing"},
		},
		"an approval leads to the next step": {
			aRelease().AtStep(1).Paused().Approved(),
			outcome{State: rollout.StateUpgrade, Step: 2, Actions: []string{"scale canary demo-canary to 5 replicas"}, Message: "Rollout is in Progressing"},
		},
		"an approved step that has fallen apart is mended before it is left": {
			aRelease().AtStep(1).Paused().Approved().With(func(g *given) { g.StableService.Hash = "" }),
			outcome{State: rollout.StateReady, Step: 1, Actions: []string{"pin Service demo to h1"}, Message: "Rollout is in Progressing"},
		},
		"the last approval completes the release": {
			aRelease().AtStep(3).Paused().Approved(),
			outcome{State: rollout.StateFinalising, Step: 3, Actions: []string{"unpin Service demo"}, Message: "Rollout has been completed and some closing work is being done"},
		},
		"a last step of 100% needs no approval": {
			aRelease().With(func(g *given) { g.Spec.Steps[2].Replicas = rollout.Amount{Value: 100, Percent: true} }).replanned().AtStep(3).Paused(),
			outcome{State: rollout.StateFinalising, Step: 3, Actions: []string{"unpin Service demo"}, Message: "Rollout has been completed and some closing work is being done"},
		},
		"a last step with as many pods as a number needs approval": {
			aRelease().With(func(g *given) { g.Spec.Steps[2].Replicas = rollout.Amount{Value: 10} }).replanned().AtStep(3).Paused(),
			outcome{State: rollout.StatePaused, Step: 3, Message: "Rollout is in step(3/3), and you need manually confirm to enter the next step"},
		},
		"a step without traffic gives the routes back before the Service": {
			aRelease().AtStep(2).With(func(g *given) { g.Spec.Steps[1].Weight = nil }).replanned().In(rollout.StateBeforeUpgrade),
			outcome{State: rollout.StateBeforeUpgrade, Step: 2, Actions: []string{"restore VirtualService demo"}, Message: "Rollout is in Progressing"},
		},
		"without a canary Service of its own nothing is pinned or made": {
			aRelease().AtStep(1).With(func(g *given) {
				g.Spec.Routing[0].CanaryService, g.CanaryService, g.CanaryEndpoints, g.StableService.Hash = "demo", nil, 0, ""
			}).replanned(),
			outcome{State: rollout.StatePaused, Step: 1, Message: confirm1},
		},
		"a workload that grows takes the canary with it": {
			aRelease().AtStep(2).Paused().With(func(g *given) { g.Workload.DesiredReplicas = 20 }),
			outcome{State: rollout.StatePaused, Step: 2, Actions: []string{"scale canary demo-canary to 10 replicas"}, Message: "Rollout is in Progressing"},
		},
		"a workload that shrinks leaves the canary as it is": {
			aRelease().AtStep(2).Paused().With(func(g *given) { g.Workload.DesiredReplicas = 4 }),
			outcome{State: rollout.StatePaused, Step: 2, Message: confirm2},
		},
		"a workload scaled to 0 is waited for, for its routes would lead nowhere": {
			aRelease().With(func(g *given) { g.Workload.DesiredReplicas, g.StableService.Hash = 0, "h1" }),
			outcome{State: rollout.StateUpgrade, Step: 1, Message: "waiting for the workload to have replicas: it is scaled to 0, so there is nothing to release"},
		},
	})
}

// replanned treats an edit of the spec as the plan that the release has followed from its beginning.
func (g *given) replanned() *given {
	g.replan()
	g.Status.Sluice.PlanHash, g.Status.CanaryStatus.RolloutHash = g.Spec.Hash, g.Spec.Hash
	return g
}

func TestPlanTurnsAside(t *testing.T) {
	v3 := func(g *given) { g.HeldAt("v3") }
	runPlanCases(t, map[string]planCase{
		"a rollback takes the traffic off first": {
			aRelease().AtStep(2).Paused().RolledBack(),
			outcome{State: rollout.StateFinalising, Step: 2, Actions: []string{"restore VirtualService demo"}, Message: canceling},
		},
		"a rollback is carried out although the Rollout is paused": {
			aRelease().AtStep(2).Paused().RolledBack().With(func(g *given) { g.Spec.Paused = true }),
			outcome{State: rollout.StateFinalising, Step: 2, Actions: []string{"restore VirtualService demo"}, Message: canceling},
		},
		"a rollback while initializing": {
			aRollout().HeldAt("v2").With(func(g *given) { g.Spec.Paused = true }).Planned().RolledBack(),
			outcome{State: rollout.StateFinalising, Step: 1, Actions: []string{"resume Deployment demo"}, Message: canceling},
		},
		"a third version takes the traffic off the second": {
			aRelease().AtStep(2).Paused().With(v3),
			outcome{State: rollout.StateFinalising, Step: 2, Actions: []string{"restore VirtualService demo"}, Message: continuous},
		},
		"a third version begins again at step 1 with the Service still pinned": {
			aRelease().AtStep(2).Finalising(api.FinaliseContinuous).Cleared().With(v3).With(func(g *given) { g.StableService.Hash = "h1" }).With(func(g *given) { g.Status.Sluice.RouteDigest = "" }),
			outcome{State: rollout.StateUpgrade, Step: 1, Actions: []string{"create canary demo-canary with 1 replicas"}, Message: "Rollout is in Progressing"},
		},
		"a third version while initializing begins again at once": {
			aRollout().HeldAt("v2").With(func(g *given) { g.Spec.Paused = true }).Planned().With(v3),
			outcome{State: rollout.StateInitializing, Step: 1, Message: "Rollout has been paused, you can resume it by kube-cli"},
		},
		"disabling hands everything to the stable Service": {
			aRelease().AtStep(2).Paused().Disabled(),
			outcome{State: rollout.StateFinalising, Step: 2, Actions: []string{"unpin Service demo"}, Message: disabling},
		},
		"disabling after a rollback keeps the canary out of the stable Service": {
			aRelease().AtStep(2).Paused().Disabled().RolledBack(),
			outcome{State: rollout.StateFinalising, Step: 2, Actions: []string{"restore VirtualService demo"}, Message: disabling},
		},
		"disabling at rest lets go of the workload": {
			aRollout().Disabled(),
			outcome{State: rollout.StateDisabled, Step: 3, Actions: []string{"disown Deployment demo"}, Message: "Rollout is disabled"},
		},
		"disabling before the first step lets the held change go": {
			aRollout().HeldAt("v2").Disabled(),
			outcome{State: rollout.StateDisabled, Step: 3, Actions: []string{"resume Deployment demo"}, Message: "Rollout is disabled"},
		},
		"deleting in a step cleans up first": {
			aRelease().AtStep(2).Paused().Deleted(),
			outcome{State: rollout.StateFinalising, Step: 2, Actions: []string{"unpin Service demo"}, Message: "Rollout is in terminating"},
		},
		"deleting while initializing lets the held change go": {
			aRollout().HeldAt("v2").With(func(g *given) { g.Spec.Paused = true }).Planned().Deleted(),
			outcome{State: rollout.StateFinalising, Step: 1, Actions: []string{"resume Deployment demo"}, Message: "Rollout is in terminating"},
		},
		"deleting while a rollback is finalised goes on with traffic first": {
			aRelease().AtStep(2).RolledBack().Finalising(api.FinaliseRollback).Deleted(),
			outcome{State: rollout.StateFinalising, Step: 2, Actions: []string{"restore VirtualService demo"}, Message: "Rollout is in terminating"},
		},
		"deleting at rest lets go of the workload": {
			aRollout().Deleted(),
			outcome{State: rollout.StateTerminated, Step: 3, Actions: []string{"disown Deployment demo"}, Message: "Rollout is in terminating"},
		},
		"deleting a disabled Rollout lets it go": {
			aRollout().Disabled().With(func(g *given) { g.Workload.HasMarks = false }).Planned().Deleted(),
			outcome{State: rollout.StateTerminated, Step: 3, Actions: []string{"remove finalizer"}, Message: "Rollout is in terminating"},
		},
		"a workload that is gone takes its release with it": {
			aRelease().AtStep(2).Paused().With(func(g *given) { g.Workload = nil }),
			outcome{State: rollout.StateFinalising, Step: 2, Actions: []string{"restore VirtualService demo"}, Message: "the workload was deleted during its release"},
		},
		"a workload of the same name is another one": {
			aRelease().AtStep(2).Paused().With(func(g *given) { g.Workload.UID = "w2" }),
			outcome{State: rollout.StateFinalising, Step: 2, Actions: []string{"restore VirtualService demo"}, Message: "the workload was deleted during its release"},
		},
		"a workload that runs free during its release is held again": {
			aRelease().AtStep(2).Paused().With(func(g *given) { g.Workload.Paused = false }),
			outcome{State: rollout.StatePaused, Step: 2, Actions: []string{"hold Deployment demo"}, Message: "Rollout is in Progressing"},
		},
		"a change that was rolling out before it could be held is seized": {
			aRollout().With(func(g *given) {
				g.Workload.Revision = "v2"
				g.Workload.Revisions = []rollout.Revision{{Hash: "h1", Revision: "v1", Replicas: 7, Ready: 7}, {Hash: "h2", Revision: "v2", Replicas: 3, Ready: 3}}
			}),
			outcome{State: rollout.StateInitializing, Step: 1, Actions: []string{"hold Deployment demo"}, Message: "Rollout is in Progressing"},
		},
		"pods of which nobody tells yet that they are of the template are no reason to begin": {
			aRollout().With(func(g *given) {
				g.Workload.Observed, g.Workload.Revisions = false, []rollout.Revision{{Hash: "h1", Replicas: 10, Ready: 10}}
			}),
			outcome{State: rollout.StateIdle, Step: 3, Message: "rollout is healthy"},
		},
		"a jump forward": {
			aRelease().AtStep(1).Paused().Jumping(3),
			outcome{State: rollout.StateUpgrade, Step: 3, Actions: []string{"scale canary demo-canary to 8 replicas"}, Message: "Rollout is in Progressing"},
		},
		"a jump back moves traffic and keeps the pods": {
			aRelease().AtStep(3).Paused().Jumping(1),
			outcome{State: rollout.StateTrafficRouting, Step: 1, Actions: []string{"route step 1 on VirtualService demo"}, Message: "Rollout is in Progressing"},
		},
		"a jump to the same step begins it again": {
			aRelease().AtStep(2).Paused().Jumping(2), outcome{State: rollout.StateTrafficRouting, Step: 2, Message: "Rollout has jumped to step(2/3), whose pods and routes are there"},
		},
		"a jump shows for two seconds": {
			aRelease().AtStep(2).Paused().Jumping(2).Planned().After(2 * time.Second), outcome{State: rollout.StatePaused, Step: 2, Message: confirm2},
		},
		"a jump beyond the last step is taken back": {
			aRelease().AtStep(2).Paused().Jumping(9),
			outcome{State: rollout.StatePaused, Step: 2, Message: confirm2, Notes: []string{"nextStepIndex 9 was taken back: set it to a step from 1 to 3 while a release is in a step"}},
		},
		"a changed plan begins the step again and takes no approval for the old one": {
			aRelease().AtStep(2).Paused().Approved().With(func(g *given) { g.Spec.Steps[1].Replicas = rollout.Amount{Value: 60, Percent: true}; g.replan() }),
			outcome{State: rollout.StateUpgrade, Step: 2, Actions: []string{"scale canary demo-canary to 6 replicas"}, Message: "Rollout is in Progressing"},
		},
		"a plan with fewer steps goes on with its last one": {
			aRelease().AtStep(3).Paused().With(func(g *given) { g.Spec.Steps = g.Spec.Steps[:2]; g.replan() }),
			outcome{State: rollout.StateTrafficRouting, Step: 2, Actions: []string{"route step 2 on VirtualService demo"}, Message: "Rollout is in Progressing"},
		},
		"a paused Rollout stays where it is": {
			aRelease().AtStep(1).Paused().Approved().With(func(g *given) { g.Spec.Paused = true }),
			outcome{State: rollout.StateReady, Step: 1, Message: "Rollout has been paused, you can resume it by kube-cli"},
		},
	})
}

func TestPlanTakesBackWhatIsNoApproval(t *testing.T) {
	runPlanCases(t, map[string]planCase{
		"an approval that comes before the pause": {
			aRelease().AtStep(2).With(func(g *given) { g.Pods(5, 1) }).Approved(),
			outcome{
				State: rollout.StateUpgrade, Step: 2, Message: "Rollout is in step(2/3), and upgrade workload to new version: 1 of 5 canary pods are available",
				Notes: []string{"currentStepState StepReady was taken back: approve only while it is StepPaused"},
			},
		},
		"an approval that comes after the release": {
			aRelease().Cleared().In(rollout.StateIdle).Approved().With(func(g *given) { *g.Workload = *aRollout().Workload }),
			outcome{
				State: rollout.StateIdle, Step: 3, Message: "Rollout progressing has been canceled",
				Notes: []string{"currentStepState StepReady was taken back: approve only while it is StepPaused"},
			},
		},
		"an approval of another step": {
			aRelease().AtStep(2).Paused().Approved().With(func(g *given) { g.Status.CanaryStatus.CurrentStepIndex = 1 }),
			outcome{State: rollout.StatePaused, Step: 2, Message: confirm2, Notes: []string{"the approval of step 1 was taken back: the release is in step 2"}},
		},
		"another state than StepReady": {
			aRelease().AtStep(2).Paused().With(func(g *given) { g.Status.CanaryStatus.CurrentStepState = api.StepCompleted }),
			outcome{State: rollout.StatePaused, Step: 2, Message: confirm2, Notes: []string{"currentStepState Completed was taken back: approve only while it is StepPaused"}},
		},
		"an approval while the release is called off": {
			aRelease().AtStep(2).Paused().RolledBack().Finalising(api.FinaliseRollback).Approved(),
			outcome{
				State: rollout.StateFinalising, Step: 2, Actions: []string{"restore VirtualService demo"}, Message: "Rollout progressing has been canceled",
				Notes: []string{"currentStepState StepReady was taken back: approve only while it is StepPaused"},
			},
		},
	})
}

func TestTwoApprovalsOfOnePauseAreOne(t *testing.T) {
	g := aRelease().AtStep(1).Paused().Approved()
	first := Plan(g.Seen, g.now)
	g.Status = first.Status
	second := g.Approved().outcome()
	if len(first.Status.Approvals) != 1 || second.Step != 2 || len(second.Notes) != 1 {
		t.Errorf("the second approval led to %+v", second)
	}
	want := api.Approval{Step: 1, Epoch: 1, PauseSeq: 0, Decision: api.DecisionApprove, Actor: "kubectl", Time: microTime(g.now), Revision: "v2"}
	if diff := cmp.Diff(want, first.Status.Approvals[0]); diff != "" {
		t.Error(diff)
	}
}

func TestTheWayIntoAPauseTellsWhichStepIsReached(t *testing.T) {
	all := aRelease().AtStep(2).Planned().Status.Sluice.Transitions
	if got, want := all[len(all)-1].Message, "step 2 of 3 is reached and pauses"; got != want {
		t.Errorf("the transition says %q, want %q", got, want)
	}
}
