package executor

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/types"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/decision"
	"sluice.dev/sluice/pkg/event"
	"sluice.dev/sluice/pkg/kube"
	"sluice.dev/sluice/pkg/kube/apiclient"
	"sluice.dev/sluice/pkg/planner"
	"sluice.dev/sluice/pkg/queue"
	"sluice.dev/sluice/pkg/rollout"
)

// DecideApproval decides about one approval that a client sent, and answers it. An approval is accepted once the executor has written it into the status. The
// executor publishes the answer and the hint after that. A second call with the same approval gives the same answer and changes nothing, so a client recovers
// from a crash by a repeated request.
func (e *Executor) DecideApproval(ctx context.Context, in queue.Approval) error {
	if err := e.openApproval(in).Decide(ctx); err != nil {
		return fmt.Errorf("decide about approval %s of %s: %w", in.Event.ID(), in.Key, err)
	}
	return nil
}

// approvalDecision is the state of one call of [Executor.DecideApproval].
type approvalDecision struct {
	*Executor
	approval  queue.Approval
	rollout   event.Rollout
	malformed error
	request   planner.ApprovalRequest
	// snap is what the last evaluation has observed; nil for a Rollout that does not exist.
	snap *kube.Snapshot
}

func (e *Executor) openApproval(in queue.Approval) *decision.Request[rollout.Pause] {
	d := &approvalDecision{Executor: e, approval: in, rollout: in.Key.Rollout()}
	d.request = planner.ApprovalRequest{Principal: in.Principal, Arrived: in.Arrived}
	if d.malformed = in.Malformed; d.malformed == nil {
		d.malformed = d.readEvent(in.Event)
	}
	return &decision.Request[rollout.Pause]{
		Queue: e.Queue, Key: in.Key, About: d.rollout, ID: event.DecidedID(d.rollout, in.Principal, d.request.Source, d.request.ID), Malformed: d.malformed != nil,
		Evaluate: d.evaluate, Refused: d.noteRefused, Accepted: d.noteAccepted,
	}
}

// readEvent reads the fields of an approval from an event. It reads as much as it can before an error, because the sender of a malformed event gets an answer
// too.
func (d *approvalDecision) readEvent(e event.Event) error {
	p := &d.request
	p.Source, p.ID, p.Made = e.Source(), e.ID(), e.Time()
	a, about, err := event.ParseApproval(e)
	if err != nil {
		return err
	}
	if about.Namespace != d.rollout.Namespace || about.Name != d.rollout.Name || about.Fleet {
		return fmt.Errorf("its subject is %s, but it was sent to Rollout %s", e.Subject(), d.approval.Key)
	}
	p.Traceparent = traceparentOf(e)
	p.Decision, p.RolloutID, p.Image, p.Revision, p.Comment = a.Decision, a.RolloutID, a.Image, a.Revision, a.Comment
	if a.Step != nil {
		p.Step = *a.Step
	}
	return nil
}

// evaluate observes the cluster once and decides.
func (d *approvalDecision) evaluate(ctx context.Context, bound *rollout.Pause) (decision.Result[rollout.Pause], error) {
	snap, err := d.Kube.ObserveLive(ctx, types.NamespacedName{Namespace: d.rollout.Namespace, Name: d.rollout.Name})
	if apiclient.IsGone(err) {
		snap, err = nil, nil
	}
	if err != nil {
		return decision.Result[rollout.Pause]{}, err
	}
	d.snap, d.request.Bound = snap, bound
	j := d.evaluateRequest()
	result := decision.Result[rollout.Pause]{Answer: d.decidedAnswer(j), At: j.At, Bound: j.Pause}
	switch {
	case d.malformed != nil:
		result.At = d.approval.Arrived // the decision about a malformed event never changes
	case j.Refusal != "":
		result.At = d.Clock()
	case j.Status != nil:
		result.Commit = func(ctx context.Context) error { return d.commit(ctx, j) }
	}
	return result, nil
}

func (d *approvalDecision) evaluateRequest() planner.ApprovalResult {
	switch {
	case d.malformed != nil:
		return planner.ApprovalResult{Refusal: api.RefusalMalformed, Message: fmt.Sprintf("The event is no approval: %s; mend that and send it again with a new id", d.malformed)}
	case d.snap == nil:
		return planner.ApprovalResult{Refusal: api.RefusalUnknownRollout, Message: fmt.Sprintf(
			"There is no Rollout %s in namespace %s of cluster %s; check the subject of the event, and where it was sent", d.rollout.Name, d.rollout.Namespace, d.rollout.Cluster)}
	}
	return planner.EvaluateApproval(d.snap.Seen, d.request, d.Clock())
}

// commit writes an accepted approval into the status.
func (d *approvalDecision) commit(ctx context.Context, j planner.ApprovalResult) error {
	err := d.Kube.CommitStatus(ctx, d.snap, *j.Status)
	if apiclient.IsConflict(err) || apiclient.IsGone(err) {
		d.metrics.conflicts.Inc()
		return decision.ErrMoved
	}
	if err != nil {
		return err
	}
	d.metrics.countDecision("")
	d.Logger.Info("approval accepted", "namespace", d.rollout.Namespace, "rollout", d.rollout.Name, "step", j.Pause.Step,
		"decision", d.request.Decision, "principal", d.approval.Principal, "source", d.request.Source, "id", d.request.ID)
	return nil
}

func (d *approvalDecision) noteRefused(r decision.Result[rollout.Pause]) {
	refusal, message := r.Answer.Refusal, r.Answer.Message
	d.metrics.countDecision(refusal)
	d.Logger.Info("approval refused", "namespace", d.rollout.Namespace, "rollout", d.rollout.Name, "refusal", refusal, "message", message,
		"principal", d.approval.Principal, "source", d.request.Source, "id", d.request.ID)
	if d.snap != nil {
		d.Kube.RecordEvent(d.snap, true, "ApprovalRefused", fmt.Sprintf("A decision of %s was refused: %s: %s", d.approval.Principal, refusal, message))
	}
}

// noteAccepted publishes a hint so that the release continues. The run that follows the decision records the Kubernetes Event.
func (d *approvalDecision) noteAccepted(ctx context.Context, _ decision.Result[rollout.Pause]) error {
	return d.Queue.PublishHint(ctx, d.approval.Key)
}

func (d *approvalDecision) decidedAnswer(j planner.ApprovalResult) event.Decided {
	p := d.request
	return event.Decided{
		Accepted: j.Refusal == "", Refusal: j.Refusal, Message: j.Message, Decision: p.Decision, Step: j.Pause.Step, Revision: j.Revision,
		RolloutID: j.RolloutID, Principal: p.Principal, ApprovalSource: p.Source, ApprovalID: p.ID, Comment: p.Comment,
	}
}
