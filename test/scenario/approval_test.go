package scenario

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/event"
	"sluice.dev/sluice/test/world"
)

func TestAPipelineTakesAReleaseToItsEnd(t *testing.T) {
	t.Parallel()
	d := aDemo(t, world.Shared(t))
	p := aPipeline(t, d)
	d.release(t, version("canary"))
	revision := ""
	for step := int32(1); step <= 3; step++ {
		r := d.await(t, world.PausedAt(step))
		revision = r.Status.Sluice.CanaryRevision
		got := p.decide(t, "ci-acme", fmt.Sprint("run-", step), decision(api.DecisionApprove, "step", step, "revision", revision, "comment", "e2e green"))
		want := event.Decided{
			Accepted: true, Message: fmt.Sprintf("step %d was approved by ci-acme (e2e green)", step), Decision: api.DecisionApprove, Step: step,
			Revision: revision, Principal: "ci-acme", ApprovalSource: "/ci/acme/demo", ApprovalID: fmt.Sprint("run-", step), Comment: "e2e green",
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("step %d (-want +got):\n%s", step, diff)
		}
	}
	r := d.await(t, world.Healthy)
	var want []api.Approval
	for step := int32(1); step <= 3; step++ {
		want = append(want, api.Approval{
			Step: step, Epoch: r.Status.Sluice.Epoch, PauseSeq: int64(step), Decision: api.DecisionApprove, Actor: "ci-acme",
			EventID: fmt.Sprint("run-", step), Source: "/ci/acme/demo", Revision: revision, Comment: "e2e green",
		})
	}
	if diff := cmp.Diff(want, r.Status.Approvals, cmpopts.IgnoreTypes(metav1.MicroTime{})); diff != "" {
		t.Errorf("the approvals in the status (-want +got):\n%s", diff)
	}
	if notes := p.recorded(t, "Approved", 3); len(notes) != 3 || !strings.Contains(strings.Join(notes, " "), "step 2 was approved by ci-acme") {
		t.Errorf("the Kubernetes Events are %q", notes)
	}
	d.wantRestored(t)
}

func TestADecisionThatDoesNotFitIsRefused(t *testing.T) {
	t.Parallel()
	d := aDemo(t, world.Shared(t))
	p := aPipeline(t, d)
	refused := func(name string, want api.Refusal, data map[string]any) {
		t.Helper()
		got := p.decide(t, "ci", name, data)
		if got.Accepted || got.Refusal != want || got.Message == "" {
			t.Errorf("%s: %+v, want %s", name, got, want)
		}
	}
	refused("before any release", api.RefusalNotInProgress, decision(api.DecisionApprove))
	d.release(t, version("canary"))
	d.await(t, world.PausedAt(1))
	refused("another step", api.RefusalWrongStep, decision(api.DecisionApprove, "step", 2))
	refused("another image", api.RefusalWrongRelease, decision(api.DecisionApprove, "image", "nginx:1.29"))
	refused("another revision", api.RefusalWrongRelease, decision(api.DecisionReject, "revision", "0123456789abcdef"))
	refused("another rollout-id", api.RefusalWrongRelease, decision(api.DecisionApprove, "rolloutID", "v9"))
	old := p.event(t, "made an hour ago", decision(api.DecisionApprove))
	old.SetTime(time.Now().Add(-time.Hour))
	if err := p.queue.PublishApproval(t.Context(), p.key, "ci", old); err != nil {
		t.Fatal(err)
	}
	if got, _ := p.answer(t, "ci", old); got.Refusal != api.RefusalExpired {
		t.Errorf("an old decision: %+v", got)
	}
	elsewhere := *p
	elsewhere.key.Name = "nobody"
	if got := elsewhere.decide(t, "ci", "no Rollout", decision(api.DecisionApprove)); got.Refusal != api.RefusalUnknownRollout {
		t.Errorf("a Rollout that does not exist: %+v", got)
	}
	if got := p.decide(t, "ci", "the first", decision(api.DecisionApprove)); !got.Accepted {
		t.Errorf("what fits was refused: %+v", got)
	}
	refused("the same step again", api.RefusalAlreadyDecided, decision(api.DecisionApprove, "step", 1))
	d.await(t, world.PausedAt(2))
	notes := strings.Join(p.recorded(t, "ApprovalRefused", 5), "\n")
	for _, why := range []api.Refusal{api.RefusalNotInProgress, api.RefusalWrongStep, api.RefusalWrongRelease, api.RefusalExpired, api.RefusalAlreadyDecided} {
		if !strings.Contains(notes, "A decision of ci was refused: "+string(why)+": ") {
			t.Errorf("there is no Kubernetes Event of a refusal %s in:\n%s", why, notes)
		}
	}
	if r := d.await(t, world.PausedAt(2)); len(r.Status.Approvals) != 1 {
		t.Errorf("approvals in the status: %+v", r.Status.Approvals)
	}
}

func TestAMessageThatIsNoApprovalIsAnswered(t *testing.T) {
	t.Parallel()
	d := aDemo(t, world.Shared(t))
	p := aPipeline(t, d)
	d.release(t, version("canary"))
	d.await(t, world.PausedAt(1))
	// The subject names the sender, regardless of the content of the message.
	e := p.event(t, "1", map[string]any{"decision": "approve", "principal": "root"})
	header, body, err := event.Encode(e)
	if err != nil {
		t.Fatal(err)
	}
	publishRaw(t, d.w, p.key.RequestSubject(event.VerbApprove, "system:serviceaccount:shop:ci"), header, body)
	if got, _ := p.answer(t, "system:serviceaccount:shop:ci", e); got.Refusal != api.RefusalMalformed || !strings.Contains(got.Message, "at least one of rolloutID, image and revision") {
		t.Errorf("an approval of nothing: %+v", got)
	}
	publishRaw(t, d.w, p.key.RequestSubject(event.VerbApprove, "ci"), nil, []byte("approve it!"))
	if got, _ := p.answer(t, "ci", event.Event{}); got.Refusal != api.RefusalMalformed || got.Principal != "ci" {
		t.Errorf("garbage: %+v", got)
	}
	// The event is about one Rollout, and was sent to another one.
	header, body, err = event.Encode(p.event(t, "2", decision(api.DecisionApprove)))
	if err != nil {
		t.Fatal(err)
	}
	other := *p
	other.key.Name = "other"
	publishRaw(t, d.w, other.key.RequestSubject(event.VerbApprove, "ci"), header, body)
	if got, _ := other.answer(t, "ci", p.event(t, "2", nil)); got.Refusal != api.RefusalMalformed {
		t.Errorf("one that was sent elsewhere: %+v", got)
	}
	if got := p.decide(t, "ci", "3", decision(api.DecisionApprove)); !got.Accepted {
		t.Errorf("what came after all that: %+v", got)
	}
}

// An approval need not name a step. An approval for one pause must not count for the next pause, which comes a moment
// later.
func TestTwentyApproversMakeOneStep(t *testing.T) {
	for name, named := range map[string]bool{"with the step": true, "without the step": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := aDemo(t, world.Shared(t))
			p := aPipeline(t, d)
			d.release(t, version("canary"))
			d.await(t, world.PausedAt(1))
			data := decision(api.DecisionApprove)
			if named {
				data["step"] = 1
			}
			events := make([]event.Event, 20)
			for n := range events {
				events[n] = p.event(t, "decision", data)
			}
			var senders sync.WaitGroup
			for n, e := range events {
				senders.Go(func() {
					if err := p.queue.PublishApproval(t.Context(), p.key, fmt.Sprint("ci-", n), e); err != nil {
						t.Error(err)
					}
				})
			}
			senders.Wait()
			got := map[api.Refusal]int{}
			for n, e := range events {
				answer, _ := p.answer(t, fmt.Sprint("ci-", n), e)
				got[answer.Refusal]++
			}
			if diff := cmp.Diff(map[api.Refusal]int{"": 1, api.RefusalAlreadyDecided: 19}, got); diff != "" {
				t.Errorf("the answers (-want +got):\n%s", diff)
			}
			if r := d.await(t, world.PausedAt(2)); len(r.Status.Approvals) != 1 || r.Status.Sluice.PauseSeq != 2 {
				t.Errorf("after %d pauses, the approvals are %+v", r.Status.Sluice.PauseSeq, r.Status.Approvals)
			}
		})
	}
}

func TestAnApprovalThatIsSentAgainChangesNothing(t *testing.T) {
	t.Parallel()
	d := aDemo(t, world.Shared(t))
	p := aPipeline(t, d)
	d.release(t, version("canary"))
	d.await(t, world.PausedAt(1))
	wrong := p.decide(t, "ci", "too early", decision(api.DecisionApprove, "step", 2))
	first := p.decide(t, "ci", "the first", decision(api.DecisionApprove))
	d.await(t, world.PausedAt(2))
	// Both would be valid now. If they are sent again, the sender gets the earlier answer, on the subject of events.
	again := p.listen(t)
	for id, want := range map[string]event.Decided{"too early": wrong, "the first": first} {
		if err := p.queue.PublishApproval(t.Context(), p.key, "ci", p.event(t, id, decision(api.DecisionApprove))); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, again(t)); diff != "" {
			t.Errorf("%s (-first +again):\n%s", id, diff)
		}
	}
	if got := p.decide(t, "qa", "the first", decision(api.DecisionApprove)); got.Refusal != api.RefusalAlreadyDecided {
		t.Errorf("sent by another one: %+v", got)
	}
	if r := d.await(t, world.PausedAt(2)); len(r.Status.Approvals) != 1 {
		t.Errorf("the approvals are %+v", r.Status.Approvals)
	}
	if n := len(p.answers(t)); n != 3 {
		t.Errorf("the stream of events holds %d answers", n)
	}
}

func TestARejectionHoldsTheRelease(t *testing.T) {
	t.Parallel()
	d := aDemo(t, world.Shared(t))
	p := aPipeline(t, d)
	d.release(t, version("canary"))
	d.await(t, world.PausedAt(1))
	if got := p.decide(t, "ci", "1", decision(api.DecisionReject, "comment", "5 % errors")); !got.Accepted || got.Message != "step 1 was rejected by ci (5 % errors)" {
		t.Errorf("the rejection: %+v", got)
	}
	r := d.await(t, world.HeldFor("Rejected"))
	if !strings.HasPrefix(r.Status.Message, "step 1 was rejected by ci (5 % errors). To end the release, give the workload its old template again") {
		t.Errorf("the message is %q", r.Status.Message)
	}
	if notes := p.recorded(t, "Rejected", 1); len(notes) != 1 || notes[0] != r.Status.Message {
		t.Errorf("the Kubernetes Events are %q", notes)
	}
	if got := p.decide(t, "ci", "2", decision(api.DecisionApprove)); got.Refusal != api.RefusalAlreadyDecided || !strings.Contains(got.Message, "step 1 was rejected by ci") {
		t.Errorf("an approval after that: %+v", got)
	}
	// A user who approves in the status may decide otherwise.
	d.approve(t)
	r = d.await(t, world.PausedAt(2))
	if n := len(r.Status.Approvals); n != 2 || r.Status.Approvals[1].Decision != api.DecisionApprove || world.Condition(r, api.ConditionStalled) != nil {
		t.Errorf("the status is %+v", r.Status)
	}
	if got := p.decide(t, "ci", "3", decision(api.DecisionReject)); !got.Accepted {
		t.Errorf("the second rejection: %+v", got)
	}
	d.await(t, world.HeldFor("Rejected"))
	d.release(t, version("base"))
	d.await(t, world.Healthy)
	d.wantRestored(t)
}

// Any executor may answer; only one writes the status.
func TestSeveralExecutorsMakeOneDecision(t *testing.T) {
	t.Parallel()
	w := world.Shared(t)
	for range 2 {
		stop, err := w.RunExecutor(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(stop)
	}
	d := aDemo(t, w)
	p := aPipeline(t, d)
	d.release(t, version("canary"))
	for step := int32(1); step <= 3; step++ {
		d.await(t, world.PausedAt(step))
		var senders sync.WaitGroup
		for n := range 12 {
			senders.Go(func() {
				kind := api.DecisionApprove
				e := p.event(t, fmt.Sprint(step, "/", n/2), decision(kind, "step", step))
				if err := p.queue.PublishApproval(t.Context(), p.key, "ci", e); err != nil {
					t.Error(err)
				}
			})
		}
		senders.Wait()
		accepted := 0
		for n := range 6 {
			if got, _ := p.answer(t, "ci", p.event(t, fmt.Sprint(step, "/", n), nil)); got.Accepted {
				accepted++
			}
		}
		if accepted != 1 {
			t.Errorf("step %d: %d were accepted", step, accepted)
		}
	}
	if r := d.await(t, world.Healthy); len(r.Status.Approvals) != 3 {
		t.Errorf("the approvals are %+v", r.Status.Approvals)
	}
	p.answers(t)
}
