package event_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sluice.dev/sluice/pkg/event"
)

func checkout() event.Rollout {
	return event.Rollout{Cluster: "eu-1", Namespace: "shop", Name: "checkout.v2", UID: "0b7c"}
}

func TestTransitionOnTheWire(t *testing.T) {
	e, err := event.NewChange(checkout(), event.Change{
		Noun: "step", Verb: "paused", Seq: 42, At: time.Date(2026, 11, 20, 10, 0, 0, 5, time.UTC),
		Traceparent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
		Data:        map[string]int{"step": 2},
	})
	if err != nil {
		t.Fatal(err)
	}
	header, body, err := event.Encode(e)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string][]string{
		"ce-specversion":     {"1.0"},
		"ce-type":            {"dev.sluice.step.paused.v1"},
		"ce-source":          {"/clusters/eu-1/namespaces/shop/rollouts/checkout.v2"},
		"ce-subject":         {"namespaces/shop/rollouts/checkout.v2"},
		"ce-id":              {"0b7c/42"},
		"ce-time":            {"2026-11-20T10:00:00.000000005Z"},
		"ce-sequence":        {"0000000000000000042"},
		"ce-partitionkey":    {"eu-1/shop/checkout.v2"},
		"ce-traceparent":     {"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"},
		"ce-datacontenttype": {"application/json"},
		"content-type":       {"application/json"},
	}
	if diff := cmp.Diff(want, header); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(`{"step":2}`, string(body)); diff != "" {
		t.Error(diff)
	}
	back, err := event.Decode(header, body)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(e.String(), back.String()); diff != "" {
		t.Error(diff)
	}
}

func TestTransitionRefusesWhatCouldRepeatAnID(t *testing.T) {
	valid := event.Change{Noun: "step", Verb: "paused", At: time.Now()}
	noUID, noVerb, negative := checkout(), valid, valid
	noUID.UID, noVerb.Verb, negative.Seq = "", "", -1
	for name, build := range map[string]func() (event.Event, error){
		"without a uid":            func() (event.Event, error) { return event.NewChange(noUID, valid) },
		"without a verb":           func() (event.Event, error) { return event.NewChange(checkout(), noVerb) },
		"with a negative sequence": func() (event.Event, error) { return event.NewChange(checkout(), negative) },
	} {
		if _, err := build(); err == nil {
			t.Errorf("a transition %s was accepted", name)
		}
	}
}

func FuzzParseSource(f *testing.F) {
	f.Add("/clusters/eu-1/namespaces/shop/rollouts/checkout.v2")
	f.Add("/clusters//namespaces/shop/rollouts/x")
	f.Add("/ci/acme/checkout/runs/4711")
	f.Fuzz(func(t *testing.T, source string) {
		r, err := event.ParseSource(source)
		if err == nil && r.Source() != source {
			t.Errorf("%q became %q", source, r.Source())
		}
	})
}

func TestParseSource(t *testing.T) {
	want := checkout()
	got, err := event.ParseSource(want.Source())
	if err != nil {
		t.Fatal(err)
	}
	want.UID = ""
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for _, bad := range []string{"", "/ci/acme", "/clusters//namespaces/a/rollouts/b", want.Source() + "/x", "x" + want.Source()} {
		if _, err := event.ParseSource(bad); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
}
