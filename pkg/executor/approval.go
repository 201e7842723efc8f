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
	"sluice.dev/sluice/pkg/planner"
	"sluice.dev/sluice/pkg/queue"
)

// Decide decides about one approval that came in from outside, and answers it. It is accepted once it is written in the status;
// everything that is told about it is told after that. Called again with the same approval it gives the same answer, and changes
// nothing: so a crash at any point is healed by asking again.
func (e *Executor) Decide(ctx context.Context, in queue.Approval) error {
	d := e.open(in)
	for range maxRounds {
		done, err := d.round(ctx)
		if err != nil {
			return fmt.Errorf("decide about approval %s of %s: %w", in.Event.ID(), in.Key, err)
		}
		if done {
			return nil
		}
	}
	return fmt.Errorf("decide about approval %s of %s: the Rollout changed %d times meanwhile", in.Event.ID(), in.Key, maxRounds)
}

// deciding is one call of Decide.
type deciding struct {
	*Executor
	in        queue.Approval
	of        event.Rollout
	malformed error
	proposal  planner.ApprovalRequest
	memory
}

func (e *Executor) open(in queue.Approval) *deciding {
	d := &deciding{Executor: e, in: in, of: event.Rollout{Cluster: in.Key.Cluster, Namespace: in.Key.Namespace, Name: in.Key.Name}}
	d.proposal = planner.ApprovalRequest{Principal: in.Principal, Arrived: in.Arrived}
	if d.malformed = in.Malformed; d.malformed == nil {
		d.malformed = d.read(in.Event)
	}
	d.memory = memory{queue: e.Queue, key: in.Key, id: event.DecidedID(d.of, in.Principal, d.proposal.Source, d.proposal.ID)}
	return d
}

// read makes a proposal of an event, as far as that can be read: whoever sent a broken one gets an answer as well.
func (d *deciding) read(e event.Event) error {
	p := &d.proposal
	p.Source, p.ID, p.Made = e.Source(), e.ID(), e.Time()
	a, about, err := event.ParseApproval(e)
	if err != nil {
		return err
	}
	if about.Namespace != d.of.Namespace || about.Name != d.of.Name {
		return fmt.Errorf("its subject is %s, but it was sent to Rollout %s", e.Subject(), d.in.Key)
	}
	p.Traceparent = traceparentOf(e)
	p.Decision, p.RolloutID, p.Image, p.Revision, p.Comment = a.Decision, a.RolloutID, a.Image, a.Revision, a.Comment
	if a.Step != nil {
		p.Step = *a.Step
	}
	return nil
}

// round looks at the world once and decides. It is not done when the world has moved since.
func (d *deciding) round(ctx context.Context) (done bool, err error) {
	snap, err := d.Kube.ObserveLive(ctx, types.NamespacedName{Namespace: d.of.Namespace, Name: d.of.Name})
	if kube.IsGone(err) {
		snap, err = nil, nil
	}
	if err != nil {
		return false, err
	}
	j := d.judge(snap)
	switch {
	case j.Refusal != "":
		return d.refuse(ctx, snap, j)
	case j.Status == nil:
		return true, d.accepted(ctx, j)
	}
	if done, known, err := d.bind(ctx, j); err != nil || known {
		return done, err
	}
	err = d.Kube.Commit(ctx, snap, *j.Status)
	switch {
	case kube.IsConflict(err), kube.IsGone(err):
		d.metrics.conflicts.Inc()
		return false, nil
	case err != nil:
		return false, err
	}
	d.metrics.decided("")
	d.Logger.Info("approval accepted", "namespace", d.of.Namespace, "rollout", d.of.Name, "step", j.Pause.Step,
		"decision", d.proposal.Decision, "principal", d.in.Principal, "source", d.proposal.Source, "id", d.proposal.ID)
	return true, d.accepted(ctx, j)
}

func (d *deciding) judge(snap *kube.Snapshot) planner.ApprovalResult {
	switch {
	case d.malformed != nil:
		return planner.ApprovalResult{Refusal: api.RefusalMalformed, Message: fmt.Sprintf("The event is no approval: %s; mend that and send it again with a new id", d.malformed)}
	case snap == nil:
		return planner.ApprovalResult{Refusal: api.RefusalUnknownRollout, Message: fmt.Sprintf(
			"There is no Rollout %s in namespace %s of cluster %s; check the subject of the event, and where it was sent", d.of.Name, d.of.Namespace, d.of.Cluster)}
	}
	return planner.EvaluateApproval(snap.Seen, d.proposal, d.Clock())
}

// bind remembers the pause that an approval counts for, before it is written into the status: should it be asked for again, it must
// not pass for a later one. When something is known of it already, that goes before: an answer is given again.
func (d *deciding) bind(ctx context.Context, j planner.ApprovalResult) (done, known bool, err error) {
	if d.proposal.Bound != nil {
		return false, false, nil
	}
	was, err := d.learn(ctx, sight{Pause: &j.Pause})
	if err != nil || was == nil {
		return false, false, err
	}
	done, err = d.follow(ctx, was)
	return done, true, err
}

// follow does as was found out before: it gives the answer again, or keeps the approval to its pause.
func (d *deciding) follow(ctx context.Context, was *sight) (done bool, err error) {
	if was.Answer != nil {
		return true, d.publish(ctx, *was.Answer, was.At)
	}
	d.proposal.Bound = was.Pause
	return false, nil
}

// refuse answers with a refusal, unless another answer was given before.
func (d *deciding) refuse(ctx context.Context, snap *kube.Snapshot, j planner.ApprovalResult) (done bool, err error) {
	answer, at := d.answer(j), d.Clock()
	if d.malformed != nil {
		at = d.in.Arrived // it will never be read otherwise, and needs no memory
	} else if was, err := d.learn(ctx, sight{Answer: &answer, At: at}); err != nil {
		return false, err
	} else if was != nil {
		return d.follow(ctx, was)
	}
	d.metrics.decided(j.Refusal)
	d.Logger.Info("approval refused", "namespace", d.of.Namespace, "rollout", d.of.Name, "refusal", j.Refusal, "message", j.Message,
		"principal", d.in.Principal, "source", d.proposal.Source, "id", d.proposal.ID)
	if snap != nil {
		d.Kube.Record(snap, true, "ApprovalRefused", fmt.Sprintf("A decision of %s was refused: %s: %s", d.in.Principal, j.Refusal, j.Message))
	}
	return true, d.publish(ctx, answer, at)
}

// accepted has the release go on, and answers. The Kubernetes Event comes from the run that follows the decision.
func (d *deciding) accepted(ctx context.Context, j planner.ApprovalResult) error {
	answer := d.answer(j)
	hinted := d.Queue.Hint(ctx, d.in.Key)
	return errors.Join(hinted, d.publish(ctx, answer, j.At), d.settle(ctx, sight{Answer: &answer, At: j.At}))
}

func (d *deciding) answer(j planner.ApprovalResult) event.Decided {
	p := d.proposal
	return event.Decided{
		Accepted: j.Refusal == "", Refusal: j.Refusal, Message: j.Message, Decision: p.Decision, Step: j.Pause.Step, Revision: j.Revision,
		RolloutID: j.RolloutID, Principal: p.Principal, ApprovalSource: p.Source, ApprovalID: p.ID, Comment: p.Comment,
	}
}

func (d *deciding) publish(ctx context.Context, answer event.Decided, at time.Time) error {
	out, err := event.NewDecided(d.of, answer, at)
	if err != nil {
		return err
	}
	return d.Queue.PublishEvent(ctx, out)
}
