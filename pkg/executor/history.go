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

// DefaultHistoryLimit is how many releases of a Rollout are kept on record unless somebody says otherwise.
const DefaultHistoryLimit = 10

// historian records releases as RolloutHistory objects, beside the runs that carry them out: no run waits for it, and none fails with it.
//
// What is written is told from what statuses hold, most of all their outboxes. A record is made when its release begins and completed
// when that ends. In between it is written only if the release rests for [recordAfter]. What a process has not written when it dies, the next
// one finds in the status; only of releases that rush on while nobody records, times of steps can get lost, and the record says so.
type historian struct {
	kube  *kube.Client
	limit int
	clock func() time.Time
	log   *slog.Logger
	names workqueue.TypedRateLimitingInterface[string] // UIDs of Rollouts; nil until it starts

	mu      sync.Mutex
	entries map[string]*historyEntry
	// progress is what was recorded of Rollouts without a tale, as far as remembered.
	progress map[string]recordProgress
	// reported are the problems that were logged.
	reported map[string]bool
}

// recordProgress is the latest transition that was recorded of a Rollout, and the latest release that was recorded up to its end.
type recordProgress struct{ seq, ended int64 }

// historyEntry is what is known of a Rollout whose releases are being recorded.
type historyEntry struct {
	builder history.Builder
	key     types.NamespacedName
	// latestObjects shows the objects now, and first as they were when a release began.
	latestObjects kube.HistoryObjects
	firstObjects  map[int64]kube.HistoryObjects
	begunHere     map[int64]bool // releases that began before the eyes of this process: nobody else can have recorded them
	deleting      bool
	releasing     bool
	ended         int64 // the latest release that was recorded up to its end, as far as this process knows
	reportedEpoch int64 // the latest release about whose record there was an Event
	// records are as they were written last. Only the worker that has the UID uses them.
	records map[int64]*api.RolloutHistory
}

const (
	// recordAfter is how long a record may be behind its release.
	recordAfter = 30 * time.Second
	// recordedAge is how long ago a release ended that is taken for recorded by whoever sees it for the first time. Without this, each
	// executor would look for the record of each Rollout after its start.
	recordedAge = 24 * time.Hour
	// recordCheckWindow is how long ago a release ended whose record somebody has seen to since: every `--resync` of a watcher, ten minutes unless
	// somebody says otherwise, all Rollouts are looked at.
	recordCheckWindow = 15 * time.Minute
	// recorders is how many records are written at once.
	recorders = 4
	// shutdownGrace is how long the records may take that are written when the process stops.
	shutdownGrace = 5 * time.Second

	firstRetry, slowestRetry = time.Second, 5 * time.Minute
)

func newHistorian(o Options) *historian {
	return &historian{
		kube: o.Kube, limit: o.HistoryLimit, clock: o.Clock, log: o.Logger,
		entries: map[string]*historyEntry{}, progress: map[string]recordProgress{}, reported: map[string]bool{},
	}
}

// startRecording writes records until stop is called, which is after the last run.
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
		for _, uid := range slices.Collect(maps.Keys(h.entries)) { // no run is left that could change them
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

// observeSnapshot takes in what a run sees, and what it has committed.
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

// dropIfDone lets go of a tale of which nothing is left to write and nothing more to come. The caller has mu.
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

// reportError tells what a person must mend: in the log once, and as a Kubernetes Event once a release. What passes by itself is only logged.
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
	case apiclient.RetryAfter(err) > 0: // the API server asked to be left alone for a moment, as while it takes in a new kind
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
