package executor

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/history"
	"sluice.dev/sluice/pkg/kube"
	"sluice.dev/sluice/pkg/kube/apiclient"
	"sluice.dev/sluice/pkg/rollout"
)

// DefaultHistoryLimit is the number of releases of a Rollout that keep a record by default.
const DefaultHistoryLimit = 10

// historian records releases as RolloutHistory objects while runs carry the releases out. No run waits for a record, and no run fails with one.
//
// The historian builds records from statuses, mainly from their outboxes. It creates a record when the release begins and completes the record when the release
// ends. In between, it updates the record [recordAfter] after a change. If a process dies before it writes a record, the next process builds the record from
// the status. Times of steps get lost only if a release passes several steps while no process records; the record then says so.
type historian struct {
	kube  *kube.Client
	limit int
	clock func() time.Time
	log   *slog.Logger
	names workqueue.TypedRateLimitingInterface[string] // UIDs of Rollouts; nil before startRecording

	mu      sync.Mutex
	entries map[string]*historyEntry
	// progress holds the recorded progress of Rollouts without an entry. The historian may forget it.
	progress map[string]recordProgress
	// reported holds the problems that the historian has logged.
	reported map[string]bool
}

// recordProgress holds the latest recorded transition of a Rollout, and the latest release with a complete record.
type recordProgress struct{ seq, ended int64 }

// historyEntry is the state of a Rollout whose releases are being recorded.
type historyEntry struct {
	builder history.Builder
	key     types.NamespacedName
	// latestObjects holds the objects of the Rollout now, and firstObjects holds them at the begin of each release.
	latestObjects kube.HistoryObjects
	firstObjects  map[int64]kube.HistoryObjects
	begunHere     map[int64]bool // releases whose begin this process observed: no other process can have recorded them
	deleting      bool
	releasing     bool
	ended         int64 // the latest release with a complete record, as far as this process knows
	reportedEpoch int64 // the latest release with an Event about its record
	// records holds the records as this process wrote or read them last. Only the worker that has the UID uses them.
	records map[int64]*api.RolloutHistory
}

const (
	// maxRemembered bounds the memory of which records are written.
	maxRemembered = 20_000
	// recordAfter is the longest time that a record lags behind its release.
	recordAfter = 30 * time.Second
	// recordedAge is the age of an ended release from which a process assumes that the record is complete. Otherwise each executor would search for the record
	// of each Rollout after its start.
	recordedAge = 24 * time.Hour
	// recordCheckWindow is the age of an ended release from which its record has been checked. A watcher resyncs all Rollouts once in each `--resync` interval,
	// ten minutes by default.
	recordCheckWindow = 15 * time.Minute
	// recorders is the number of records written in parallel.
	recorders = 4
	// shutdownGrace is the longest time for writing records when the process stops.
	shutdownGrace = 5 * time.Second

	firstRetry, slowestRetry = time.Second, 5 * time.Minute
)

func newHistorian(o Options) *historian {
	return &historian{
		kube: o.Kube, limit: o.HistoryLimit, clock: o.Clock, log: o.Logger,
		entries: map[string]*historyEntry{}, progress: map[string]recordProgress{}, reported: map[string]bool{},
	}
}

// startRecording writes records until the caller calls stop, after the last run.
func (h *historian) startRecording(ctx context.Context) (stop func()) {
	if h.limit <= 0 {
		return func() {}
	}
	h.names = workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[string](firstRetry, slowestRetry))
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var running sync.WaitGroup
	for range recorders {
		running.Go(func() { h.runWorker(ctx) })
	}
	return func() {
		h.names.ShutDown()
		defer time.AfterFunc(shutdownGrace, cancel).Stop()
		running.Wait()
		for _, uid := range slices.Collect(maps.Keys(h.entries)) { // all runs have ended, so no run changes entries
			if err := h.writeRecords(ctx, uid); err != nil {
				h.log.Warn("record a release before the end; the next executor does", "rollout", uid, "error", err)
			}
		}
		cancel()
	}
}

func (h *historian) runWorker(ctx context.Context) {
	for {
		uid, shutdown := h.names.Get()
		if shutdown {
			return
		}
		if err := h.writeRecords(ctx, uid); err != nil {
			h.reportError(uid, err)
			h.names.AddRateLimited(uid)
		} else {
			h.names.Forget(uid)
		}
		h.names.Done(uid)
	}
}

// observeSnapshot passes the status that a run observed or committed to the record builder.
func (h *historian) observeSnapshot(snap *kube.Snapshot) {
	seen := snap.Seen
	m := seen.Status.Sluice
	if h.names == nil || m == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	t, following := h.entries[seen.UID]
	if !following {
		before, known := h.progress[seen.UID]
		if known && before.seq == m.TransitionSeq {
			return
		}
		t = &historyEntry{builder: history.BuilderAfter(before.seq), ended: before.ended, key: types.NamespacedName{Namespace: seen.Namespace, Name: seen.Name},
			firstObjects: map[int64]kube.HistoryObjects{}, begunHere: map[int64]bool{}, records: map[int64]*api.RolloutHistory{}}
		following = known
	}
	news := t.builder.ObserveRollout(seen)
	t.latestObjects, t.deleting, t.releasing = snap.HistoryObjects(), seen.Deleting, rollout.State(m.State).Releasing()
	if news.Begun {
		t.firstObjects[m.Epoch], t.begunHere[m.Epoch] = t.latestObjects, following
	}
	h.entries[seen.UID] = t
	switch {
	case h.dropIfDone(seen.UID, t):
	case news.Begun || news.Ended:
		h.names.Add(seen.UID)
	case news.Any:
		h.names.AddAfter(seen.UID, recordAfter)
	}
}

// dropIfDone removes an entry that has nothing left to write and no release under way. The caller holds mu.
func (h *historian) dropIfDone(uid string, t *historyEntry) bool {
	if h.entries[uid] != t || t.releasing || !t.builder.NothingToRecord() {
		return false
	}
	if len(h.progress) > maxRemembered {
		clear(h.progress)
	}
	delete(h.entries, uid)
	h.progress[uid] = recordProgress{seq: t.builder.LastObserved(), ended: t.ended}
	return true
}

// reportError reports a problem that a user must fix: once in the log, and as one Kubernetes Event for each release. It only logs temporary errors.
func (h *historian) reportError(uid string, err error) {
	problem, ok := apiclient.ProblemOf(err)
	h.mu.Lock()
	t := h.entries[uid]
	if t == nil {
		h.mu.Unlock()
		return
	}
	logged, releases := h.reported[problem.Message], t.builder.ReleasesToRecord()
	if ok && len(h.reported) < maxRemembered {
		h.reported[problem.Message] = true
	}
	shown := len(releases) == 0 || t.reportedEpoch >= releases[len(releases)-1]
	if ok && !shown {
		t.reportedEpoch = releases[len(releases)-1]
	}
	h.mu.Unlock()
	switch {
	case apiclient.RetryAfter(err) > 0: // the API server asks clients to wait, for example while it installs a new kind
		h.log.Debug("record a release later", "namespace", t.key.Namespace, "rollout", t.key.Name, "error", err)
		return
	case !ok:
		h.log.Warn("record a release; the executor retries it", "namespace", t.key.Namespace, "rollout", t.key.Name, "error", err)
		return
	case !logged:
		h.log.Warn("cannot record releases", "namespace", t.key.Namespace, "rollout", t.key.Name, "problem", problem.Message)
	}
	if !shown {
		h.kube.RecordOnKey(t.key, true, "HistoryNotWritten", problem.Message)
	}
}
