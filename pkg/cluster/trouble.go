package cluster

import (
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"sluice.dev/sluice/pkg/rollout"
)

// This file is about resources that the API server cannot serve although it serves others: for example, the conversion webhook of one
// CustomResourceDefinition is down. A release that goes back must not wait for them.

const (
	// The executor takes a failure for lasting after troubleLasts. It forgets one of which it has seen nothing for troubleForgotten.
	troubleLasts     = 10 * time.Second
	troubleForgotten = time.Minute
)

// troubles are the resources about which the API server answered the last call with an error of its own.
type troubles struct {
	mu  sync.Mutex
	all map[schema.GroupVersionResource]trouble
}

type trouble struct{ first, last time.Time }

// lastingError is an error of the API server about a resource that it has not served for troubleLasts.
type lastingError struct{ error }

func (e *lastingError) Unwrap() error { return e.error }

// isLasting reports whether the API server has failed in the same way for a while, so that nobody should wait for a better answer.
func isLasting(err error) bool {
	var lasting *lastingError
	return errors.As(err, &lasting)
}

// judge notes how a call about a resource ended at that time, and returns its error: as a lastingError if calls have failed for troubleLasts.
func (t *troubles) judge(of schema.GroupVersionResource, err error, now time.Time) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Code < http.StatusInternalServerError {
		delete(t.all, of)
		return err
	}
	known, ok := t.all[of]
	if !ok || now.Sub(known.last) > troubleForgotten {
		known.first = now
	}
	known.last = now
	if t.all == nil {
		t.all = map[schema.GroupVersionResource]trouble{}
	}
	t.all[of] = known
	if now.Sub(known.first) < troubleLasts {
		return err
	}
	return &lastingError{err}
}

// withoutThese turns an error about a resource into a problem with a gateway object, if a person must mend it: the executor lacks a right, or the error lasts. Other
// errors it returns. blind: the executor cannot restore the gateway object either.
func (o *observation) withoutThese(of schema.GroupVersionResource, on target, blind bool, err error) error {
	on.group, on.resource = of.Group, of.Resource
	var p rollout.Problem
	switch {
	case IsForbidden(err):
		p = forbidden(on, err)
	case isLasting(err):
		p = rollout.Problem{Reason: rollout.HoldUnreadable, Route: on.route, Message: fmt.Sprintf(
			"The API server cannot %s %s in namespace %s: %s. Mend what the error names, such as the conversion webhook of the CustomResourceDefinition",
			on.verb, on.qualified(), on.namespace, statusMessage(err))}
	default:
		return err
	}
	p.Blind = blind
	o.problem(p)
	return nil
}

// statusMessage is what the API server said.
func statusMessage(err error) string {
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		return status.Status().Message
	}
	return err.Error()
}
