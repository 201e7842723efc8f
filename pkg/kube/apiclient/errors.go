package apiclient

import (
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
)

var (
	// [IsGone] recognizes ErrGone, [IsConflict] ErrStale and [IsUndecided] ErrUndecided.
	ErrGone  = errors.New("the Rollout no longer exists")
	ErrStale = errors.New("the object has changed since it was observed")
	// ErrUndecided keeps a release from ending because of one answer. The answer may come from a server that does not
	// know everything yet.
	ErrUndecided = errors.New("the API server does not find what its watch shows")
)

// IsGone reports whether the Rollout itself no longer exists.
func IsGone(err error) bool { return errors.Is(err, ErrGone) }

// IsUndecided reports whether the API server and its watch disagree, as they do for a moment after a deletion. The
// caller observes again soon.
func IsUndecided(err error) bool { return errors.Is(err, ErrUndecided) }

// IsConflict reports whether an object has changed since it was observed. The caller observes and plans again.
func IsConflict(err error) bool { return errors.Is(err, ErrStale) || apierrors.IsConflict(err) }

// IsForbidden reports whether the API server refused a call. [ProblemOf] says how to allow the call.
func IsForbidden(err error) bool { return apierrors.IsForbidden(err) }

// RetryAfter returns the time that the API server asked to wait before the next call, 0 if it asked for none.
func RetryAfter(err error) time.Duration {
	seconds, ok := apierrors.SuggestsClientDelay(err)
	if !ok {
		return 0
	}
	return time.Duration(seconds) * time.Second
}

// ProblemOf returns the problem that a person must solve before the failed call can succeed. A problem of a gateway
// object names the object as its Route. ok is false for errors that pass by themselves.
func ProblemOf(err error) (problem rollout.Problem, ok bool) {
	var p *ProblemError
	if errors.As(err, &p) {
		return p.Problem, true
	}
	return rollout.Problem{}, false
}

// ProblemError is an error with a problem that a person must solve.
type ProblemError struct {
	Problem rollout.Problem
	Cause   error
}

func (e *ProblemError) Error() string { return e.Problem.Message }
func (e *ProblemError) Unwrap() error { return e.Cause }

// ConflictError is a conflict of the write of one object with another write.
type ConflictError struct {
	Access Access
	Cause  error
}

func (e *ConflictError) Error() string { return e.Cause.Error() }
func (e *ConflictError) Unwrap() error { return e.Cause }

// StaleAction returns the error for an action that does not fit the observed objects.
func StaleAction(action rollout.Action) error { return fmt.Errorf("%s: %w", action, ErrStale) }

// IsNotFound reports whether the API server serves the resource and has no object of that name.
func IsNotFound(err error) bool { return apierrors.IsNotFound(err) && !api.Unserved(err) }

// RolloutError describes the error of a call about the Rollout itself. The argument "what" names the call, such as
// "read".
func RolloutError(what string, r *api.Rollout, err error) error {
	if IsNotFound(err) {
		return fmt.Errorf("%s Rollout %s/%s: %w: %w", what, r.Namespace, r.Name, ErrGone, err)
	}
	return fmt.Errorf("%s Rollout %s/%s: %w", what, r.Namespace, r.Name, err)
}

// ActionError describes the error of a write. If the object no longer exists, or exists already, the caller must
// observe again.
func ActionError(action rollout.Action, on Access, err error) error {
	switch {
	case apierrors.IsNotFound(err), apierrors.IsAlreadyExists(err):
		return fmt.Errorf("%s: %w: %w", action, ErrStale, err)
	case apierrors.IsConflict(err):
		return &ConflictError{Access: on, Cause: fmt.Errorf("%s: %w", action, err)}
	case apierrors.IsForbidden(err):
		return &ProblemError{Problem: ForbiddenProblem(on, err), Cause: fmt.Errorf("%s: %w", action, err)}
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
		return &ProblemError{Cause: fmt.Errorf("%s: %w", action, err), Problem: rollout.Problem{
			Reason: refusalReason(on), Route: on.Route, Message: fmt.Sprintf("The API server refuses to %s: %s", action, err)}}
	}
	return fmt.Errorf("%s: %w", action, err)
}

// refusalReason is the reason to hold a release when the API server rejects a write of it.
func refusalReason(on Access) api.Reason {
	if on.Route != (rollout.Ref{}) {
		return rollout.ReasonRouteRejected
	}
	return rollout.ReasonInvalidSpec
}
