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

// DecideApproval decides about one approval that came in from outside, and answers it. It is accepted once it is written in the status;
// everything that is told about it is told after that. Called again with the same approval it gives the same answer, and changes
// nothing: so a crash at any point is healed by asking again.
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

// approvalDecision is one call of Decide.
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

// readEvent makes a proposal of an event, as far as that can be read: whoever sent a broken one gets an answer as well.
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

// decideOnce looks at the world once and decides. It is not done when the world has moved since.
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

// bindPause remembers the pause that an approval counts for, before it is written into the status: should it be asked for again, it must
// not pass for a later one. When something is known of it already, that goes before: an answer is given again.
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

// followRecord does as was found out before: it gives the answer again, or keeps the approval to its pause.
func (d *approvalDecision) followRecord(ctx context.Context, was *approvalRecord) (done bool, err error) {
	if was.Answer != nil {
		return true, d.publishAnswer(ctx, *was.Answer, was.At)
	}
	d.request.Bound = was.Pause
	return false, nil
}

// refuseRequest answers with a refusal, unless another answer was given before.
func (d *approvalDecision) refuseRequest(ctx context.Context, snap *kube.Snapshot, j planner.ApprovalResult) (done bool, err error) {
	answer, at := d.decidedAnswer(j), d.Clock()
	if d.malformed != nil {
		at = d.approval.Arrived // it will never be read otherwise, and needs no memory
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

// finishAccepted has the release go on, and answers. The Kubernetes Event comes from the run that follows the decision.
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
