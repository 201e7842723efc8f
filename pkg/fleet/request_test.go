package fleet

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sluice.dev/sluice/pkg/api"
)

// epochOfRequest is the release under way in these tests.
const epochOfRequest = 1000

// aWaitingRelease is a release of v2 whose first wave of two waits for an approval since start.
func aWaitingRelease() *api.FleetRollout {
	at := metav1.NewMicroTime(start)
	began := metav1.NewMicroTime(start.Add(-time.Hour))
	return &api.FleetRollout{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "checkout", UID: "u", Generation: 3},
		Spec:       api.FleetRolloutSpec{Plan: "standard", Release: &api.FleetRelease{Version: "v2"}},
		Status: api.FleetRolloutStatus{
			Epoch: epochOfRequest, Began: epochOfRequest, Verb: api.FleetVerbRelease, Phase: api.FleetPhaseWaiting, Reason: "Approval", ObservedGeneration: 3, PauseSeq: 1,
			Release: &api.FleetRelease{Version: "v2"}, Plan: &api.FleetStrategy{Waves: []api.FleetWave{{Name: "canary", Percent: 10, Pause: &api.Pause{}}, {Name: "rest"}}},
			Wave: 1, Waves: []api.FleetWaveStatus{{Name: "canary", Stage: api.FleetWavePause, Since: at, Began: began, DeliveryFrom: began}},
		},
	}
}

func anApproval() Request {
	return Request{
		Decision: api.DecisionApprove, UID: "u", Epoch: epochOfRequest, Wave: "canary", Principal: "ci", Source: "/ci", ID: "1", Made: start.Add(time.Second), Arrived: start.Add(time.Second),
	}
}

func aReleaseRequest(version string) Request {
	return Request{Release: api.FleetRelease{Version: version}, Principal: "ci", Source: "/ci", ID: "r", Made: start, Arrived: start.Add(time.Second)}
}

func TestRequestsAboutAFleet(t *testing.T) {
	t.Parallel()
	stage := func(s api.FleetWaveStage) func(*api.FleetRollout, *Request) {
		return func(r *api.FleetRollout, _ *Request) { r.Status.Waves[0].Stage = s }
	}
	decided := func(d api.Decision) func(*api.FleetRollout, *Request) {
		return func(r *api.FleetRollout, _ *Request) {
			r.Status.Approvals = []api.FleetApproval{{Wave: 1, Epoch: epochOfRequest, PauseSeq: 1, Decision: d, Actor: "kim", EventID: "9", Source: "/kim"}}
		}
	}
	v3 := func(change func(*api.FleetRollout, *Request)) func(*api.FleetRollout, *Request) {
		return func(r *api.FleetRollout, q *Request) {
			*q = aReleaseRequest("v3")
			change(r, q)
		}
	}
	for name, tt := range map[string]struct {
		change func(*api.FleetRollout, *Request)
		want   api.Refusal
	}{
		"an approval of the wave that waits":  {func(*api.FleetRollout, *Request) {}, ""},
		"another uid":                         {func(_ *api.FleetRollout, q *Request) { q.UID = "other" }, api.RefusalWrongRelease},
		"another epoch":                       {func(_ *api.FleetRollout, q *Request) { q.Epoch-- }, api.RefusalWrongRelease},
		"a later epoch":                       {func(_ *api.FleetRollout, q *Request) { q.Epoch++ }, api.RefusalWrongRelease},
		"a wave that is not in the plan":      {func(_ *api.FleetRollout, q *Request) { q.Wave = "nonsense" }, api.RefusalWrongWave},
		"a wave that has not begun":           {func(_ *api.FleetRollout, q *Request) { q.Wave = "rest" }, api.RefusalNotPaused},
		"a wave that has passed":              {stage(api.FleetWavePassed), api.RefusalWrongWave},
		"a wave whose clusters are under way": {stage(api.FleetWaveGoing), api.RefusalNotPaused},
		"a pause that ends by itself":         {func(r *api.FleetRollout, _ *Request) { r.Status.Plan.Waves[0].Pause.Duration = new(int32(60)) }, api.RefusalNotPaused},
		"a rejection of a wave under way": {func(r *api.FleetRollout, q *Request) {
			q.Decision = api.DecisionReject
			stage(api.FleetWaveGoing)(r, q)
		}, ""},
		"a rejection of a wave that has passed": {func(r *api.FleetRollout, q *Request) {
			q.Decision = api.DecisionReject
			stage(api.FleetWavePassed)(r, q)
		}, api.RefusalWrongWave},
		"a rejection from before the wave": {func(_ *api.FleetRollout, q *Request) {
			q.Decision = api.DecisionReject
			q.Made = start.Add(-2 * time.Hour)
		}, api.RefusalExpired},
		"an approval after an approval": {decided(api.DecisionApprove), api.RefusalAlreadyDecided},
		"an approval after a rejection": {decided(api.DecisionReject), api.RefusalAlreadyDecided},
		"a release that is withdrawn":   {func(r *api.FleetRollout, _ *Request) { r.Status.Verb = api.FleetVerbWithdraw }, api.RefusalNotInProgress},
		"a release that has succeeded":  {func(r *api.FleetRollout, _ *Request) { r.Status.Phase = api.FleetPhaseSucceeded }, api.RefusalNotInProgress},
		"no release":                    {func(r *api.FleetRollout, _ *Request) { r.Status.Release = nil }, api.RefusalNotInProgress},
		"made before the pause":         {func(_ *api.FleetRollout, q *Request) { q.Made = start.Add(-10 * time.Minute) }, api.RefusalExpired},
		"came in before the pause":      {func(_ *api.FleetRollout, q *Request) { q.Arrived = start.Add(-time.Second) }, api.RefusalNotPaused},
		"made in the future":            {func(_ *api.FleetRollout, q *Request) { q.Made = start.Add(time.Hour) }, api.RefusalMalformed},
		"bound to the pause before":     {func(_ *api.FleetRollout, q *Request) { q.Bound = &RequestBound{UID: "u", Epoch: epochOfRequest} }, api.RefusalExpired},
		"bound to another object": {func(_ *api.FleetRollout, q *Request) {
			q.Bound = &RequestBound{UID: "x", Epoch: epochOfRequest, PauseSeq: 1}
		}, api.RefusalExpired},
		"the event of another sender": {func(r *api.FleetRollout, q *Request) {
			decided(api.DecisionApprove)(r, q)
			q.ID, q.Source = "9", "/kim"
		}, api.RefusalAlreadyDecided},
		"being deleted":   {func(r *api.FleetRollout, _ *Request) { r.DeletionTimestamp = &metav1.Time{Time: start} }, api.RefusalNotInProgress},
		"another version": {v3(func(*api.FleetRollout, *Request) {}), ""},
		"a version that was withdrawn": {v3(func(r *api.FleetRollout, _ *Request) {
			r.Status.Blocked = []api.FleetBlock{{Version: "version/v3", Epoch: 1}}
		}), api.RefusalBlocked},
		"a version that was unblocked": {v3(func(r *api.FleetRollout, _ *Request) {
			r.Status.Blocked = []api.FleetBlock{{Version: "version/v3", Epoch: 1, Unblocked: true}}
		}), ""},
		"a version for another epoch":      {v3(func(_ *api.FleetRollout, q *Request) { q.Epoch = 7 }), api.RefusalWrongRelease},
		"a version for this epoch":         {v3(func(_ *api.FleetRollout, q *Request) { q.Epoch, q.Made = epochOfRequest, time.Time{} }), ""},
		"a version without time and epoch": {v3(func(_ *api.FleetRollout, q *Request) { q.Made = time.Time{} }), api.RefusalMalformed},
		"a version of last week":           {v3(func(_ *api.FleetRollout, q *Request) { q.Made = start.Add(-7 * 24 * time.Hour) }), api.RefusalExpired},
		"a version of another object":      {v3(func(_ *api.FleetRollout, q *Request) { q.UID = "other" }), api.RefusalWrongRelease},
		"a version, and another one came": {v3(func(_ *api.FleetRollout, q *Request) {
			q.Bound = &RequestBound{UID: "u", Epoch: epochOfRequest, Named: api.FleetRelease{Version: "v1"}}
		}), api.RefusalWrongRelease},
		"a version, and another release began": {v3(func(_ *api.FleetRollout, q *Request) {
			q.Bound = &RequestBound{UID: "u", Epoch: 7, Named: api.FleetRelease{Version: "v2"}}
		}), api.RefusalWrongRelease},
		"a version, delivered again before the write": {v3(func(_ *api.FleetRollout, q *Request) {
			q.Bound = &RequestBound{UID: "u", Epoch: epochOfRequest, Named: api.FleetRelease{Version: "v2"}}
		}), ""},
		"a plan for a FleetRollout with its own waves": {v3(func(r *api.FleetRollout, q *Request) { r.Spec.Plan, q.Plan = "", "hotfix" }), api.RefusalWrongPlan},
		"a plan that does not exist": {v3(func(_ *api.FleetRollout, q *Request) {
			q.Plan, q.PlanProblem = "hotfix", "There is no FleetPlan hotfix"
		}), api.RefusalWrongPlan},
		"a plan": {v3(func(_ *api.FleetRollout, q *Request) { q.Plan = "hotfix" }), ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, q := aWaitingRelease(), anApproval()
			tt.change(r, &q)
			before := r.DeepCopy()
			got := EvaluateRequest(r, q, start.Add(time.Minute))
			if got.Refusal != tt.want || got.Refusal != "" && got.Message == "" {
				t.Errorf("it is refused with %q, want %q: %s", got.Refusal, tt.want, got.Message)
			}
			if (got.Status != nil || got.Name) != (tt.want == "") {
				t.Errorf("it writes %v %v", got.Status, got.Name)
			}
			if diff := cmp.Diff(before, r); diff != "" {
				t.Errorf("it changes what it gets: %s", diff)
			}
		})
	}
}

// An accepted decision lets the wave go on, and the same event is accepted again without anything to write.
func TestADecisionOfAProgramCountsOnce(t *testing.T) {
	t.Parallel()
	r, q := aWaitingRelease(), anApproval()
	first := EvaluateRequest(r, q, start.Add(time.Minute))
	if first.Status == nil || len(first.Status.Approvals) != 1 || first.Epoch != epochOfRequest || first.Wave != "canary" || first.Version != "v2" {
		t.Fatalf("the decision is %+v", first)
	}
	if last := first.Status.Transitions[len(first.Status.Transitions)-1]; last.Reason != string(api.FleetCommandApprove) || last.Actor != "ci" {
		t.Errorf("the transition is %+v", last)
	}
	r.Status = *first.Status
	again := EvaluateRequest(r, q, start.Add(time.Hour))
	if again.Refusal != "" || again.Status != nil || again.Message != first.Message {
		t.Errorf("the second time it is %+v", again)
	}
	q.ID = "2"
	if other := EvaluateRequest(r, q, start.Add(time.Hour)); other.Refusal != api.RefusalAlreadyDecided {
		t.Errorf("another event about the same pause is %+v", other)
	}
}

// The answer to a release has the number that the hub has chosen for it.
func TestAReleaseIsAnsweredWhenTheHubHasBegunIt(t *testing.T) {
	t.Parallel()
	r, q := aWaitingRelease(), aReleaseRequest("v3")
	q.Bound = &RequestBound{UID: "u", Epoch: epochOfRequest, Named: api.FleetRelease{Version: "v2"}}
	r.Spec.Release, r.Generation = &api.FleetRelease{Version: "v3"}, 4
	if got := EvaluateRequest(r, q, start); !got.Waiting {
		t.Errorf("before the hub has looked, it is %+v", got)
	}
	r.Status.ObservedGeneration, r.Status.Release, r.Status.Epoch, r.Status.Began = 4, &api.FleetRelease{Version: "v3"}, 2000, 2000
	if got := EvaluateRequest(r, q, start); got.Refusal != "" || got.Epoch != 2000 || got.Name || got.Waiting {
		t.Errorf("after that, it is %+v", got)
	}
	r.Status.Verb, r.Status.Phase = api.FleetVerbAbort, api.FleetPhaseAborted
	q.Bound = nil
	if got := EvaluateRequest(r, q, start); got.Refusal != api.RefusalNotInProgress {
		t.Errorf("a new event for the version of an aborted release is %+v", got)
	}
}
