// Package decision decides about requests from outside, and answers them. It knows neither Rollouts nor FleetRollouts; its callers evaluate the requests.
//
// Invariant: a request counts once. The same request always gets the same answer, whichever process gets it, and however often. A request that was bound to one
// pause never applies to a later one.
package decision

import (
	"context"
	"errors"
	"fmt"
	"time"

	"sluice.dev/sluice/pkg/event"
	"sluice.dev/sluice/pkg/queue"
)

// ErrMoved says that an object has changed between its observation and the write. The request is evaluated again.
var ErrMoved = errors.New("the object has changed meanwhile")

// maxRounds bounds the evaluations of one delivery.
const maxRounds = 24

// Result is what comes of one evaluation. Without a refusal in the answer, the request is accepted.
type Result[P any] struct {
	Answer event.Decided
	// At is the time of the decision.
	At time.Time
	// Bound is the pause that the request applies to.
	Bound P
	// Commit writes the decision; nil if nothing is to be written, because it was refused, or written before. It returns [ErrMoved] if the object has changed.
	Commit func(context.Context) error
}

// Request is one delivery of a request. P is the kind of pause that a request is bound to, which is stored as JSON.
type Request[P any] struct {
	Queue *queue.Queue
	Key   queue.Key
	About event.Rollout
	// ID is the id of the event with the answer.
	ID string
	// Malformed: the evaluation refuses the request because of its own content. This never changes, so it needs no record.
	Malformed bool
	// Evaluate observes the object and decides about the request; bound is the pause that an earlier delivery was bound to, nil for none.
	Evaluate func(ctx context.Context, bound *P) (Result[P], error)
	// Refused and Accepted are called with a new decision. The request is answered after Accepted, and repeated if that returns an error.
	Refused  func(Result[P])
	Accepted func(context.Context, Result[P]) error

	bound   *P
	version uint64
}

// Decide decides about the request and publishes the answer. After an error it is called again, and recovers from a crash at any point.
func (r *Request[P]) Decide(ctx context.Context) error {
	for range maxRounds {
		done, err := r.decideOnce(ctx)
		if done || err != nil {
			return err
		}
	}
	return fmt.Errorf("%w, %d times", ErrMoved, maxRounds)
}

// decideOnce evaluates the request once. done is false when the object changed between the observation and the write.
func (r *Request[P]) decideOnce(ctx context.Context) (done bool, err error) {
	result, err := r.Evaluate(ctx, r.bound)
	switch {
	case err != nil:
		return false, err
	case result.Answer.Refusal != "":
		return r.refuse(ctx, result)
	case result.Commit == nil:
		return true, r.finish(ctx, result)
	}
	if done, known, err := r.bind(ctx, result); err != nil || known {
		return done, err
	}
	switch err := result.Commit(ctx); {
	case errors.Is(err, ErrMoved):
		return false, nil
	case err != nil:
		return false, err
	}
	return true, r.finish(ctx, result)
}

// bind records the pause that a request applies to, before its decision is written. A repeated request must not apply to a later pause. If a record exists
// already, that record takes precedence: the process repeats its answer.
func (r *Request[P]) bind(ctx context.Context, result Result[P]) (done, known bool, err error) {
	if r.bound != nil {
		return false, false, nil
	}
	was, err := r.putRecord(ctx, record[P]{Pause: &result.Bound})
	if err != nil || was == nil {
		return false, false, err
	}
	done, err = r.follow(ctx, was)
	return done, true, err
}

// follow acts on an earlier record: it publishes the recorded answer again, or binds the request to the recorded pause.
func (r *Request[P]) follow(ctx context.Context, was *record[P]) (done bool, err error) {
	if was.Answer != nil {
		return true, r.publish(ctx, *was.Answer, was.At)
	}
	r.bound = was.Pause
	return false, nil
}

// refuse answers with a refusal, unless an earlier answer is on record.
func (r *Request[P]) refuse(ctx context.Context, result Result[P]) (done bool, err error) {
	if !r.Malformed {
		was, err := r.putRecord(ctx, record[P]{Answer: &result.Answer, At: result.At})
		if err != nil {
			return false, err
		}
		if was != nil {
			return r.follow(ctx, was)
		}
	}
	r.Refused(result)
	return true, r.publish(ctx, result.Answer, result.At)
}

// finish answers an accepted request.
func (r *Request[P]) finish(ctx context.Context, result Result[P]) error {
	accepted := r.Accepted(ctx, result)
	return errors.Join(accepted, r.publish(ctx, result.Answer, result.At), r.putAnswer(ctx, record[P]{Answer: &result.Answer, At: result.At}))
}

func (r *Request[P]) publish(ctx context.Context, answer event.Decided, at time.Time) error {
	out, err := event.NewDecided(r.About, answer, at)
	if err != nil {
		return err
	}
	return r.Queue.PublishEvent(ctx, out)
}
