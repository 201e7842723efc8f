package event_test

import (
	"encoding/json"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sluice.dev/sluice/pkg/event"
)

func anAnalysis() event.Analysis {
	return event.Analysis{Cluster: "eu-1", Namespace: "shop", Name: "checkout", UID: "6f1c", Scope: "step", PauseSeq: 7,
		Release: &event.Release{Epoch: 3, CanaryRevision: "c41a"}, Step: &event.Step{Index: 2, Of: 3}}
}

func TestAMeasurementIsTold(t *testing.T) {
	t.Parallel()
	value := 0.97
	m := event.Measured{
		Analysis: anAnalysis(), Template: "AnalysisTemplate/success-rate", Metric: "success-rate", Address: "http://p.m.svc:9090",
		Queries: event.Queries{Value: "sum(rate(ok[1m]))"}, Window: event.WindowOf(noon.Time, time.Minute), Value: &value, Values: []float64{value},
		Counts: &event.Counts{CanaryTotal: 10}, Outcome: "fail", Phase: "Running", Reason: "fail", Message: "The value 0.97 fails.",
	}
	e, err := event.NewMeasured(m, "d1", noon.Time)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"6f1c/measured/3/7/step/AnalysisTemplate/success-rate/success-rate@d1/" + millis(noon.Time), "/clusters/eu-1/namespaces/shop/rollouts/checkout", event.TypeMeasured}
	if diff := cmp.Diff(want, []string{e.ID(), e.Source(), e.Type()}); diff != "" {
		t.Error(diff)
	}
	if err := valid(t, compiled(t, event.TypeMeasured), string(e.Data())); err != nil {
		t.Errorf("%v\n%s", err, e.Data())
	}
	got, err := event.ParseMeasured(e)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(m, got); diff != "" {
		t.Error(diff)
	}
}

func TestAVerdictIsTold(t *testing.T) {
	t.Parallel()
	v := event.Verdict{Analysis: anAnalysis(), From: "Running", To: "Failed", Message: "Too many errors.",
		Metrics: []event.VerdictMetric{{Template: "AnalysisTemplate/a", Name: "a", Phase: "Failed", Failed: 2, LastValue: "0.9", Message: "2 measurements failed."}}}
	e, err := event.NewVerdict(v, "d1", noon.Time, noon.Add(time.Second))
	if err != nil {
		t.Fatal(err)
	}
	again, err := event.NewVerdict(v, "d1", noon.Time, noon.Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	id := "6f1c/verdict/3/7/step@d1/" + millis(noon.Time) + "/Failed"
	if diff := cmp.Diff([]string{id, id}, []string{e.ID(), again.ID()}); diff != "" {
		t.Error(diff)
	}
	first, err := event.NewVerdict(v, "d1", time.Time{}, noon.Time)
	if err != nil {
		t.Fatal(err)
	}
	if want := "6f1c/verdict/3/7/step@d1/0/Failed"; first.ID() != want {
		t.Errorf("got %s, want %s", first.ID(), want)
	}
	if err := valid(t, compiled(t, event.TypeVerdict), string(e.Data())); err != nil {
		t.Errorf("%v\n%s", err, e.Data())
	}
	var got event.Verdict
	if err := json.Unmarshal(e.Data(), &got); err != nil {
		t.Fatal(err)
	}
	if _, err := event.ParseMeasured(e); err == nil {
		t.Error("a verdict is read as a measurement")
	}
	v.Cause = event.CauseAnalysis
	if diff := cmp.Diff(v, got); diff != "" {
		t.Error(diff)
	}
}

func TestAnAnalysisOfNobodyIsNotTold(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*event.Analysis){
		"no uid":   func(a *event.Analysis) { a.UID = "" },
		"no scope": func(a *event.Analysis) { a.Scope = "" },
	} {
		a := anAnalysis()
		change(&a)
		if _, err := event.NewVerdict(event.Verdict{Analysis: a}, "d1", noon.Time, noon.Time); err == nil {
			t.Errorf("%s: it is told", name)
		}
	}
}

func millis(t time.Time) string { return strconv.FormatInt(t.UnixMilli(), 10) }
