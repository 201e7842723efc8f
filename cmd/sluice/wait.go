package main

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"sluice.dev/sluice/cmd/internal/view"
	"sluice.dev/sluice/pkg/api"
)

// patchStatus patches the status of a Rollout with the result of build, bound to the version that build saw. After a conflict it reads the Rollout and calls
// build again. build then returns an error if the request no longer applies. The result is the Rollout of the last call.
func (c *cli) patchStatus(ctx context.Context, a access, name, manager string, build func(r *api.Rollout, again bool) ([]byte, error)) (*api.Rollout, error) {
	for again := false; ; again = true {
		r, err := a.read.ReadRollout(ctx, a.namespace, name)
		if err != nil {
			return nil, c.notFound(ctx, a.namespace, name, err)
		}
		patch, err := build(r, again)
		if err != nil {
			return nil, err
		}
		_, err = a.write.Resource(api.RolloutResource()).Namespace(a.namespace).
			Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: manager}, "status")
		if !apierrors.IsConflict(err) {
			return r, err
		}
	}
}

// showProgress follows the text of look about a Rollout until look is done. It writes each new sentence to standard error, and the last one to standard output.
// The timeout starts at the first look, so that the error can report the last text; 0 means no timeout. After the timeout it returns a [late], in which what
// describes the missed goal.
func (c *cli) showProgress(ctx context.Context, read *view.Reader, namespace, name string, timeout time.Duration, what string, look func(*api.Rollout) (string, bool, error)) error {
	bound, cancel := context.WithCancel(ctx)
	defer cancel()
	last, finished := "", false
	var timer *time.Timer
	err := read.FollowRollout(bound, namespace, name, func(now *api.Rollout) (bool, error) {
		text, done, err := look(now)
		switch {
		case err != nil:
		case done:
			finished = true
			fmt.Fprintln(c.out, text)
		case text != last:
			fmt.Fprintln(c.errors, text)
		}
		last = text
		if timeout > 0 && timer == nil {
			timer = time.AfterFunc(timeout, cancel)
		}
		return done, err
	})
	if timer != nil {
		timer.Stop()
	}
	switch {
	case err != nil:
		return c.notFound(ctx, namespace, name, err)
	case finished:
		return nil
	case ctx.Err() != nil:
		return context.Canceled
	}
	return late{what: what, after: timeout, last: last}
}

// late is the error of a wait that exceeded its timeout.
type late struct {
	what  string
	after time.Duration
	last  string
}

func (l late) Error() string {
	return fmt.Sprintf("%s after %s. It goes on; last seen: %s", l.what, l.after, l.last)
}
