package queue

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

const (
	leaseRenew = 2 * time.Second
	// leaseMargin is how long a request may take that a run sends at the end of its lease.
	leaseMargin = 2 * time.Second
)

// errHeld means that another run seems to hold the lease. It is not certain: a replicated bucket sometimes reports a
// free key as taken.
var errHeld = errors.New("the lease is held by another run")

// lease keeps other processes from working on the same key at the same time. It saves work, and only requests without a
// precondition depend on it, see [HeldUntil]. It expires leaseTTL after its last renewal.
type lease struct {
	kv       jetstream.KeyValue
	log      *slog.Logger
	key      string
	holder   []byte
	revision uint64
	// until is the time that HeldUntil returns. The run reads it while the renewal writes it.
	until atomic.Pointer[time.Time]
	// lost is true if another run has the lease. Read it only after release.
	lost bool

	stop    context.CancelFunc
	renewal sync.WaitGroup
}

// acquireLease takes the lease of a key and keeps it until release.
func (q *Queue) acquireLease(ctx context.Context, key Key, holder string) (*lease, error) {
	l := &lease{kv: q.leases, log: q.log, key: key.allTokens(), holder: []byte(holder)}
	var asked time.Time
	err := q.withRecovery(ctx, func(ctx context.Context) (err error) {
		asked = time.Now()
		if l.revision, err = l.kv.Create(ctx, l.key, l.holder); isTaken(err) {
			err = l.takeOver(ctx)
		}
		return err
	})
	switch {
	case isTaken(err):
		return nil, errHeld
	case err != nil:
		return nil, fmt.Errorf("take lease of %s: %w", key, err)
	}
	l.extendHeldUntil(asked)
	l.startRenewal(ctx)
	return l, nil
}

// extendHeldUntil notes that NATS has accepted a request for the lease. asked is a time before that request was sent.
func (l *lease) extendHeldUntil(asked time.Time) {
	until := asked.Add(leaseTTL - leaseMargin)
	l.until.Store(&until)
}

// startRenewal renews the lease until it is released or left to the next run.
func (l *lease) startRenewal(ctx context.Context) {
	keep, stop := context.WithCancel(context.WithoutCancel(ctx))
	l.stop = stop
	l.renewal.Go(func() { l.renewPeriodically(keep) })
}

// takeOver takes an existing lease in two cases. Its last holder left it long enough ago, or it belongs to this
// process, which lost an answer of NATS.
func (l *lease) takeOver(ctx context.Context) error {
	e, err := l.kv.Get(ctx, l.key)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return jetstream.ErrKeyExists // it expired just now
	}
	if err != nil {
		return err
	}
	value, holder := string(e.Value()), string(l.holder)
	ours := value == holder || value == keptBy+holder
	if free := strings.HasPrefix(value, keptBy) && time.Since(e.Created()) >= keepLeaseFor; !ours && !free {
		return jetstream.ErrKeyExists
	}
	l.revision, err = l.kv.Update(ctx, l.key, l.holder, e.Revision())
	return err
}

// retakeKept takes a lease that an earlier run here left. It fails if another run has taken it in the meantime, or if
// it has expired.
func (l *lease) retakeKept(ctx context.Context) error {
	request, cancel := context.WithTimeout(ctx, leaseRenew)
	defer cancel()
	asked := time.Now()
	revision, err := l.kv.Update(request, l.key, l.holder, l.revision)
	if err != nil {
		return fmt.Errorf("retake lease of %s: %w", strings.ReplaceAll(l.key, "_", "."), err)
	}
	l.revision = revision
	l.extendHeldUntil(asked)
	l.startRenewal(ctx)
	return nil
}

// findOwnRevision finds a lease of this process whose revision it does not know, because the answer of NATS was lost.
func (l *lease) findOwnRevision(ctx context.Context) error {
	e, err := l.kv.Get(ctx, l.key)
	if err != nil {
		return err
	}
	if string(e.Value()) != string(l.holder) {
		return jetstream.ErrKeyExists
	}
	l.revision = e.Revision()
	return nil
}

// renewPeriodically keeps the lease until ctx ends or another run has it. This run then goes on: the API server refuses
// its writes to objects that the other run has written.
func (l *lease) renewPeriodically(ctx context.Context) {
	tick := time.NewTicker(leaseRenew)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		request, cancel := context.WithTimeout(ctx, leaseRenew)
		asked := time.Now()
		revision, err := l.kv.Update(request, l.key, l.holder, l.revision)
		if isTaken(err) && l.findOwnRevision(request) == nil {
			revision, err = l.kv.Update(request, l.key, l.holder, l.revision)
		}
		cancel()
		switch {
		case err == nil:
			l.revision = revision
			l.extendHeldUntil(asked)
		case isTaken(err):
			l.log.Debug("the lease went to another run", "key", l.key)
			l.lost = true
			l.until.Store(&time.Time{})
			return
		case ctx.Err() == nil:
			l.log.Debug("renew lease", "key", l.key, "error", err)
		}
	}
}

// release releases the lease, if this run still holds it. A lease that cannot be released expires.
func (l *lease) release(ctx context.Context) error {
	return l.endRenewal(ctx, "release", func(ctx context.Context) error {
		return l.kv.Delete(ctx, l.key, jetstream.LastRevision(l.revision))
	})
}

// keepForHolder releases the lease for its last holder only, which may retake it.
func (l *lease) keepForHolder(ctx context.Context) error {
	return l.endRenewal(ctx, "leave", func(ctx context.Context) error {
		revision, err := l.kv.Update(ctx, l.key, append([]byte(keptBy), l.holder...), l.revision)
		if err == nil {
			l.revision = revision
		}
		return err
	})
}

// endRenewal ends the renewal and makes the last write, if this run still holds the lease.
func (l *lease) endRenewal(ctx context.Context, what string, write func(context.Context) error) error {
	l.stop()
	l.renewal.Wait()
	ctx, cancel := context.WithTimeout(ctx, leaseRenew)
	defer cancel()
	err := write(ctx)
	if isTaken(err) && l.findOwnRevision(ctx) == nil {
		err = write(ctx)
	}
	switch {
	case err == nil:
	case isTaken(err):
		l.lost = true
	default:
		return fmt.Errorf("%s lease of %s: %w", what, strings.ReplaceAll(l.key, "_", "."), err)
	}
	return nil
}

// isTaken reports whether the key exists, or was written since.
func isTaken(err error) bool {
	var api *jetstream.APIError
	return errors.Is(err, jetstream.ErrKeyExists) || errors.As(err, &api) && (api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence ||
		api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequenceConstant)
}

type leaseKey struct{}

// HeldUntil returns the time until which a handler may send a request without a precondition. Such a request takes
// effect before another run of the key begins. The queue moves the time on when it renews the lease. The time lies in
// the past when the run has lost its lease. until is nil if ctx is not the context of a run.
func HeldUntil(ctx context.Context) (until func() time.Time) {
	l, ok := ctx.Value(leaseKey{}).(*lease)
	if !ok {
		return nil
	}
	return func() time.Time { return *l.until.Load() }
}
