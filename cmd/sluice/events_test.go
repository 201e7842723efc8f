package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	cloudevents "github.com/cloudevents/sdk-go/v2/event"
	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"sluice.dev/sluice/cmd/internal/component"
	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/event"
	"sluice.dev/sluice/pkg/queue"
	"sluice.dev/sluice/pkg/queue/embedded"
	"sluice.dev/sluice/pkg/rollout"
	"sluice.dev/sluice/test/controlplane"
	"sluice.dev/sluice/test/natsdir"
)

// archive is a NATS server with events.
type archive struct {
	*testing.T
	dir    string // the data directory of the server
	server *embedded.Server
	queue  *queue.Queue
	args   []string // the flags of a command that connects to it
}

func newArchive(t *testing.T) *archive { return newArchiveAt(t, 0) }

// newArchiveAt starts the server at a port, 0 for any port.
func newArchiveAt(t *testing.T, port int) *archive {
	t.Helper()
	dir := natsdir.ForTest(t)
	s, err := embedded.Start(embedded.Options{Dir: dir, Port: port})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	q, err := queue.Connect(t.Context(), queue.Options{URL: s.URL(), User: s.User(), Password: s.Password()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(q.Close)
	password := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(password, []byte(s.Password()), 0o600); err != nil {
		t.Fatal(err)
	}
	return &archive{t, dir, s, q, []string{"--nats-url", s.URL(), "--nats-user", s.User(), "--nats-password-file", password}}
}

func (a *archive) tell(namespace, name string, transition api.Transition) {
	a.Helper()
	transition.Time = metav1.NewMicroTime(time.Date(2026, 11, 20, 10, 0, int(transition.Seq), 0, time.UTC))
	e, err := event.NewTransition("eu-1", rollout.Seen{
		Namespace: namespace, Name: name, UID: "u-" + name, Spec: rollout.Spec{Steps: make([]rollout.Step, 3)},
		Status: api.RolloutStatus{Sluice: &api.SluiceStatus{Epoch: 1}},
	}, transition)
	if err != nil {
		a.Fatal(err)
	}
	a.publish(e)
}

func (a *archive) publish(e event.Event) {
	a.Helper()
	if err := a.queue.PublishEvent(a.Context(), e); err != nil {
		a.Fatal(err)
	}
}

// storeAgain stores every event again, as an executor does that starts much later.
func (a *archive) storeAgain() {
	a.Helper()
	nc, err := nats.Connect(a.server.URL(), nats.UserInfo(a.server.User(), a.server.Password()))
	if err != nil {
		a.Fatal(err)
	}
	defer nc.Close()
	for e, err := range a.queue.ReadEvents(a.Context(), queue.ReadOptions{}) {
		if err != nil {
			a.Fatal(err)
		}
		header, body, err := event.Encode(e)
		if err != nil {
			a.Fatal(err)
		}
		about, err := event.ParseSource(e.Source())
		if err != nil {
			a.Fatal(err)
		}
		key := queue.KeyOf(about)
		if _, err := nc.RequestMsg(&nats.Msg{Subject: key.EventSubject(), Header: header, Data: body}, watchLimit); err != nil {
			a.Fatal(err)
		}
	}
}

func (a *archive) events(args ...string) (out, errors string) {
	a.Helper()
	code, out, errors := sluice(a.Context(), append(append([]string{"events"}, args...), a.args...)...)
	if code != 0 {
		a.Fatalf("sluice events %v: %s", args, errors)
	}
	return out, errors
}

func paused(seq int64) api.Transition {
	return api.Transition{Seq: seq, From: "StepMetricsAnalysis", To: "StepPaused", Step: 2, Reason: "NoAnalysis", Message: "step 2 of 3 is reached and pauses"}
}

func approved(seq int64) api.Transition {
	return api.Transition{Seq: seq, From: "StepPaused", To: "StepReady", Step: 2, Reason: "Approved", Message: "step 2 was approved", Actor: "ci"}
}

func TestEventsAsATable(t *testing.T) {
	t.Parallel()
	a := newArchive(t)
	a.tell("shop", "checkout", paused(1))
	a.tell("shop", "checkout", approved(2))
	a.tell("shop", "pay", api.Transition{Seq: 3, From: "Idle", To: "Stalled", Reason: "WorkloadMissing", Message: "Workload Not Found;\ncreate it"})
	a.tell("bank", "pay", paused(4))
	decided, err := event.NewDecided(event.Rollout{Cluster: "eu-1", Namespace: "shop", Name: "checkout"}, event.Decided{
		Refusal: "WrongStep", Message: "it is in step 2", Step: 2, Principal: "ci", ApprovalSource: "/ci", ApprovalID: "7",
	}, time.Date(2026, 11, 20, 11, 0, 0, 0, time.UTC))
	if err != nil {
		t.Fatal(err)
	}
	a.publish(decided)

	const header = "TIME                   ROLLOUT    TYPE               STEP   ACTOR        MESSAGE\n"
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"of a namespace": {[]string{"-n", "shop"}, header +
			"2026-11-20T10:00:01Z   checkout   step.paused        2/3    (progress)   step 2 of 3 is reached and pauses\n" +
			"2026-11-20T10:00:02Z   checkout   step.approved      2/3    ci           step 2 was approved\n" +
			"2026-11-20T10:00:03Z   pay        failure.raised     -      (problem)    Workload Not Found; create it\n" +
			"2026-11-20T11:00:00Z   checkout   approval.decided   2      ci           it is in step 2\n"},
		"of one Rollout and a noun": {[]string{"rollout", "checkout", "-n", "shop", "--type", "approval"},
			"TIME                   ROLLOUT    TYPE               STEP   ACTOR   MESSAGE\n" +
				"2026-11-20T11:00:00Z   checkout   approval.decided   2      ci      it is in step 2\n"},
		"of all namespaces, wide": {[]string{"-A", "-o", "wide", "--type", "step.paused,failure"},
			"NAMESPACE   CLUSTER   TIME                   ROLLOUT    TYPE             STEP   ACTOR        REASON            ID             MESSAGE\n" +
				"shop        eu-1      2026-11-20T10:00:01Z   checkout   step.paused      2/3    (progress)   NoAnalysis        u-checkout/1   step 2 of 3 is reached and pauses\n" +
				"shop        eu-1      2026-11-20T10:00:03Z   pay        failure.raised   -      (problem)    WorkloadMissing   u-pay/3        Workload Not Found; create it\n" +
				"bank        eu-1      2026-11-20T10:00:04Z   pay        step.paused      2/3    (progress)   NoAnalysis        u-pay/4        step 2 of 3 is reached and pauses\n"},
	} {
		out, _ := a.events(c.args...)
		if diff := cmp.Diff(c.want, out); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	for _, args := range [][]string{{"-n", "nowhere"}, {"-n", "shop", "--cluster", "us-1"}, {"-n", "shop", "nobody"}, {"-n", "shop", "--since", "2046-01-01T00:00:00Z"}} {
		out, errors := a.events(args...)
		if want := fmt.Sprintf("No events found in namespace %s; -A looks in all.\n", args[1]); out != "" || errors != want {
			t.Errorf("%v: it says %q and %q", args, out, errors)
		}
	}
	if out, _ := a.events("-n", "shop", "--since", "1h"); !strings.Contains(out, "checkout") {
		t.Errorf("since an hour ago there is only: %q", out)
	}
}

func TestEventsOfAFleetAsATable(t *testing.T) {
	t.Parallel()
	a := newArchive(t)
	a.tell("shop", "checkout", paused(1))
	r := &api.FleetRollout{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "checkout", UID: "f"}, Status: api.FleetRolloutStatus{
		Began: 7, Release: &api.FleetRelease{Version: "v2"}, Plan: &api.FleetStrategy{Waves: make([]api.FleetWave, 2)}}}
	at := metav1.NewMicroTime(time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC))
	transition, err := event.NewFleetTransition("hub", r, api.FleetTransition{Seq: 1, Time: at, To: "Waiting", Reason: "Approval", Wave: 1, Epoch: 7, Began: 7, Message: "wave canary waits"})
	if err != nil {
		t.Fatal(err)
	}
	a.publish(transition)
	cluster, err := event.NewFleetTargetState("hub", r, &api.FleetTarget{
		Spec: api.FleetTargetSpec{Cluster: "eu1"}, Status: api.FleetTargetStatus{Phase: api.FleetTargetFailed, Reason: "AnalysisFailed", Since: &at, Began: 7, Wave: 1},
	})
	if err != nil {
		t.Fatal(err)
	}
	a.publish(cluster)
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"of a namespace": {[]string{"--fleet", "-n", "shop"}, "TIME                   FLEETROLLOUT   TYPE                   WAVE   ACTOR        MESSAGE\n" +
			"2026-11-20T10:00:00Z   checkout       fleet.wave.paused      1/2    (progress)   wave canary waits\n" +
			"2026-11-20T10:00:00Z   checkout       fleet.cluster.failed   1/2    (fleet)      cluster eu1 is Failed (AnalysisFailed)\n"},
		"of waves": {[]string{"--fleet", "checkout", "-n", "shop", "--type", "fleet.wave"}, "TIME                   FLEETROLLOUT   TYPE                WAVE   ACTOR        MESSAGE\n" +
			"2026-11-20T10:00:00Z   checkout       fleet.wave.paused   1/2    (progress)   wave canary waits\n"},
	} {
		out, _ := a.events(c.args...)
		if diff := cmp.Diff(c.want, out); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if out, _ := a.events("-n", "shop"); strings.Contains(out, "fleet") {
		t.Errorf("without --fleet it shows:\n%s", out)
	}
	for kind, want := range map[string]string{"fleet.wave": "about FleetRollouts; add --fleet", "nonsense": "there are no such events"} {
		if code, _, errors := sluice(t.Context(), append([]string{"events", "--type", kind, "-n", "shop"}, a.args...)...); code == 0 || !strings.Contains(errors, want) {
			t.Errorf("--type %s: %d, %s", kind, code, errors)
		}
	}
}

func TestEventsAsCloudEvents(t *testing.T) {
	t.Parallel()
	a := newArchive(t)
	a.tell("shop", "checkout", paused(1))
	a.tell("shop", "checkout", approved(2))
	a.storeAgain()
	out, _ := a.events("-n", "shop", "-o", "json")
	var got []string
	for line := range strings.Lines(out) {
		var e cloudevents.Event
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		if err := e.Validate(); err != nil {
			t.Error(err)
		}
		got = append(got, e.Type()+" "+e.Source())
	}
	want := []string{
		"dev.sluice.step.paused.v1 /clusters/eu-1/namespaces/shop/rollouts/checkout",
		"dev.sluice.step.approved.v1 /clusters/eu-1/namespaces/shop/rollouts/checkout",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	out, _ = a.events("-n", "shop", "-o", "yaml", "--type", "step.approved")
	var e cloudevents.Event
	if err := yaml.Unmarshal([]byte(out), &e); err != nil || e.ID() != "u-checkout/2" {
		t.Errorf("%v:\n%s", err, out)
	}
}

// useNATS lets commands use the NATS of `sluice run`.
func (r running) useNATS(t *testing.T) {
	t.Helper()
	note, err := os.ReadFile(component.NATSNote(r.nats))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(note)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		t.Setenv(name, value)
	}
}

// wantEvents reads the events of a release from the NATS of `sluice run`, as the user who started it.
func wantEvents(t *testing.T, run running, cluster *controlplane.Cluster) {
	t.Helper()
	run.useNATS(t)
	code, out, errors := sluice(t.Context(), "events", "rollouts-demo", "-n", "default", "--kubeconfig", cluster.Kubeconfig)
	if code != 0 {
		t.Fatal(errors)
	}
	var got []string
	for line := range strings.Lines(out) {
		if columns := strings.Fields(line); columns[2] == "step.approved" || strings.HasPrefix(columns[2], "rollout.") {
			got = append(got, strings.Join(columns[1:5], " "))
		}
	}
	want := []string{
		"rollouts-demo rollout.started 1/3 (workload)",
		"rollouts-demo step.approved 1/3 sluice-approve", "rollouts-demo step.approved 2/3 sluice-approve", "rollouts-demo step.approved 3/3 sluice-approve",
		"rollouts-demo rollout.promoted 3/3 (progress)", "rollouts-demo rollout.finalising 3/3 (progress)", "rollouts-demo rollout.completed 3/3 (progress)",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the events of the release (-want +got):\n%s\n%s", diff, out)
	}
}

func TestEventsAreFollowedUntilInterrupted(t *testing.T) {
	t.Parallel()
	a := newArchive(t)
	a.tell("shop", "checkout", paused(1))
	f := a.following("checkout")
	got := []string{line(f.out), line(f.out)}
	a.tell("shop", "other", paused(2))
	a.tell("shop", "checkout", approved(3))
	got = append(got, line(f.out))
	want := []string{
		"TIME                   ROLLOUT            TYPE                 STEP   ACTOR            MESSAGE",
		"2026-11-20T10:00:01Z   checkout           step.paused          2/3    (progress)       step 2 of 3 is reached and pauses",
		"2026-11-20T10:00:03Z   checkout           step.approved        2/3    ci               step 2 was approved",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	f.interrupt()
	if f.out.Scan() || f.errors.Scan() {
		t.Errorf("something comes after the interrupt: %s%s", f.out.Text(), f.errors.Text())
	}
	if code := <-f.ended; code != 0 {
		t.Errorf("an interrupted watch ends with code %d", code)
	}
}
