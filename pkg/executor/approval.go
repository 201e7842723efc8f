package executor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/event"
	"sluice.dev/sluice/pkg/kube"
	"sluice.dev/sluice/pkg/kube/apiclient"
	"sluice.dev/sluice/pkg/planner"
	"sluice.dev/sluice/pkg/queue"
)

// DecideApproval decides about one approval that a client sent, and answers it. An approval is accepted once the executor has written it into the status. The
// executor publishes the answer and the hint after that. A second call with the same approval gives the same answer and changes nothing, so a client recovers
// from a crash by a repeated request.
func (e *Executor) DecideApproval(ctx context.Context, in queue.Approval) error {
	d := e.openApproval(in)
	for range MaxRounds {
		done, err := d.decideOnce(ctx)
		if err != nil {
			return fmt.Errorf("decide about approval %s of %s: %w", in.Event.ID(), in.Key, err)
		}
		if done {
			return nil
		}
	}
	return fmt.Errorf("decide about approval %s of %s: the Rollout changed %d times meanwhile", in.Event.ID(), in.Key, MaxRounds)
}

// approvalDecision is the state of one call of [Executor.DecideApproval].
type approvalDecision struct {
	*Executor
	approval  queue.Approval
	rollout   event.Rollout
	malformed error
	request   planner.ApprovalRequest
	approvalStore
}

func (e *Executor) openApproval(in queue.Approval) *approvalDecision {
	d := &approvalDecision{Executor: e, approval: in, rollout: event.Rollout{Cluster: in.Key.Cluster, Namespace: in.Key.Namespace, Name: in.Key.Name}}
	d.request = planner.ApprovalRequest{Principal: in.Principal, Arrived: in.Arrived}
	if d.malformed = in.Malformed; d.malformed == nil {
		d.malformed = d.readEvent(in.Event)
	}
	d.approvalStore = approvalStore{queue: e.Queue, key: in.Key, id: event.DecidedID(d.rollout, in.Principal, d.request.Source, d.request.ID)}
	return d
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
	if about.Namespace != d.rollout.Namespace || about.Name != d.rollout.Name {
		return fmt.Errorf("its subject is %s, but it was sent to Rollout %s", e.Subject(), d.approval.Key)
	}
	p.Traceparent = traceparentOf(e)
	p.Decision, p.RolloutID, p.Image, p.Revision, p.Comment = a.Decision, a.RolloutID, a.Image, a.Revision, a.Comment
	if a.Step != nil {
		p.Step = *a.Step
	}
	return nil
}

// decideOnce observes the cluster once and decides. done is false when the Rollout changed between the observation and the write.
func (d *approvalDecision) decideOnce(ctx context.Context) (done bool, err error) {
	snap, err := d.Kube.ObserveLive(ctx, types.NamespacedName{Namespace: d.rollout.Namespace, Name: d.rollout.Name})
	if apiclient.IsGone(err) {
		snap, err = nil, nil
	}
	if err != nil {
		return false, err
	}
	j := d.evaluateRequest(snap)
	switch {
	case j.Refusal != "":
		return d.refuseRequest(ctx, snap, j)
	case j.Status == nil:
		return true, d.finishAccepted(ctx, j)
	}
	if done, known, err := d.bindPause(ctx, j); err != nil || known {
		return done, err
	}
	err = d.Kube.CommitStatus(ctx, snap, *j.Status)
	switch {
	case apiclient.IsConflict(err), apiclient.IsGone(err):
		d.metrics.conflicts.Inc()
		return false, nil
	case err != nil:
		return false, err
	}
	d.metrics.countDecision("")
	d.Logger.Info("approval accepted", "namespace", d.rollout.Namespace, "rollout", d.rollout.Name, "step", j.Pause.Step,
		"decision", d.request.Decision, "principal", d.approval.Principal, "source", d.request.Source, "id", d.request.ID)
	return true, d.finishAccepted(ctx, j)
}

func (d *approvalDecision) evaluateRequest(snap *kube.Snapshot) planner.ApprovalResult {
	switch {
	case d.malformed != nil:
		return planner.ApprovalResult{Refusal: api.RefusalMalformed, Message: fmt.Sprintf("The event is no approval: %s; mend that and send it again with a new id", d.malformed)}
	case snap == nil:
		return planner.ApprovalResult{Refusal: api.RefusalUnknownRollout, Message: fmt.Sprintf(
			"There is no Rollout %s in namespace %s of cluster %s; check the subject of the event, and where it was sent", d.rollout.Name, d.rollout.Namespace, d.rollout.Cluster)}
	}
	return planner.EvaluateApproval(snap.Seen, d.request, d.Clock())
}

// bindPause records the pause that an approval applies to, before the executor writes the status. A repeated request must not apply to a later pause. If the
// queue holds a record already, that record takes precedence: the executor repeats its answer.
func (d *approvalDecision) bindPause(ctx context.Context, j planner.ApprovalResult) (done, known bool, err error) {
	if d.request.Bound != nil {
		return false, false, nil
	}
	was, err := d.putRecord(ctx, approvalRecord{Pause: &j.Pause})
	if err != nil || was == nil {
		return false, false, err
	}
	done, err = d.followRecord(ctx, was)
	return done, true, err
}

// followRecord acts on an earlier record: it publishes the recorded answer again, or binds the approval to the recorded pause.
func (d *approvalDecision) followRecord(ctx context.Context, was *approvalRecord) (done bool, err error) {
	if was.Answer != nil {
		return true, d.publishAnswer(ctx, *was.Answer, was.At)
	}
	d.request.Bound = was.Pause
	return false, nil
}

// refuseRequest answers with a refusal, unless an earlier answer is on record.
func (d *approvalDecision) refuseRequest(ctx context.Context, snap *kube.Snapshot, j planner.ApprovalResult) (done bool, err error) {
	answer, at := d.decidedAnswer(j), d.Clock()
	if d.malformed != nil {
		at = d.approval.Arrived // the decision about a malformed event never changes, so it needs no record
	} else if was, err := d.putRecord(ctx, approvalRecord{Answer: &answer, At: at}); err != nil {
		return false, err
	} else if was != nil {
		return d.followRecord(ctx, was)
	}
	d.metrics.countDecision(j.Refusal)
	d.Logger.Info("approval refused", "namespace", d.rollout.Namespace, "rollout", d.rollout.Name, "refusal", j.Refusal, "message", j.Message,
		"principal", d.approval.Principal, "source", d.request.Source, "id", d.request.ID)
	if snap != nil {
		d.Kube.RecordEvent(snap, true, "ApprovalRefused", fmt.Sprintf("A decision of %s was refused: %s: %s", d.approval.Principal, j.Refusal, j.Message))
	}
	return true, d.publishAnswer(ctx, answer, at)
}

// finishAccepted publishes a hint so that the release continues, and answers. The run that follows the decision records the Kubernetes Event.
func (d *approvalDecision) finishAccepted(ctx context.Context, j planner.ApprovalResult) error {
	answer := d.decidedAnswer(j)
	hinted := d.Queue.PublishHint(ctx, d.approval.Key)
	return errors.Join(hinted, d.publishAnswer(ctx, answer, j.At), d.putAnswer(ctx, approvalRecord{Answer: &answer, At: j.At}))
}

func (d *approvalDecision) decidedAnswer(j planner.ApprovalResult) event.Decided {
	p := d.request
	return event.Decided{
		Accepted: j.Refusal == "", Refusal: j.Refusal, Message: j.Message, Decision: p.Decision, Step: j.Pause.Step, Revision: j.Revision,
		RolloutID: j.RolloutID, Principal: p.Principal, ApprovalSource: p.Source, ApprovalID: p.ID, Comment: p.Comment,
	}
}

func (d *approvalDecision) publishAnswer(ctx context.Context, answer event.Decided, at time.Time) error {
	out, err := event.NewDecided(d.rollout, answer, at)
	if err != nil {
		return err
	}
	return d.Queue.PublishEvent(ctx, out)
}
