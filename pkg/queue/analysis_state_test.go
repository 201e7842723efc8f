package queue_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sluice.dev/sluice/pkg/queue"
)

const run = "0f8fad5b-d9cb-469f-a165-70867728950e.3.14.step"

// stored has the sums of a run and their revision.
type stored struct {
	Data     string
	Revision uint64
}

func (w *world) sums(q *queue.Queue) stored {
	w.Helper()
	data, revision, err := q.LoadSums(w.Context(), run)
	if err != nil {
		w.Fatal(err)
	}
	return stored{string(data), revision}
}

func (w *world) saveSums(q *queue.Queue, data string, over uint64) (revision uint64) {
	w.Helper()
	revision, err := q.SaveSums(w.Context(), run, []byte(data), over)
	if err != nil {
		w.Fatal(err)
	}
	return revision
}

func (w *world) conflicts(q *queue.Queue, what string, over uint64) {
	w.Helper()
	if revision, err := q.SaveSums(w.Context(), run, []byte("of somebody who is behind"), over); !errors.Is(err, queue.ErrSumsConflict) || revision != 0 {
		w.Errorf("%s: revision %d, %v", what, revision, err)
	}
}

func TestSumsAreStoredInPlaceOfThoseThatWereReadOnly(t *testing.T) {
	w := aWorld(t)
	q := w.connect()
	if diff := cmp.Diff(stored{}, w.sums(q)); diff != "" {
		t.Errorf("before anything is stored (-want +got):\n%s", diff)
	}
	first := w.saveSums(q, "one", 0)
	w.conflicts(q, "in place of nothing", 0)
	if _, err := q.SaveSums(t.Context(), run, []byte("one"), 0); !errors.Is(err, queue.ErrSumsConflict) {
		t.Errorf("the same once more: %v", err)
	}
	second := w.saveSums(q, "two", first)
	w.conflicts(q, "in place of older ones", first)
	w.conflicts(q, "in place of ones that do not exist", second+1)
	if diff := cmp.Diff(stored{"two", second}, w.sums(w.connect())); diff != "" {
		t.Errorf("what another process reads (-want +got):\n%s", diff)
	}
	if _, revision, err := q.LoadSums(t.Context(), strings.Replace(run, "step", "release", 1)); err != nil || revision != 0 {
		t.Errorf("those of another run: revision %d, %v", revision, err)
	}
}

// Several writers each add one to the sums that they read. No addition is lost, and none counts twice.
func TestManyWritersOfSumsLoseNothing(t *testing.T) {
	w := aWorld(t)
	var writers sync.WaitGroup
	var conflicts atomic.Int32
	for range 4 {
		q := w.connect()
		writers.Go(func() {
			for added := 0; added < 10; {
				data, revision, err := q.LoadSums(t.Context(), run)
				if err == nil {
					_, err = q.SaveSums(t.Context(), run, append(data, '.'), revision)
				}
				switch {
				case errors.Is(err, queue.ErrSumsConflict):
					conflicts.Add(1)
				case err != nil:
					t.Error(err)
					return
				default:
					added++
				}
			}
		})
	}
	writers.Wait()
	if diff := cmp.Diff(strings.Repeat(".", 40), w.sums(w.connect()).Data); diff != "" {
		t.Errorf("sums (-want +got):\n%s", diff)
	}
	t.Logf("%d conflicts", conflicts.Load())
}

func TestSumsOfALostBucketAreNoneAndMayBeStoredAgain(t *testing.T) {
	w := aWorld(t)
	q := w.connect()
	lose := func() {
		t.Helper()
		if err := w.admin.DeleteStream(t.Context(), "KV_"+queue.BucketAnalysis); err != nil {
			t.Fatal(err)
		}
	}
	before := w.saveSums(q, "second", w.saveSums(q, "first", 0))
	lose()
	w.conflicts(q, "in place of lost ones", before)
	if diff := cmp.Diff(stored{}, w.sums(q)); diff != "" {
		t.Errorf("after the loss (-want +got):\n%s", diff)
	}
	w.saveSums(q, "third", 0)
	lose()
	if diff := cmp.Diff(stored{}, w.sums(q)); diff != "" {
		t.Errorf("when reading notices the loss (-want +got):\n%s", diff)
	}
	lose()
	last := w.saveSums(q, "fourth", 0)
	if diff := cmp.Diff(stored{"fourth", last}, w.sums(q)); diff != "" {
		t.Errorf("when storing notices the loss (-want +got):\n%s", diff)
	}
}

func TestSumsThatSomebodyHasDeletedMayBeStoredAgain(t *testing.T) {
	w := aWorld(t)
	q := w.connect()
	before := w.saveSums(q, "one", 0)
	bucket, err := w.admin.KeyValue(t.Context(), queue.BucketAnalysis)
	if err == nil {
		err = bucket.Delete(t.Context(), run)
	}
	if err != nil {
		t.Fatal(err)
	}
	w.conflicts(q, "in place of deleted ones", before)
	if diff := cmp.Diff(stored{}, w.sums(q)); diff != "" {
		t.Errorf("after they were deleted (-want +got):\n%s", diff)
	}
	w.saveSums(q, "two", 0)
}

func TestSumsSurviveARestartOfTheServer(t *testing.T) {
	w := aWorld(t)
	q := w.connect()
	revision := w.saveSums(q, "one", 0)
	w.server.Close()
	w.start()
	w.until("sums can be read", func(ctx context.Context) error {
		_, _, err := q.LoadSums(ctx, run)
		return err
	})
	if diff := cmp.Diff(stored{"one", revision}, w.sums(q)); diff != "" {
		t.Errorf("after the restart (-want +got):\n%s", diff)
	}
	w.saveSums(q, "two", revision)
}

// NATS has stored the sums, and its answer was lost.
func TestSumsWhoseAnswerIsLostAreStoredOnce(t *testing.T) {
	w := aWorld(t)
	way := aLossy(t, w.server.URL())
	q, err := queue.Connect(t.Context(), queue.Options{URL: "nats://" + way.listener.Addr().String(), User: w.opts.User, Password: w.opts.Password,
		Logger: slog.New(slog.NewTextHandler(w.Output(), nil))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(q.Close)
	way.lose([]byte("KV_" + queue.BucketAnalysis))
	revision := w.saveSums(q, "one", 0)
	if diff := cmp.Diff(stored{"one", revision}, w.sums(w.connect())); diff != "" {
		t.Errorf("sums (-want +got):\n%s", diff)
	}
}

func TestSumsAreBounded(t *testing.T) {
	w := aWorld(t)
	q := w.connect()
	_, err := q.SaveSums(t.Context(), run, make([]byte, 1<<20), 0)
	if !errors.Is(err, queue.ErrSumsTooLarge) || !strings.Contains(err.Error(), "1048576 bytes, and NATS takes 1 MiB at most") {
		t.Errorf("1 MiB: %v", err)
	}
	if revision, err := q.SaveSums(t.Context(), run, make([]byte, queue.MaxSums), 0); err != nil || revision == 0 {
		t.Errorf("as much as is allowed: %v", err)
	}
}

func TestSumsAreKeptForThreeDaysAfterTheLastWrite(t *testing.T) {
	w := aWorld(t)
	w.connect()
	bucket, err := w.admin.KeyValue(t.Context(), queue.BucketAnalysis)
	if err != nil {
		t.Fatal(err)
	}
	status, err := bucket.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if status.TTL() != 72*time.Hour || status.History() != 1 {
		t.Errorf("they are kept for %s, %d of each", status.TTL(), status.History())
	}
}

func TestWhoOnlyLooksIsToldThatItHasNoSums(t *testing.T) {
	w := aWorld(t)
	guest, err := queue.ConnectExisting(t.Context(), queue.Options{URL: w.server.URL(), User: w.opts.User, Password: w.opts.Password})
	if err != nil {
		t.Fatal(err)
	}
	defer guest.Close()
	_, _, reading := guest.LoadSums(t.Context(), run)
	_, storing := guest.SaveSums(t.Context(), run, nil, 0)
	for _, err := range []error{reading, storing} {
		if err == nil || !strings.Contains(err.Error(), "connect with write access") {
			t.Error(err)
		}
	}
}
