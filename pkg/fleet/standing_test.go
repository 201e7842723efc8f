package fleet

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sluice.dev/sluice/pkg/api"
)

// fleetAt returns a FleetRollout whose release of v2 has reached a phase.
func fleetAt(phase api.FleetPhase, reason string, changes ...func(*api.FleetRollout)) *api.FleetRollout {
	r := &api.FleetRollout{}
	r.Namespace, r.Name, r.Generation = "shop", "checkout", 3
	r.Spec.Release = &api.FleetRelease{Version: "v2"}
	r.Status = api.FleetRolloutStatus{
		ObservedGeneration: 3, Verb: api.FleetVerbRelease, Release: &api.FleetRelease{Version: "v2"}, Phase: phase, Reason: reason, Message: "the message",
		Plan: &api.FleetStrategy{Waves: []api.FleetWave{{Name: "canary"}, {Name: "rest"}}}, Wave: 1,
		Waves: []api.FleetWaveStatus{{Name: "canary", Stage: api.FleetWaveGoing}}, Counts: map[api.FleetTargetPhase]int32{api.FleetTargetCompleted: 1, api.FleetTargetPending: 2},
	}
	for _, change := range changes {
		change(r)
	}
	return r
}

func TestStandings(t *testing.T) {
	t.Parallel()
	const named = "the release of v2 in FleetRollout shop/checkout "
	released := func(version string) func(*api.FleetRollout) {
		return func(r *api.FleetRollout) { r.Spec.Release = &api.FleetRelease{Version: version} }
	}
	stage := func(stage api.FleetWaveStage) func(*api.FleetRollout) {
		return func(r *api.FleetRollout) { r.Status.Waves[0].Stage = stage }
	}
	verb := func(verb api.FleetVerb) func(*api.FleetRollout) {
		return func(r *api.FleetRollout) { r.Status.Verb = verb }
	}
	since := func(age time.Duration) func(*api.FleetRollout) {
		return func(r *api.FleetRollout) {
			r.Status.Attention = []api.FleetAttention{{Cluster: "eu1", Reason: "Unreachable"}, {Reason: "BudgetExceeded", Since: &metav1.MicroTime{Time: start.Add(-age)}}}
		}
	}
	older := func(r *api.FleetRollout) { r.Status.Release = &api.FleetRelease{Version: "v1"} }
	for name, tt := range map[string]struct {
		r      *api.FleetRollout
		wanted Wanted
		kind   Standing
		text   string
	}{
		"it goes on": {r: fleetAt(api.FleetPhaseProgressing, "Wave"), kind: UnderWay, text: named + "is Progressing, wave 1 of 2, 1 of 3 clusters completed: the message"},
		"it soaks":   {r: fleetAt(api.FleetPhaseSoaking, "Soak"), kind: UnderWay, text: named + "is Soaking, wave 1 of 2, 1 of 3 clusters completed: the message"},
		"a pause that ends by itself": {r: fleetAt(api.FleetPhasePaused, "Duration"), kind: UnderWay,
			text: named + "is Paused, wave 1 of 2, 1 of 3 clusters completed: the message"},
		"the delivery is awaited": {r: fleetAt(api.FleetPhaseWaiting, "Delivery"), kind: UnderWay,
			text: named + "is Waiting, wave 1 of 2, 1 of 3 clusters completed: the message"},
		"an approval is awaited": {r: fleetAt(api.FleetPhaseWaiting, "Approval"), kind: NeedsPerson, text: named + "waits for a person: the message"},
		"it is paused":           {r: fleetAt(api.FleetPhasePaused, "Paused"), kind: NeedsPerson, text: named + "waits for a person: the message"},
		"it stands still":        {r: fleetAt(api.FleetPhaseStalled, "HubRestored"), kind: NeedsPerson, text: named + "waits for a person: the message"},
		"clusters are lost a short time ago": {r: fleetAt(api.FleetPhaseStalled, "BudgetExceeded", since(59*time.Second)), kind: UnderWay,
			text: named + "is Stalled, wave 1 of 2, 1 of 3 clusters completed: the message"},
		"clusters are lost":    {r: fleetAt(api.FleetPhaseStalled, "BudgetExceeded", since(time.Minute)), kind: NeedsPerson, text: named + "waits for a person: the message"},
		"clusters have failed": {r: fleetAt(api.FleetPhasePaused, "BudgetExceeded", since(0)), kind: NeedsPerson, text: named + "waits for a person: the message"},
		"it has succeeded":     {r: fleetAt(api.FleetPhaseSucceeded, "Completed"), kind: Succeeded, text: named + "has succeeded: the message"},
		"it is taken back":     {r: fleetAt(api.FleetPhaseWithdrawing, "RolledBack", verb(api.FleetVerbWithdraw)), kind: Failed, text: named + "has failed: the message"},
		"it is aborted":        {r: fleetAt(api.FleetPhaseAborted, "Aborted", verb(api.FleetVerbAbort)), kind: Failed, text: named + "was aborted: the message"},
		"the spec names another version in its place": {r: fleetAt(api.FleetPhaseSucceeded, "Completed", released("v3")), kind: Superseded,
			text: "v2 was superseded by v3 in FleetRollout shop/checkout"},
		"it was taken back before the spec names another version": {r: fleetAt(api.FleetPhaseWithdrawn, "RolledBack", verb(api.FleetVerbWithdraw), released("v3")), kind: Failed, text: named + "has failed: the message"},
		"it was aborted before the spec names another version":    {r: fleetAt(api.FleetPhaseAborted, "Aborted", verb(api.FleetVerbAbort), released("v3")), kind: Failed, text: named + "was aborted: the message"},
		"another version has come since the last look": {r: fleetAt(api.FleetPhaseProgressing, "Wave", released("v3"), func(r *api.FleetRollout) { r.Status.Release.Version = "v3" }),
			wanted: Wanted{Named: true}, kind: Superseded, text: "v2 was superseded by v3 in FleetRollout shop/checkout"},
		"the spec does not name it yet": {r: fleetAt(api.FleetPhaseSucceeded, "Completed", released("v1"), older), kind: NotBegun,
			text: "FleetRollout shop/checkout does not name v2 yet; it names v1"},
		"it was withdrawn before the first look": {r: fleetAt(api.FleetPhaseProgressing, "Wave", released("v3"), older, func(r *api.FleetRollout) {
			r.Status.Blocked = []api.FleetBlock{{Version: "version/v2", Epoch: 1}}
		}), kind: Failed, text: "v2 was withdrawn from FleetRollout shop/checkout"},
		"no hub has looked": {r: fleetAt("", ""), kind: NotBegun, text: "no executor of a hub has looked at FleetRollout shop/checkout yet"},
		"the hub has not begun it": {r: fleetAt(api.FleetPhaseSucceeded, "Completed", older), kind: NotBegun,
			text: named + "has not begun yet"},
		"the hub has not looked since the change": {r: fleetAt(api.FleetPhaseSucceeded, "Completed", func(r *api.FleetRollout) { r.Generation = 4 }),
			kind: NotBegun, text: named + "has not begun yet"},
		"it cannot begin": {r: fleetAt(api.FleetPhaseStalled, "InvalidPlan", older), kind: NeedsPerson, text: named + "has not begun: the message"},
		"its wave has completed": {r: fleetAt(api.FleetPhaseWaiting, "Approval", stage(api.FleetWavePause)), wanted: Wanted{UntilWave: "canary"},
			kind: Succeeded, text: "wave canary has completed in " + named[:len(named)-1] + ": the message"},
		"its wave pauses in the middle": {r: fleetAt(api.FleetPhaseWaiting, "Approval", stage(api.FleetWaveHoldPause)), wanted: Wanted{UntilWave: "canary"},
			kind: NeedsPerson, text: named + "waits for a person: the message"},
		"a later wave is awaited": {r: fleetAt(api.FleetPhaseProgressing, "Wave", stage(api.FleetWavePassed)), wanted: Wanted{UntilWave: "rest"},
			kind: UnderWay, text: named + "is Progressing, wave 1 of 2, 1 of 3 clusters completed: the message"},
		"other images": {r: fleetAt(api.FleetPhaseProgressing, "Wave"), wanted: Wanted{Release: api.FleetRelease{Images: map[string]string{"app": "checkout:v2"}}},
			kind: NotBegun, text: "FleetRollout shop/checkout does not name the images app=checkout:v2 yet; it names v2"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if tt.wanted.Release.Key() == "" {
				tt.wanted.Release.Version = "v2"
			}
			kind, text := StandingOf(tt.r, &tt.wanted, start)
			if diff := cmp.Diff(tt.text, text); kind != tt.kind || diff != "" {
				t.Errorf("it is %d, want %d (-want +got):\n%s", kind, tt.kind, diff)
			}
		})
	}
}
