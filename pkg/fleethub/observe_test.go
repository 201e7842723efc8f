package fleethub

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/fleetmessage"
	"sluice.dev/sluice/pkg/queue"
)

// sealed returns an answer of eu1 that was sent with a number.
func sealed(t *testing.T, key signingKey, sent int64, state api.FleetReportState) []byte {
	t.Helper()
	r := aFleetRollout()
	message, err := fleetmessage.Answer{
		Member: fleetmessage.Member{Name: "eu1", UID: "uid-of-eu1"}, Rollout: fleetmessage.Name{Namespace: r.Namespace, Name: r.Name}, FleetRollout: governorOf(r),
		Report: api.FleetReport{Epoch: 5, Seq: 2, State: state}, Sent: sent,
	}.Seal(key.pair)
	if err != nil {
		t.Fatal(err)
	}
	return message
}

func TestWhichAnswersOfAClusterCount(t *testing.T) {
	t.Parallel()
	h, r, key, next, stranger := aHub(t), aFleetRollout(), aKey(t), aKey(t), aKey(t)
	withNATS(t, h)
	m := aMember(key)
	subject := fleetmessage.AnswerSubject("eu1", fleetmessage.Name{Namespace: "shop", Name: "checkout"})
	arrive := func(message []byte) {
		t.Helper()
		if err := h.answers.Publish(t.Context(), subject, message, h.answers.Get(subject).Seq); err != nil {
			t.Fatal(err)
		}
	}
	want := func(what string, state api.FleetReportState) {
		t.Helper()
		for range 2 { // each run asks
			if got, is := h.lastAnswer(m, r); is != (state != "") || got.Report.State != state {
				t.Errorf("%s: the answer is %q, want %q", what, got.Report.State, state)
			}
		}
	}
	refusals := func(reason fleetmessage.Reason, want int) {
		t.Helper()
		if n := h.refusals("answer", reason); n != want {
			t.Errorf("%s is counted %d times, want %d", reason, n, want)
		}
	}
	want("before the first answer", "")
	first := sealed(t, key, 10, api.FleetReportHeld)
	arrive(first)
	want("the first answer", api.FleetReportHeld)
	arrive(sealed(t, key, 11, api.FleetReportProgressing))
	want("the second answer", api.FleetReportProgressing)
	arrive(first)
	want("an answer that the member sends twice", "")
	refusals(fleetmessage.ReasonOld, 1)
	arrive(sealed(t, stranger, 12, api.FleetReportCompleted))
	want("a forged answer", "")
	refusals(fleetmessage.ReasonUnknownKey, 1)
	arrive(first)
	want("an old answer after a forged one", "")
	refusals(fleetmessage.ReasonOld, 2)
	arrive(sealed(t, key, 12, api.FleetReportCompleted))
	want("a newer answer", api.FleetReportCompleted)

	m.Status.UID = "another"
	want("the answer of another cluster of the name", "")
	refusals(fleetmessage.ReasonNameTaken, 1)
	m.Status.UID = "uid-of-eu1"
	want("the answer of the cluster", api.FleetReportCompleted)
	arrive(sealed(t, next, 13, api.FleetReportFailed))
	want("an answer by the next key before the hub knows it", "")
	m.Spec.NextKey = next.public
	want("an answer by the next key", api.FleetReportFailed)
}

func TestAMessageIsOpenedOnce(t *testing.T) {
	t.Parallel()
	o := openedMessages{known: map[string]openedMessage{}}
	bad := errors.New("it is malformed")
	for i, c := range []struct {
		subject, text, by string
		seq               uint64
		number            int64
		err               error
		last              int64 // the highest number before, if the message is opened
		opened            bool
	}{
		{"a", "one", "key", 1, 10, nil, 0, true},
		{"a", "one", "key", 1, 10, nil, 0, false},
		{"b", "one", "key", 1, 10, nil, 0, true},
		{"a", "one", "key and next key", 1, 10, nil, 10, true},
		{"a", "two", "key", 2, 0, bad, 10, true},
		{"a", "two", "key", 2, 0, bad, 0, false},
		{"a", "three", "key", 3, 12, nil, 10, true},
		{"a", "three, of a stream that was made again", "key", 3, 13, nil, 12, true},
	} {
		m, fresh := o.open(c.subject, queue.FleetState{Data: []byte(c.text), Seq: c.seq}, c.by, func(last int64) (openedMessage, error) {
			if last != c.last {
				t.Errorf("message %d is compared with the number %d, want %d", i, last, c.last)
			}
			return openedMessage{order: c.number}, c.err
		})
		if fresh != c.opened || m.order != c.number || !errors.Is(m.err, c.err) {
			t.Errorf("message %d: opened %t, number %d, error %v", i, fresh, m.order, m.err)
		}
	}
}

func TestFieldsThatThisVersionDoesNotHave(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(*api.FleetRolloutSpec, *api.FleetStrategy){
		"":                         func(*api.FleetRolloutSpec, *api.FleetStrategy) {},
		"spec.holds":               func(s *api.FleetRolloutSpec, _ *api.FleetStrategy) { s.Holds = []api.FleetPin{{}} },
		"spec.requires":            func(s *api.FleetRolloutSpec, _ *api.FleetStrategy) { s.Requires = []api.FleetRequirement{{}} },
		"spec.onNewVersion: Queue": func(s *api.FleetRolloutSpec, _ *api.FleetStrategy) { s.OnNewVersion = api.FleetOnNewVersionQueue },
		"spec.firstInstall: Wait":  func(s *api.FleetRolloutSpec, _ *api.FleetStrategy) { s.FirstInstall = api.FleetFirstInstallWait },
		"spec.minInterval":         func(s *api.FleetRolloutSpec, _ *api.FleetStrategy) { s.MinInterval = &metav1.Duration{} },
		"spec.analysis":            func(s *api.FleetRolloutSpec, _ *api.FleetStrategy) { s.Analysis = &api.FleetAnalysis{} },
		"spread in a wave":         func(_ *api.FleetRolloutSpec, p *api.FleetStrategy) { p.Waves[1].Spread = "region" },
	} {
		spec := api.FleetRolloutSpec{OnNewVersion: api.FleetOnNewVersionSupersede, FirstInstall: api.FleetFirstInstallAllow}
		strategy := api.FleetStrategy{Waves: []api.FleetWave{{Name: "one"}, {Name: "two"}}}
		change(&spec, &strategy)
		if got := unsupportedField(spec, strategy); got != want {
			t.Errorf("the field is %q, want %q", got, want)
		}
	}
}

func TestWhichClustersMayHaveATarget(t *testing.T) {
	t.Parallel()
	got := drawnClusters(api.FleetRolloutStatus{
		Waves: []api.FleetWaveStatus{{Clusters: []string{"c0"}}, {Clusters: []string{"c1", "c2"}}}, Grant: &api.FleetGrant{Clusters: []string{"c9"}},
	})
	if diff := cmp.Diff([]string{"c0", "c1", "c2", "c9"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := drawnClusters(api.FleetRolloutStatus{}); len(got) > 0 {
		t.Errorf("before the first wave they are %q", got)
	}
}

func TestAStatusIsComparedByAllButItsCounts(t *testing.T) {
	t.Parallel()
	counts := func(n int32) map[api.FleetTargetPhase]int32 {
		return map[api.FleetTargetPhase]int32{api.FleetTargetPermitted: n}
	}
	for name, c := range map[string]struct {
		before, after   api.FleetRolloutStatus
		changed, counts bool
	}{
		"the same":             {api.FleetRolloutStatus{Epoch: 5, Counts: counts(1)}, api.FleetRolloutStatus{Epoch: 5, Counts: counts(1)}, false, false},
		"none and empty lists": {api.FleetRolloutStatus{Epoch: 5}, api.FleetRolloutStatus{Epoch: 5, Attention: []api.FleetAttention{}}, false, false},
		"another time zone": {
			api.FleetRolloutStatus{CutOffSince: new(metav1.NewMicroTime(start))}, api.FleetRolloutStatus{CutOffSince: new(metav1.NewMicroTime(start.In(time.FixedZone("east", 3600))))}, false, false,
		},
		"other counts":               {api.FleetRolloutStatus{Epoch: 5, Counts: counts(1)}, api.FleetRolloutStatus{Epoch: 5, Counts: counts(2)}, false, true},
		"another epoch":              {api.FleetRolloutStatus{Epoch: 5, Counts: counts(1)}, api.FleetRolloutStatus{Epoch: 6, Counts: counts(1)}, true, false},
		"another message and counts": {api.FleetRolloutStatus{Message: "a"}, api.FleetRolloutStatus{Message: "b", Counts: counts(2)}, true, true},
	} {
		changed, counted := compareStatus(c.before, c.after)
		if changed != c.changed || counted != c.counts {
			t.Errorf("%s: changed %t and counts %t, want %t and %t", name, changed, counted, c.changed, c.counts)
		}
	}
}

func TestCountsAreWrittenOnceASecond(t *testing.T) {
	t.Parallel()
	h, r, other := aHub(t), aFleetRollout(), aFleetRollout()
	other.Name = "pay"
	now := start
	h.Clock = func() time.Time { return now }
	for i, c := range []struct {
		of    *api.FleetRollout
		after time.Duration
		want  bool
	}{
		{r, 0, true}, {r, 0, false}, {other, 0, true}, {r, 999 * time.Millisecond, false}, {r, time.Second, true}, {r, 1999 * time.Millisecond, false}, {r, 2 * time.Second, true},
	} {
		if now = start.Add(c.after); h.mayCount(c.of) != c.want {
			t.Errorf("question %d, about %s after %s: the answer is not %t", i, c.of.Name, c.after, c.want)
		}
	}
}

func TestConditionsDescribeThePhase(t *testing.T) {
	t.Parallel()
	for phase, want := range map[api.FleetPhase]string{
		api.FleetPhaseIdle: "Ready", api.FleetPhaseSucceeded: "Ready", api.FleetPhaseStalled: "Stalled", api.FleetPhaseWithdrawn: "", api.FleetPhaseAborted: "",
		api.FleetPhaseProgressing: "Reconciling", api.FleetPhaseSoaking: "Reconciling", api.FleetPhasePaused: "Reconciling", api.FleetPhaseWaiting: "Reconciling",
		api.FleetPhaseWithdrawing: "Reconciling",
	} {
		s := api.FleetRolloutStatus{Phase: phase, Reason: "Why", Message: "because"}
		setConditions(&s, 7, start)
		var types []string
		for _, c := range s.Conditions {
			types = append(types, c.Type)
			is := metav1.ConditionFalse
			if c.Type == want {
				is = metav1.ConditionTrue
			}
			if c.Status != is || c.Reason != "Why" || c.Message != "because" || c.ObservedGeneration != 7 || !c.LastTransitionTime.Time.Equal(start) {
				t.Errorf("in phase %s, where %q is true: %+v", phase, want, c)
			}
		}
		if diff := cmp.Diff([]string{"Ready", "Reconciling", "Stalled"}, types); diff != "" || s.ObservedGeneration != 7 {
			t.Errorf("the conditions of generation %d (-want +got):\n%s", s.ObservedGeneration, diff)
		}
	}
	s := api.FleetRolloutStatus{Phase: api.FleetPhaseProgressing, Reason: "Wave"}
	setConditions(&s, 1, start)
	s.Phase, s.Reason = api.FleetPhaseSucceeded, "Completed"
	setConditions(&s, 1, start.Add(time.Hour))
	for _, c := range s.Conditions {
		if since := start.Add(time.Hour); c.LastTransitionTime.Time.Equal(since) != (c.Type != "Stalled") || c.Reason != "Completed" {
			t.Errorf("after a change of the phase: %+v", c)
		}
	}
}
