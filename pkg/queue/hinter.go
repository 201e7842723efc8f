package queue

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"
	"k8s.io/client-go/util/workqueue"
)

const (
	// hintEvery is the least time between two hints for one key.
	hintEvery = 20 * time.Millisecond
	// hintRetry is the wait after a failed send.
	hintRetry   = time.Second
	hintSenders = 4
)

// Hinter turns a stream of changes into hints. For each key it sends one at once, then at most one per 20 ms, and
// always one after the last change. It remembers the hints that it could not send, and sends them later. Its memory is
// bounded by the number of keys. It is fair between namespaces.
type Hinter struct {
	send func(context.Context, Key) error
	log  *slog.Logger
	keys workqueue.TypedDelayingInterface[Key]

	mu       sync.Mutex
	lastSent map[Key]time.Time
	failing  bool
}

// NewHinter returns a Hinter that sends with the given function, normally [Queue.PublishHint]. The caller must call
// Run, once.
func NewHinter(send func(context.Context, Key) error, log *slog.Logger) *Hinter {
	return &Hinter{
		send: send, log: log, lastSent: map[Key]time.Time{},
		keys: workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[Key]{Queue: newFairQueue(hintSenders, 1)}),
	}
}

// Hint notes that the key needs a run. It never blocks.
func (h *Hinter) Hint(key Key) { h.keys.Add(key) }

// Run sends hints until ctx is done. Then it drops the unsent hints, which a resync of the watcher brings back.
func (h *Hinter) Run(ctx context.Context) {
	stop := context.AfterFunc(ctx, h.keys.ShutDown)
	defer stop()
	var senders sync.WaitGroup
	for range hintSenders + 1 {
		senders.Go(func() {
			for {
				key, shutdown := h.keys.Get()
				if shutdown {
					return
				}
				h.sendOrDelay(ctx, key)
				h.keys.Done(key)
			}
		})
	}
	senders.Wait()
}

func (h *Hinter) sendOrDelay(ctx context.Context, key Key) {
	if ctx.Err() != nil {
		return
	}
	if wait := h.hintDelay(key, time.Now()); wait > 0 {
		h.keys.AddAfter(key, wait)
		return
	}
	err := h.sendHint(ctx, key)
	if err != nil {
		h.keys.AddAfter(key, hintRetry)
	}
	h.mu.Lock()
	changed := h.failing != (err != nil)
	h.failing = err != nil
	h.mu.Unlock()
	if changed && err != nil && ctx.Err() == nil {
		h.log.Warn("hints cannot be sent, trying on", "key", key.String(), "error", err)
	}
	if changed && err == nil {
		h.log.Info("hints are sent again")
	}
}

// sendHint begins the trace of the work that a change causes.
func (h *Hinter) sendHint(ctx context.Context, key Key) (err error) {
	ctx, hint := startSpan(ctx, "hint", trace.SpanKindProducer, key)
	defer func() { endSpan(hint, err) }()
	return h.send(ctx, key)
}

// hintDelay returns how long the key's next hint must wait; zero means that it can be sent now.
func (h *Hinter) hintDelay(key Key, now time.Time) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	if wait := h.lastSent[key].Add(hintEvery).Sub(now); wait > 0 {
		return wait
	}
	if len(h.lastSent) >= 1024 {
		for k, t := range h.lastSent {
			if now.Sub(t) > hintEvery {
				delete(h.lastSent, k)
			}
		}
	}
	h.lastSent[key] = now
	return 0
}
