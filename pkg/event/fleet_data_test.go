package event_test

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/event"
)

// aFleetRelease is a release in its first wave that waits for an approval.
func aFleetRelease() *api.FleetRollout {
	transition := func(seq int64, from, to, reason string) api.FleetTransition {
		return api.FleetTransition{
			Seq: seq, Time: noon, From: from, To: to, Wave: 1, Reason: reason, Message: "what happened", Epoch: 1764417600, Began: 1764417600, Version: "version/v2",
		}
	}
	waits := transition(43, "Progressing", "Waiting", "Approval")
	waits.Message = "wave canary waits for approval: sluice fleet approve checkout -n shop"
	return &api.FleetRollout{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "checkout", UID: "6f1c"},
		Status: api.FleetRolloutStatus{
			Epoch: 1764417600, Began: 1764417600, Wave: 1, Release: &api.FleetRelease{Version: "v2"},
			Plan:        &api.FleetStrategy{Waves: []api.FleetWave{{Name: "canary"}, {Name: "everyone"}}},
			Transitions: []api.FleetTransition{transition(42, "Going", "Pause", "Reached"), waits, transition(44, "Waiting", "Waiting", "Approve")},
		},
	}
}

// fleetTold returns the event about a transition.
func fleetTold(t *testing.T, r *api.FleetRollout, seq int64) event.Event {
	t.Helper()
	for _, transition := range r.Status.Transitions {
		if transition.Seq == seq {
			e, err := event.NewFleetTransition("hub", r, transition)
			if err != nil {
				t.Fatal(err)
			}
			return e
		}
	}
	t.Fatalf("there is no transition %d", seq)
	return event.Event{}
}

// aTarget is a cluster that has completed the release.
func aTarget() *api.FleetTarget {
	return &api.FleetTarget{
		Spec: api.FleetTargetSpec{Cluster: "eu1", Permit: api.FleetPermit{Epoch: 1764417600, Seq: 2, Version: "version/v2", Verb: api.FleetVerbRelease}},
		Status: api.FleetTargetStatus{
			Wave: 1, Phase: api.FleetTargetCompleted, Since: &noon, Began: 1764417600, Report: &api.FleetReport{Step: 3, Message: "all pods run it"},
		},
	}
}

func dataOf(t *testing.T, e event.Event) (d event.FleetData) {
	t.Helper()
	if err := json.Unmarshal(e.Data(), &d); err != nil {
		t.Fatal(err)
	}
	return d
}

func TestEventsOfAFleetSayWhatAPipelineNeeds(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		e    event.Event
		kind string
		id   string
	}{
		"a wave has completed": {fleetTold(t, aFleetRelease(), 42), "dev.sluice.fleet.wave.completed.v1", "6f1c/42"},
		"a wave waits":         {fleetTold(t, aFleetRelease(), 43), "dev.sluice.fleet.wave.paused.v1", "6f1c/43"},
		"a wave is approved":   {fleetTold(t, aFleetRelease(), 44), "dev.sluice.fleet.wave.approved.v1", "6f1c/44"},
		"a cluster":            {targetTold(t, aFleetRelease(), aTarget()), "dev.sluice.fleet.cluster.completed.v1", fmt.Sprintf("6f1c/cluster/eu1/1764417600/1764417600.2/%d", noon.UnixMicro())},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := dataOf(t, tt.e)
			got := []string{tt.e.Type(), tt.e.ID(), tt.e.Source(), tt.e.Subject(), d.UID, fmt.Sprint(d.Release.Epoch, d.Wave.Index, d.Wave.Of), d.Wave.Name, d.Release.Version}
			want := []string{tt.kind, tt.id, "/clusters/hub/namespaces/shop/fleetrollouts/checkout", "namespaces/shop/fleetrollouts/checkout", "6f1c", "1764417600 1 2", "canary", "v2"}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
			if err := valid(t, compiled(t, tt.e.Type()), string(tt.e.Data())); err != nil {
				t.Errorf("%v\n%s", err, tt.e.Data())
			}
		})
	}
}

func targetTold(t *testing.T, r *api.FleetRollout, target *api.FleetTarget) event.Event {
	t.Helper()
	e, err := event.NewFleetTargetState("hub", r, target)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// An executor may tell of the state of a cluster again when the next release has begun. The state is still about the release before.
func TestALateEventIsAboutItsOwnRelease(t *testing.T) {
	t.Parallel()
	later := aFleetRelease()
	later.Status.Epoch, later.Status.Began, later.Status.Release = 1764417700, 1764417700, &api.FleetRelease{Version: "v3"}
	for name, e := range map[string]event.Event{"a transition": fleetTold(t, later, 43), "a cluster": targetTold(t, later, aTarget())} {
		d := dataOf(t, e)
		if d.Release.Version != "v2" || d.Release.Epoch != 1764417600 || d.Wave.Name != "" {
			t.Errorf("%s: it is about %+v, wave %+v", name, d.Release, d.Wave)
		}
	}
	before, after := targetTold(t, aFleetRelease(), aTarget()), targetTold(t, later, aTarget())
	if before.ID() != after.ID() || !before.Time().Equal(after.Time()) {
		t.Errorf("two events about the same state have the ids %s and %s", before.ID(), after.ID())
	}
}

// A cluster that waits for its wave has the permit of an older release.
func TestAWaitingClusterIsAboutTheReleaseUnderWay(t *testing.T) {
	t.Parallel()
	target := aTarget()
	target.Spec.Permit.Epoch, target.Spec.Permit.Version, target.Status.Phase = 1764000000, "version/v1", api.FleetTargetDeferred
	d := dataOf(t, targetTold(t, aFleetRelease(), target))
	if d.Release.Epoch != 1764417600 || d.Release.Version != "v2" {
		t.Errorf("it is about %+v", d.Release)
	}
}

func TestEachStateOfAClusterHasItsOwnID(t *testing.T) {
	t.Parallel()
	r, seen := aFleetRelease(), map[string]string{}
	later := metav1.NewMicroTime(noon.Add(time.Microsecond))
	for name, change := range map[string]func(*api.FleetTarget){
		"as it is":       func(*api.FleetTarget) {},
		"another time":   func(t *api.FleetTarget) { t.Status.Since = &later },
		"another permit": func(t *api.FleetTarget) { t.Spec.Permit.Seq++ },
		"another epoch":  func(t *api.FleetTarget) { t.Spec.Permit.Epoch++ },
		"a new release":  func(t *api.FleetTarget) { t.Status.Began++ },
		"another member": func(t *api.FleetTarget) { t.Spec.Cluster = "eu2" },
	} {
		target := aTarget()
		change(target)
		id := event.FleetTargetID(r, target)
		if other, twice := seen[id]; twice || id == "" {
			t.Errorf("%s and %s have the id %q", name, other, id)
		}
		seen[id] = name
	}
	target := aTarget()
	target.Status.Phase = ""
	if id := event.FleetTargetID(r, target); id != "" {
		t.Errorf("a cluster without a phase has the id %q", id)
	}
}

// Each phase of a release and of a cluster, and each stage of a wave, has a type of its own.
func TestEveryPhaseOfAFleetHasAType(t *testing.T) {
	t.Parallel()
	kindOf := map[string]func(string) event.Kind{
		"FleetPhase":       func(v string) event.Kind { return event.FleetKindOf(api.FleetTransition{To: v, Reason: "Any"}) },
		"FleetWaveStage":   func(v string) event.Kind { return event.FleetKindOf(api.FleetTransition{To: v, Reason: "Any"}) },
		"FleetTargetPhase": func(v string) event.Kind { return event.FleetTargetKindOf(api.FleetTargetPhase(v)) },
	}
	found := map[string]int{}
	for _, file := range []string{"../api/fleetstatus.go", "../api/fleettarget.go"} {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok {
				return true
			}
			kind, ok := spec.Type.(*ast.Ident)
			if !ok || kindOf[kind.Name] == nil {
				return true
			}
			value, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			found[kind.Name]++
			if k := kindOf[kind.Name](value); k.Verb == "changed" && value != string(api.FleetWaveToHold) { // a wave begins in that stage
				t.Errorf("%s %s has no type", kind.Name, value)
			}
			return true
		})
	}
	if found["FleetPhase"] < 10 || found["FleetWaveStage"] < 7 || found["FleetTargetPhase"] < 18 {
		t.Errorf("the search has found %v", found)
	}
	for _, k := range []event.Kind{event.FleetKindOf(api.FleetTransition{To: "Dreaming"}), event.FleetTargetKindOf("Dreaming")} {
		if k.Verb != "changed" || !strings.HasPrefix(k.Noun, "fleet.") {
			t.Errorf("a phase of a later version has the type %s", k.Type())
		}
	}
}

// Commands have types of their own, so that a pipeline knows an approval from a phase of the same name.
func TestCommandsOfAFleetAreToldAsSuch(t *testing.T) {
	t.Parallel()
	for reason, want := range map[string]string{
		"Approve": "fleet.wave.approved", "Reject": "fleet.wave.rejected", "Pause": "fleet.release.commanded", "Abort": "fleet.release.commanded",
		"CommandRefused": "fleet.release.refused", "WaveBegun": "fleet.wave.started", "Duration": "fleet.wave.paused", "Rejected": "fleet.release.paused",
	} {
		k := event.FleetKindOf(api.FleetTransition{From: "Paused", To: "Paused", Reason: reason})
		if got := k.Noun + "." + k.Verb; got != want {
			t.Errorf("the event about %s has the type %s, want %s", reason, got, want)
		}
	}
}
