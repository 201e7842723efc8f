package main

import (
	"context"
	"errors"
	"net"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilnet "k8s.io/apimachinery/pkg/util/net"
)

const (
	// attempts is how often a request is sent to a server that is too busy to answer in time.
	attempts = 8
	// firstWait is the wait before the second one; each following is twice as long. All waits together take a quarter of a minute.
	firstWait = 100 * time.Millisecond
)

// patiently sends a request until it is answered by more than that the server is too busy. again says that it was sent before, with
// an unknown outcome. It is for setting up: what is measured is sent once.
func patiently(ctx context.Context, send func(again bool) error) error {
	for i, wait := 1, firstWait; ; i, wait = i+1, 2*wait {
		err := send(i > 1)
		if err == nil || i == attempts || !passing(err) || ctx.Err() != nil {
			return err
		}
		say("sent again in %s: %v", wait, err)
		pauseFor(ctx, wait)
	}
}

// passing reports whether an error is one of a busy machine, which passes by itself.
func passing(err error) bool {
	var slow net.Error
	switch {
	case apierrors.IsTimeout(err), apierrors.IsServerTimeout(err), apierrors.IsTooManyRequests(err), apierrors.IsServiceUnavailable(err),
		apierrors.IsInternalError(err), apierrors.IsUnexpectedServerError(err):
		return true
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return false
	case utilnet.IsConnectionReset(err), utilnet.IsConnectionRefused(err), utilnet.IsHTTP2ConnectionLost(err), utilnet.IsProbableEOF(err):
		return true
	}
	return errors.As(err, &slow) && slow.Timeout()
}
