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
	// sumsTTL is how long NATS keeps the sums of an analysis after the last write. No analysis waits that long for its
	// next measurement.
	sumsTTL = 72 * time.Hour
	// maxMessage is the largest message that NATS accepts by default, with headers. maxSums leaves room for the
	// headers.
	maxMessage = 1 << 20
	maxSums    = maxMessage - 1<<10
)

var (
	// ErrSumsConflict says that the stored sums are not the sums that the caller has read. The caller reads and
	// measures again.
	ErrSumsConflict = errors.New("another process has written the sums meanwhile")
	// ErrSumsTooLarge says that sums cannot be stored. A retry does not help.
	ErrSumsTooLarge = errors.New("NATS takes 1 MiB at most: have fewer metrics in one analysis")

	errNoSums = errors.New("a read-only connection has no analysis state: connect with write access")
)

// LoadSums returns the measurements of an analysis so far, as [Queue.SaveSums] stored them last, and their revision.
// The revision is 0 if nothing is stored. Then the analysis has stored no sums yet, NATS has lost them, or the last
// write was three days ago. On a cluster of NATS servers the sums may be older than the last write; the next SaveSums
// then fails with a conflict.
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

// SaveSums replaces the sums of an analysis at the given revision, 0 for no sums, and returns the new revision. If
// other sums are stored, or if NATS has lost the sums to replace, it stores nothing and returns [ErrSumsConflict]. run
// names the analysis in letters, digits, '-', '_', '/', '=' and '.'.
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

// findSums finds out whether the stored sums are the sums to store. NATS then accepted them, and its answer was lost.
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
