package queue

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

const leaseRenew = 2 * time.Second

// errHeld means that another run seems to hold the lease. It is no proof: on a
// replicated bucket a free key is sometimes reported as taken.
var errHeld = errors.New("the lease is held by another run")

// lease keeps other processes from working on the same key at the same time. It
// saves work; correctness never depends on it. It expires leaseTTL after its
// last renewal.
type lease struct {
	kv       jetstream.KeyValue
	key      string
	holder   []byte
	revision uint64

	stop    context.CancelFunc
	renewal sync.WaitGroup
}

// acquire takes the lease of a key and keeps it until release.
func (q *Queue) acquire(ctx context.Context, key Key, holder string) (*lease, error) {
	l := &lease{kv: q.leases, key: key.tokens(), holder: []byte(holder)}
	err := q.repaired(ctx, func(ctx context.Context) (err error) {
		l.revision, err = l.kv.Create(ctx, l.key, l.holder)
		return err
	})
	switch {
	case errors.Is(err, jetstream.ErrKeyExists), isWrongRevision(err):
		return nil, errHeld
	case err != nil:
		return nil, fmt.Errorf("take lease of %s: %w", key, err)
	}
	keep, stop := context.WithCancel(context.WithoutCancel(ctx))
	l.stop = stop
	l.renewal.Go(func() { l.renew(keep, q.log) })
	return l, nil
}

// renew ends early once somebody else has the lease: the run goes on, its
// preconditions keep it correct.
func (l *lease) renew(ctx context.Context, log *slog.Logger) {
	tick := time.NewTicker(leaseRenew)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		request, cancel := context.WithTimeout(ctx, leaseRenew)
		revision, err := l.kv.Update(request, l.key, l.holder, l.revision)
		cancel()
		switch {
		case err == nil:
			l.revision = revision
		case errors.Is(err, jetstream.ErrKeyExists), isWrongRevision(err):
			log.Debug("the lease went to another run", "key", l.key)
			return
		case ctx.Err() == nil:
			log.Debug("renew lease", "key", l.key, "error", err)
		}
	}
}

// release gives the lease back, if it is still ours. What cannot be released
// expires.
func (l *lease) release(ctx context.Context) error {
	l.stop()
	l.renewal.Wait()
	ctx, cancel := context.WithTimeout(ctx, leaseRenew)
	defer cancel()
	err := l.kv.Delete(ctx, l.key, jetstream.LastRevision(l.revision))
	if err != nil && !errors.Is(err, jetstream.ErrKeyExists) && !isWrongRevision(err) {
		return fmt.Errorf("release lease of %s: %w", strings.ReplaceAll(l.key, "_", "."), err)
	}
	return nil
}

func isWrongRevision(err error) bool {
	var api *jetstream.APIError
	return errors.As(err, &api) && (api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence ||
		api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequenceConstant)
}
