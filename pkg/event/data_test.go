package event_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/event"
	"sluice.dev/sluice/pkg/rollout"
)

var noon = metav1.NewMicroTime(time.Date(2026, 11, 20, 12, 0, 0, 250_000_000, time.UTC))

// aRelease is the third release of a Rollout with two steps. It ended and began again in one commit.
func aRelease() rollout.Seen {
	return rollout.Seen{
		Namespace: "shop", Name: "checkout", UID: "6f1c",
		Spec: rollout.Spec{Steps: []rollout.Step{
			{Replicas: rollout.Amount{Value: 1}, Matches: make([]api.HTTPRouteMatch, 1)},
			{Replicas: rollout.Amount{Value: 50, Percent: true}},
		}},
		Status: api.RolloutStatus{Sluice: &api.SluiceStatus{
			Epoch: 3, RolloutID: "v1.4.2", StableRevision: "7d9f", CanaryRevision: "c41a", TransitionSeq: 44,
			Transitions: []api.Transition{
				{Seq: 41, Time: noon, From: "StepPaused", To: "Finalising", Step: 2, Traffic: "0.5%", Reason: "Continuous", Message: "a newer one"},
				{Seq: 42, Time: noon, From: "Finalising", To: "Initializing", Step: 1, Traffic: "matches", Reason: "ReleaseStarted", Message: "held"},
				{Seq: 43, Time: noon, From: "StepPaused", To: "StepReady", Step: 2, Traffic: "20%", Reason: "Approved", Message: "step 2 was approved", Actor: "ci-checkout"},
				{Seq: 44, Time: noon, From: "Idle", To: "Stalled", Step: 2, Reason: "WorkloadMissing", Message: "create it"},
			},
		}},
	}
}

func TestWhatAnEventTells(t *testing.T) {
	t.Parallel()
	release := `"release":{"epoch":3,"rolloutID":"v1.4.2","stableRevision":"7d9f","canaryRevision":"c41a"},`
	for name, c := range map[string]struct {
		seq  int64
		want string
	}{
		"of a release before the one under way its number, and the weight": {41,
			`"release":{"epoch":2},"step":{"index":2,"weight":0.5},"from":"StepPaused","to":"Finalising","reason":"Continuous","message":"a newer one","cause":"Workload"}`},
		"the plan of a step that matches requests": {42,
			release + `"step":{"index":1,"of":2,"replicas":"1","matches":true},"from":"Finalising","to":"Initializing","reason":"ReleaseStarted","message":"held","cause":"Workload"}`},
		"who approved, and the weight": {43,
			release + `"step":{"index":2,"of":2,"replicas":"50%","weight":20},"from":"StepPaused","to":"StepReady","reason":"Approved","message":"step 2 was approved","cause":"Approval","actor":"ci-checkout"}`},
		"no step at rest": {44,
			release + `"from":"Idle","to":"Stalled","reason":"WorkloadMissing","message":"create it","cause":"Problem"}`},
	} {
		e := told(t, aRelease(), c.seq)
		want := `{"cluster":"eu-1","namespace":"shop","name":"checkout","uid":"6f1c",` + c.want
		if diff := cmp.Diff(want, string(e.Data())); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestTheSameTransitionIsTheSameEventWhoeverTellsIt(t *testing.T) {
	t.Parallel()
	first := told(t, aRelease(), 43)
	later := aRelease()
	later.Status.Sluice.Epoch, later.Spec.Steps = 4, nil
	later.Status.Sluice.Transitions = append(later.Status.Sluice.Transitions, api.Transition{Seq: 45, Time: noon, To: "Initializing", Reason: "ReleaseStarted"})
	again := told(t, later, 43)
	type identity struct {
		ID, Source, Type string
		Time             time.Time
		Sequence         any
		Epoch            int64
	}
	of := func(e event.Event) identity {
		var d event.Data
		if err := json.Unmarshal(e.Data(), &d); err != nil {
			t.Fatal(err)
		}
		return identity{e.ID(), e.Source(), e.Type(), e.Time(), e.Extensions()["sequence"], d.Release.Epoch}
	}
	if diff := cmp.Diff(of(first), of(again)); diff != "" {
		t.Errorf("(-first +again):\n%s", diff)
	}
}

func TestAnEventBeforeTheFirstRelease(t *testing.T) {
	t.Parallel()
	seen := rollout.Seen{Namespace: "shop", Name: "checkout", UID: "6f1c"}
	e, err := event.NewTransition("eu-1", seen, api.Transition{Seq: 1, Time: noon, From: "Idle", To: "Disabled", Reason: "Disabled"})
	if err != nil {
		t.Fatal(err)
	}
	want := `{"cluster":"eu-1","namespace":"shop","name":"checkout","uid":"6f1c","from":"Idle","to":"Disabled","reason":"Disabled","cause":"Rollout"}`
	if diff := cmp.Diff(want, string(e.Data())); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func told(t *testing.T, seen rollout.Seen, seq int64) event.Event {
	t.Helper()
	for _, transition := range seen.Status.Sluice.Transitions {
		if transition.Seq == seq {
			e, err := event.NewTransition("eu-1", seen, transition)
			if err != nil {
				t.Fatal(err)
			}
			return e
		}
	}
	t.Fatalf("there is no transition %d", seq)
	panic("unreachable")
}
