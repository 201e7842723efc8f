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
	// attempts bounds the attempts of a request to a server that is too busy to answer in time.
	attempts = 8
	// firstWait is the wait before the second attempt; each further wait is twice as long. All waits together take a quarter of a minute.
	firstWait = 100 * time.Millisecond
)

// patiently sends a request until the server answers it, or the error is not temporary. again reports that an earlier attempt had an unknown outcome. Only the
// setup uses it: the bench sends a measured request once.
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

// passing reports whether an error of a busy machine is temporary.
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
