package kube

import (
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
)

var (
	errGone  = errors.New("the Rollout no longer exists")
	errStale = errors.New("the object is no longer what was seen")
	// errUndecided: a release is not ended for one answer, which may come from a server that does not know everything yet.
	errUndecided = errors.New("the API server does not find what its watch shows")
)

// IsGone reports whether the Rollout itself no longer exists.
func IsGone(err error) bool { return errors.Is(err, errGone) }

// IsUndecided reports whether the API server and its watch do not agree, as for a moment after a deletion: look again soon.
func IsUndecided(err error) bool { return errors.Is(err, errUndecided) }

// IsConflict reports whether the world has changed since it was observed: observe and plan again.
func IsConflict(err error) bool { return errors.Is(err, errStale) || apierrors.IsConflict(err) }

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
	var p *problemError
	if errors.As(err, &p) {
		return p.problem, true
	}
	return rollout.Problem{}, false
}

// problemError is an error that a person must mend.
type problemError struct {
	problem rollout.Problem
	cause   error
}

func (e *problemError) Error() string { return e.problem.Message }
func (e *problemError) Unwrap() error { return e.cause }

// conflictError is a write of one object that met another one.
type conflictError struct {
	on    target
	cause error
}

func (e *conflictError) Error() string { return e.cause.Error() }
func (e *conflictError) Unwrap() error { return e.cause }

// stale marks an action that does not fit what is there.
func stale(action rollout.Action) error { return fmt.Errorf("%s: %w", action, errStale) }

func isNotFound(err error) bool { return apierrors.IsNotFound(err) && !api.Unserved(err) }

// onRollout describes an error of a call about the Rollout itself.
func onRollout(what string, r *api.Rollout, err error) error {
	if isNotFound(err) {
		return fmt.Errorf("%s Rollout %s/%s: %w: %w", what, r.Namespace, r.Name, errGone, err)
	}
	return fmt.Errorf("%s Rollout %s/%s: %w", what, r.Namespace, r.Name, err)
}

// onAction describes an error of a write. An object that is no longer there, or is there already, calls for another look.
func (c *Client) onAction(action rollout.Action, on target, err error) error {
	switch {
	case apierrors.IsNotFound(err), apierrors.IsAlreadyExists(err):
		return fmt.Errorf("%s: %w: %w", action, errStale, err)
	case apierrors.IsConflict(err):
		return &conflictError{on: on, cause: fmt.Errorf("%s: %w", action, err)}
	case apierrors.IsForbidden(err):
		return &problemError{problem: forbidden(on, err), cause: fmt.Errorf("%s: %w", action, err)}
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
		return &problemError{cause: fmt.Errorf("%s: %w", action, err), problem: rollout.Problem{
			Reason: refusal(on), Route: on.route, Message: fmt.Sprintf("The API server refuses to %s: %s", action, err)}}
	}
	return fmt.Errorf("%s: %w", action, err)
}

// refusal is the reason to hold for when the API server does not take what a release wants to write.
func refusal(on target) api.Reason {
	if on.route != (rollout.Ref{}) {
		return rollout.HoldRouteRefused
	}
	return rollout.HoldInvalidSpec
}
