package fleethub

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/decision"
	"sluice.dev/sluice/pkg/event"
	"sluice.dev/sluice/pkg/fleet"
	"sluice.dev/sluice/pkg/kube/apiclient"
	"sluice.dev/sluice/pkg/queue"
)

const (
	// beginBound is how long one delivery of a release waits until the hub has begun it. The next delivery waits again.
	beginBound = 15 * time.Second
	// beginCheck is how often it looks.
	beginCheck = 50 * time.Millisecond
)

// DecideRequest decides about one request that a client sent about a FleetRollout, and answers it. A decision about a wave is accepted once it stands in the
// status, and a release once the hub has looked at the version in the spec.
func (h *Hub) DecideRequest(ctx context.Context, in queue.Approval) error {
	if err := h.openRequest(in).Decide(ctx); err != nil {
		return fmt.Errorf("decide about event %s of %s: %w", in.Event.ID(), in.Key, err)
	}
	return nil
}

// requestDecision is the state of one call of [Hub.DecideRequest].
type requestDecision struct {
	*Hub
	delivery  queue.Approval
	name      types.NamespacedName
	malformed error
	request   fleet.Request
	// rollout is what the last evaluation has read; nil if it does not exist.
	rollout *api.FleetRollout
}

func (h *Hub) openRequest(in queue.Approval) *decision.Request[fleet.RequestBound] {
	about := in.Key.Rollout()
	d := &requestDecision{Hub: h, delivery: in, name: types.NamespacedName{Namespace: in.Key.Namespace, Name: in.Key.Name}}
	d.request = fleet.Request{Principal: in.Principal, Arrived: in.Arrived}
	if d.malformed = in.Malformed; d.malformed == nil {
		d.malformed = d.readEvent(in.Event, about)
	}
	return &decision.Request[fleet.RequestBound]{
		Queue: h.Queue, Key: in.Key, About: about, ID: event.DecidedID(about, in.Principal, d.request.Source, d.request.ID), Malformed: d.malformed != nil,
		Evaluate: d.evaluate, Refused: d.noteRefused, Accepted: d.noteAccepted,
	}
}

// readEvent reads the fields of a request from an event. It reads as much as it can before an error, because the sender of a malformed event gets an answer too.
func (d *requestDecision) readEvent(e event.Event, about event.Rollout) error {
	q := &d.request
	q.Source, q.ID, q.Made = e.Source(), e.ID(), e.Time()
	request, err := event.ParseRequest(e)
	switch {
	case err != nil:
		return err
	case request.About.Subject() != about.Subject():
		return fmt.Errorf("its subject is %s, but it was sent to FleetRollout %s", e.Subject(), d.name)
	case request.Verb() != d.delivery.Verb:
		return fmt.Errorf("it needs the verb %s, but it was sent under the verb %s", request.Verb(), d.delivery.Verb)
	}
	if a := request.Approval; a != nil {
		q.Decision, q.UID, q.Epoch, q.Wave, q.Comment = a.Decision, a.UID, a.Epoch, a.Wave, a.Comment
		return nil
	}
	r := request.Release
	q.Release, q.Plan, q.UID, q.Epoch, q.Comment = r.Release(), r.Plan, r.UID, r.Epoch, r.Comment
	return nil
}

// evaluate reads the FleetRollout and decides. After a release it waits until the hub has looked at the version.
func (d *requestDecision) evaluate(ctx context.Context, bound *fleet.RequestBound) (decision.Result[fleet.RequestBound], error) {
	d.request.Bound = bound
	end := time.Now().Add(beginBound)
	for {
		out, err := d.evaluateOnce(ctx)
		if err != nil || !out.Waiting {
			return d.result(out), err
		}
		if err := d.awaitHub(ctx, end); err != nil {
			return decision.Result[fleet.RequestBound]{}, err
		}
	}
}

// awaitHub waits until the cache shows that an executor of the hub has looked at the spec that the last evaluation has read, or at a later one.
func (d *requestDecision) awaitHub(ctx context.Context, end time.Time) error {
	for time.Now().Before(end) {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(beginCheck):
		}
		if r, known := d.kube.FleetRollout(d.name); known && (r == nil || r.Status.ObservedGeneration >= d.rollout.Generation) {
			return nil
		}
	}
	return errors.New("the hub has not looked at the version yet")
}

func (d *requestDecision) evaluateOnce(ctx context.Context) (fleet.RequestResult, error) {
	if d.malformed != nil {
		return fleet.RequestResult{Refusal: api.RefusalMalformed, At: d.delivery.Arrived,
			Message: fmt.Sprintf("The event cannot be used: %s; mend that and send it again with a new id", d.malformed)}, nil
	}
	r, err := d.kube.ReadFleetRollout(ctx, d.name)
	switch {
	case apierrors.IsNotFound(err):
		d.rollout = nil
		return fleet.RequestResult{Refusal: api.RefusalUnknownRollout, At: d.Clock(), Message: fmt.Sprintf(
			"There is no FleetRollout %s in namespace %s of cluster %s; check the subject of the event, and where it was sent", d.name.Name, d.name.Namespace, d.ClusterName)}, nil
	case err != nil:
		return fleet.RequestResult{}, err
	}
	d.rollout = r
	if d.request.PlanProblem, err = d.planProblem(); err != nil {
		return fleet.RequestResult{}, err
	}
	return fleet.EvaluateRequest(r, d.request, d.Clock()), nil
}

// planProblem says why the FleetRollout cannot follow the FleetPlan of the request, "" if it can.
func (d *requestDecision) planProblem() (string, error) {
	if d.request.Plan == "" {
		return "", nil
	}
	plan, known := d.kube.FleetPlan(d.request.Plan)
	switch {
	case !known:
		return "", errors.New("the FleetPlans are not read yet")
	case plan == nil:
		return fmt.Sprintf("There is no FleetPlan %s; name another one", d.request.Plan), nil
	case !slices.Contains(plan.Spec.Namespaces, d.name.Namespace):
		return fmt.Sprintf("The FleetPlan %s is not for the namespace %s; its owner must add it to spec.namespaces", d.request.Plan, d.name.Namespace), nil
	}
	return "", nil
}

// result is the decision with its answer, and what is to be written before the answer.
func (d *requestDecision) result(out fleet.RequestResult) decision.Result[fleet.RequestBound] {
	q := d.request
	wanted := q.Decision
	if wanted == "" && d.malformed == nil {
		wanted = event.DecisionRelease
	}
	r := decision.Result[fleet.RequestBound]{At: out.At, Bound: out.Bound, Answer: event.Decided{
		Accepted: out.Refusal == "", Refusal: out.Refusal, Message: out.Message, Decision: wanted, Epoch: out.Epoch, Wave: out.Wave, Version: out.Version,
		Principal: q.Principal, ApprovalSource: q.Source, ApprovalID: q.ID, Comment: q.Comment,
	}}
	if d.rollout != nil {
		r.Answer.UID = string(d.rollout.UID)
	}
	switch {
	case out.Status != nil:
		r.Commit = func(ctx context.Context) error {
			_, err := d.kube.CommitFleetStatus(ctx, d.rollout, *out.Status)
			return d.committed(err)
		}
	case out.Name:
		r.Commit = func(ctx context.Context) error {
			if err := d.committed(d.kube.NameFleetRelease(ctx, d.rollout, q.Release, q.Plan)); err != nil {
				return err
			}
			return decision.ErrMoved // the answer has the epoch, which the hub chooses
		}
	}
	return r
}

// committed returns what a write means for the decision.
func (d *requestDecision) committed(err error) error {
	if apiclient.IsConflict(err) || apierrors.IsNotFound(err) {
		d.metrics.conflicts.Inc()
		return decision.ErrMoved
	}
	return err
}

func (d *requestDecision) noteRefused(r decision.Result[fleet.RequestBound]) {
	a := r.Answer
	d.metrics.requests.WithLabelValues(string(a.Refusal)).Inc()
	d.Logger.Info("an event about a fleet was refused", "namespace", d.name.Namespace, "fleetrollout", d.name.Name, "refusal", a.Refusal, "message", a.Message,
		"principal", a.Principal, "source", a.ApprovalSource, "id", a.ApprovalID)
	if d.rollout != nil {
		d.kube.RecordFleetEvent(d.rollout, true, "RequestRefused", fmt.Sprintf("An event of %s was refused: %s: %s", a.Principal, a.Refusal, a.Message))
	}
}

// noteAccepted asks for a run, so that the release goes on.
func (d *requestDecision) noteAccepted(_ context.Context, r decision.Result[fleet.RequestBound]) error {
	a := r.Answer
	d.metrics.requests.WithLabelValues("").Inc()
	d.Logger.Info("an event about a fleet was accepted", "namespace", d.name.Namespace, "fleetrollout", d.name.Name, "decision", a.Decision, "epoch", a.Epoch, "wave", a.Wave,
		"principal", a.Principal, "source", a.ApprovalSource, "id", a.ApprovalID)
	d.hintNow(d.name)
	return nil
}

// RefuseRequests answers requests about FleetRollouts in a cluster that is not the hub of a fleet.
func RefuseRequests(q *queue.Queue, cluster string, clock func() time.Time) queue.ApprovalHandler {
	return func(ctx context.Context, in queue.Approval) error {
		about := in.Key.Rollout()
		answer := event.Decided{
			Refusal: api.RefusalNotAHub, Principal: in.Principal, ApprovalSource: in.Event.Source(), ApprovalID: in.Event.ID(),
			Message: fmt.Sprintf("The cluster %s is not the hub of a fleet; send the event to the hub, or make this cluster one (docs/fleet.md)", cluster),
		}
		request := &decision.Request[fleet.RequestBound]{
			Queue: q, Key: in.Key, About: about, ID: event.DecidedID(about, in.Principal, answer.ApprovalSource, answer.ApprovalID),
			Refused: func(decision.Result[fleet.RequestBound]) {},
			Evaluate: func(context.Context, *fleet.RequestBound) (decision.Result[fleet.RequestBound], error) {
				return decision.Result[fleet.RequestBound]{Answer: answer, At: clock()}, nil
			},
		}
		return request.Decide(ctx)
	}
}
