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
	// ErrGone is for [IsGone], ErrStale for [IsConflict], ErrUndecided for [IsUndecided].
	ErrGone  = errors.New("the Rollout no longer exists")
	ErrStale = errors.New("the object has changed since it was observed")
	// ErrUndecided: a release is not ended for one answer, which may come from a server that does not know everything yet.
	ErrUndecided = errors.New("the API server does not find what its watch shows")
)

// IsGone reports whether the Rollout itself no longer exists.
func IsGone(err error) bool { return errors.Is(err, ErrGone) }

// IsUndecided reports whether the API server and its watch do not agree, as for a moment after a deletion: look again soon.
func IsUndecided(err error) bool { return errors.Is(err, ErrUndecided) }

// IsConflict reports whether the world has changed since it was observed: observe and plan again.
func IsConflict(err error) bool { return errors.Is(err, ErrStale) || apierrors.IsConflict(err) }

// IsForbidden reports whether the API server refused a call; [ProblemOf] says what to do about it.
func IsForbidden(err error) bool { return apierrors.IsForbidden(err) }

// RetryAfter is how long the API server asked to wait before the next call, 0 when it did not.
func RetryAfter(err error) time.Duration {
	seconds, ok := apierrors.SuggestsClientDelay(err)
	if !ok {
		return 0
	}
	return time.Duration(seconds) * time.Second
}

// ProblemOf is what a person must change before the call that failed can succeed; one about a gateway object names it as its Route.
// ok is false for errors that pass by themselves.
func ProblemOf(err error) (problem rollout.Problem, ok bool) {
	var p *ProblemError
	if errors.As(err, &p) {
		return p.Problem, true
	}
	return rollout.Problem{}, false
}

// ProblemError is an error that a person must mend.
type ProblemError struct {
	Problem rollout.Problem
	Cause   error
}

func (e *ProblemError) Error() string { return e.Problem.Message }
func (e *ProblemError) Unwrap() error { return e.Cause }

// ConflictError is a write of one object that met another one.
type ConflictError struct {
	Access Access
	Cause  error
}

func (e *ConflictError) Error() string { return e.Cause.Error() }
func (e *ConflictError) Unwrap() error { return e.Cause }

// StaleAction marks an action that does not fit the present state.
func StaleAction(action rollout.Action) error { return fmt.Errorf("%s: %w", action, ErrStale) }

// IsNotFound reports whether the API server serves the resource and has no object of that name.
func IsNotFound(err error) bool { return apierrors.IsNotFound(err) && !api.Unserved(err) }

// RolloutError describes an error of a call about the Rollout itself; what names the call, such as "read".
func RolloutError(what string, r *api.Rollout, err error) error {
	if IsNotFound(err) {
		return fmt.Errorf("%s Rollout %s/%s: %w: %w", what, r.Namespace, r.Name, ErrGone, err)
	}
	return fmt.Errorf("%s Rollout %s/%s: %w", what, r.Namespace, r.Name, err)
}

// ActionError describes an error of a write. An object that is no longer there, or is there already, calls for another look.
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

// refusalReason is the reason to hold for when the API server does not take what a release wants to write.
func refusalReason(on Access) api.Reason {
	if on.Route != (rollout.Ref{}) {
		return rollout.ReasonRouteRejected
	}
	return rollout.ReasonInvalidSpec
}
