package kube

import (
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"sluice.dev/sluice/pkg/kube/apiclient"
	"sluice.dev/sluice/pkg/rollout"
)

// This file handles resources that the API server cannot serve while it serves others. For example, the conversion
// webhook of one CustomResourceDefinition is down. A rollback must not wait for such a resource.

const (
	// A failure becomes a lasting one after errorLasts. The client forgets a failure that it has not seen again within
	// errorForgotten.
	errorLasts     = 10 * time.Second
	errorForgotten = time.Minute
)

// serverErrors are the resources for which the API server answered the client's last call with a server error (5xx).
type serverErrors struct {
	mu  sync.Mutex
	all map[schema.GroupVersionResource]errorPeriod
}

type errorPeriod struct{ first, last time.Time }

// lastingError is a server error about a resource that the API server has failed to serve for errorLasts.
type lastingError struct{ error }

func (e *lastingError) Unwrap() error { return e.error }

// isLasting reports whether the API server has failed for so long that the executor must not wait for another answer.
func isLasting(err error) bool {
	var lasting *lastingError
	return errors.As(err, &lasting)
}

// recordResult records the result of a call about a resource, at the time now. It returns err, as a lastingError if
// calls have failed for errorLasts.
func (t *serverErrors) recordResult(of schema.GroupVersionResource, err error, now time.Time) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Code < http.StatusInternalServerError {
		delete(t.all, of)
		return err
	}
	known, ok := t.all[of]
	if !ok || now.Sub(known.last) > errorForgotten {
		known.first = now
	}
	known.last = now
	if t.all == nil {
		t.all = map[schema.GroupVersionResource]errorPeriod{}
	}
	t.all[of] = known
	if now.Sub(known.first) < errorLasts {
		return err
	}
	return &lastingError{err}
}

// reportUnreadable adds a problem with a gateway object if a person must correct an error about a resource: the
// executor lacks a right, or the error lasts. It returns all other errors. blind says that the executor cannot restore
// the gateway object either.
func (o *observation) reportUnreadable(of schema.GroupVersionResource, on apiclient.Access, blind bool, err error) error {
	on.Group, on.Resource = of.Group, of.Resource
	var p rollout.Problem
	switch {
	case apiclient.IsForbidden(err):
		p = apiclient.ForbiddenProblem(on, err)
	case isLasting(err):
		p = rollout.Problem{Reason: rollout.ReasonUnreadable, Route: on.Route, Message: fmt.Sprintf(
			"The API server cannot %s %s in namespace %s: %s. Mend what the error names, such as the conversion webhook of the CustomResourceDefinition",
			on.Verb, on.QualifiedResource(), on.Namespace, statusMessage(err))}
	default:
		return err
	}
	p.Unknown = blind
	o.addProblem(p)
	return nil
}

// statusMessage is the API server's message in an error, or the whole error if it has none.
func statusMessage(err error) string {
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		return status.Status().Message
	}
	return err.Error()
}
