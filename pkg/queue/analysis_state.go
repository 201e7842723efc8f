package queue

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

const (
	// sumsTTL is how long the sums of an analysis are kept after they were written last: far longer than anything waits for its
	// next measurement.
	sumsTTL = 72 * time.Hour
	// maxMessage is what NATS takes at most unless it is told otherwise, headers included; maxSums leaves room for those.
	maxMessage = 1 << 20
	maxSums    = maxMessage - 1<<10
)

var (
	// ErrSumsConflict says that other sums are stored than those that the caller has read: read again, and measure again.
	ErrSumsConflict = errors.New("somebody else has written the sums meanwhile")
	// ErrSumsTooLarge says that sums cannot be stored. Trying again does not help.
	ErrSumsTooLarge = errors.New("NATS takes 1 MiB at most: have fewer metrics in one analysis")

	errNoSums = errors.New("a read-only connection has no analysis state: connect with write access")
)

// LoadSums returns the state of an analysis, as [Queue.SaveSums] stored it last, and its revision. Revision 0 means no state: the analysis has
// stored none yet, or NATS has lost it, or it was written more than three days ago. On a cluster of NATS servers the state may be older than one
// stored a moment ago; the next SaveSums finds that out.
func (q *Queue) LoadSums(ctx context.Context, run string) (data []byte, revision uint64, err error) {
	if q.sums == nil {
		return nil, 0, fmt.Errorf("read sums of %s: %w", run, errNoSums)
	}
	var e jetstream.KeyValueEntry
	err = q.withRecovery(ctx, func(ctx context.Context) (err error) {
		e, err = q.sums.Get(ctx, run)
		return err
	})
	switch {
	case errors.Is(err, jetstream.ErrKeyNotFound):
		return nil, 0, nil
	case err != nil:
		return nil, 0, fmt.Errorf("read sums of %s: %w", run, err)
	}
	return e.Value(), e.Revision(), nil
}

// SaveSums stores the state of an analysis in place of the one with the given revision, 0 for no state, and returns the new revision. If another
// revision is stored, it stores nothing and returns [ErrSumsConflict]; it does so as well if NATS has lost the state to replace. run names the
// analysis in letters, digits, '-', '_', '/', '=' and '.'.
func (q *Queue) SaveSums(ctx context.Context, run string, data []byte, revision uint64) (uint64, error) {
	switch {
	case q.sums == nil:
		return 0, fmt.Errorf("store sums of %s: %w", run, errNoSums)
	case len(data) > maxSums:
		return 0, fmt.Errorf("store sums of %s: they are %d bytes, and %w", run, len(data), ErrSumsTooLarge)
	}
	asked := 0
	var stored uint64
	err := q.withRecovery(ctx, func(ctx context.Context) (err error) {
		asked++
		if stored, err = q.replaceSums(ctx, run, data, revision); isTaken(err) && asked > 1 {
			stored, err = q.findSums(ctx, run, data)
		}
		return err
	})
	switch {
	case isTaken(err):
		return 0, fmt.Errorf("store sums of %s: %w", run, ErrSumsConflict)
	case err != nil:
		return 0, fmt.Errorf("store sums of %s: %w", run, err)
	}
	return stored, nil
}

func (q *Queue) replaceSums(ctx context.Context, run string, data []byte, revision uint64) (uint64, error) {
	if revision == 0 {
		return q.sums.Create(ctx, run, data)
	}
	return q.sums.Update(ctx, run, data, revision)
}

// findSums looks whether the sums that are stored are those that were to be: NATS took them, and its answer was lost.
func (q *Queue) findSums(ctx context.Context, run string, data []byte) (uint64, error) {
	e, err := q.sums.Get(ctx, run)
	if errors.Is(err, jetstream.ErrKeyNotFound) || err == nil && !bytes.Equal(e.Value(), data) {
		return 0, jetstream.ErrKeyExists
	}
	if err != nil {
		return 0, err
	}
	return e.Revision(), nil
}
