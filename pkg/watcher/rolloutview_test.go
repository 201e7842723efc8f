package watcher

import (
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"sluice.dev/sluice/pkg/api"
)

func framesOf(text string) *rolloutFrames {
	body := io.NopCloser(strings.NewReader(text))
	return &rolloutFrames{body, json.NewDecoder(body)}
}

// A Rollout may be older than the schema, with fields of other types than today's.
func TestARolloutThatCannotBeReadHidesNoOther(t *testing.T) {
	t.Parallel()
	frames := framesOf(`{"type":"ADDED","object":{"metadata":{"name":"odd","namespace":"shop","generation":3},"spec":{"strategy":{"canary":{"steps":[{"replicas":99999999999}]}}},
			"status":{"conditions":7,"canaryStatus":{"currentStepIndex":99999999999,"currentStepState":"StepPaused"},"sluice":{"epoch":1,"wakeAt":"soon"}}}}
		{"type":"MODIFIED","object":{"metadata":{"name":"odd","namespace":"shop","generation":4},"spec":7}}
		{"type":"MODIFIED","object":{"metadata":{"name":"even","namespace":"shop"},"spec":{"workloadRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"web"},
			"strategy":{"canary":{"steps":[{"replicas":1}]}}}}}`)
	type seen struct {
		Type              watch.EventType
		Name              string
		Generation        int64
		Objects, NextStep int
	}
	var got []seen
	for range 3 {
		kind, o, err := frames.Decode()
		if err != nil {
			t.Fatal(err)
		}
		s := o.(*rolloutView)
		f := rolloutFacts(s)
		got = append(got, seen{kind, s.Name, s.Generation, len(f.rollout.objects), f.rollout.steps})
	}
	if diff := cmp.Diff([]seen{{watch.Added, "odd", 3, 0, 0}, {watch.Modified, "odd", 4, 0, 0}, {watch.Modified, "even", 0, 2, 1}}, got); diff != "" {
		t.Errorf("what is seen (-want +got):\n%s", diff)
	}
	if _, _, err := frames.Decode(); !errors.Is(err, io.EOF) {
		t.Errorf("the end of a watch reads as %v", err)
	}
}

func TestAWatchThatFailsTellsWhy(t *testing.T) {
	t.Parallel()
	kind, got, err := framesOf(`{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure",
		"message":"too old resource version: 1 (2)","reason":"Expired","code":410}}`).Decode()
	if err != nil {
		t.Fatal(err)
	}
	want := &metav1.Status{Status: "Failure", Message: "too old resource version: 1 (2)", Reason: metav1.StatusReasonExpired, Code: 410}
	if diff := cmp.Diff(want, got); diff != "" || kind != watch.Error {
		t.Errorf("it is %s (-want +got):\n%s", kind, diff)
	}
}

func TestWhatIsReadOfAStatus(t *testing.T) {
	t.Parallel()
	s := sightingOf(t, `{"metadata":{"name":"web","deletionTimestamp":"2026-11-20T10:00:00Z"},"status":{"phase":"Progressing",
		"conditions":[{"type":"Stalled","status":"True","reason":"RouteMissing"}],"sluice":{"wakeAt":"2026-11-20T10:00:00.250000Z"}}}`)
	d := dependenciesOf(s, newPlan(s))
	if want := time.Date(2026, 11, 20, 10, 0, 0, 250e6, time.UTC); !d.wakeAt.Equal(want) || d.stalled != "RouteMissing" || s.DeletionTimestamp == nil {
		t.Errorf("it wakes at %s, is held by %q, and is deleted at %v", d.wakeAt, d.stalled, s.DeletionTimestamp)
	}
}

func TestASpecIsTakenApartOnceUntilItChanges(t *testing.T) {
	t.Parallel()
	x := newIndex()
	see := func(change change) *plan {
		u := read(t, pausedRollout)
		change(u)
		f := x.rolloutFacts(typed[*rolloutView](t, u))
		x.putDependencies(key("web"), f.rollout)
		return f.rollout.plan
	}
	first := see(unset("none"))
	for name, c := range map[string]struct {
		change change
		same   bool
	}{
		"a commit":        {set("x", "status", "message"), true},
		"another label":   {set("b", "metadata", "labels", "a"), true},
		"another spec":    {set(int64(3), "metadata", "generation"), false},
		"another style":   {set("partition", "metadata", "annotations", api.AnnotationRollingStyle), false},
		"another Rollout": {set("v", "metadata", "uid"), false},
	} {
		x.putDependencies(key("web"), &dependencies{plan: first})
		if got := see(c.change); (got == first) != c.same {
			t.Errorf("%s: taken over is %v, want %v", name, got == first, c.same)
		}
	}
	if diff := cmp.Diff([]string{"web"}, dependents(x, "Deployment", "web")); diff != "" {
		t.Errorf("who depends on the workload (-want +got):\n%s", diff)
	}
}
