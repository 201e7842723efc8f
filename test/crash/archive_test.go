package crash

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/nats-io/nats.go/jetstream"

	"sluice.dev/sluice/pkg/queue"
)

// archive has the messages of the stream of events.
type archive struct {
	mu    sync.Mutex
	ids   map[string]bool
	moved chan struct{}
}

// readArchive reads the stream until ctx is done.
func readArchive(ctx context.Context, js jetstream.JetStream) (*archive, error) {
	a := &archive{ids: map[string]bool{}, moved: make(chan struct{})}
	events, err := js.OrderedConsumer(ctx, queue.StreamEvents, jetstream.OrderedConsumerConfig{DeliverPolicy: jetstream.DeliverAllPolicy})
	if err != nil {
		return nil, err
	}
	reading, err := events.Consume(func(m jetstream.Msg) {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.ids[m.Headers().Get("ce-id")] = true
		close(a.moved)
		a.moved = make(chan struct{})
	})
	if err != nil {
		return nil, err
	}
	context.AfterFunc(ctx, reading.Stop)
	return a, nil
}

// await waits until every transition of a Rollout was published.
func (a *archive) await(ctx context.Context, name string, h *history) error {
	ctx, cancel := context.WithTimeout(ctx, *patience)
	defer cancel()
	h.mu.Lock()
	r := h.live.rollout()
	h.mu.Unlock()
	for {
		a.mu.Lock()
		missing, moved := a.missing(string(r.UID), r.Status.Sluice.GetTransitionSeq()), a.moved
		a.mu.Unlock()
		if len(missing) == 0 {
			return nil
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return fmt.Errorf("EveryTransitionPublished: of %d transitions of %s these were not: %s", r.Status.Sluice.GetTransitionSeq(), name, strings.Join(missing, ", "))
		}
	}
}

func (a *archive) missing(uid string, transitions int64) []string {
	var list []string
	for n := int64(1); n <= transitions; n++ {
		if id := fmt.Sprintf("%s/%d", uid, n); !a.ids[id] {
			list = append(list, id)
		}
	}
	return list
}
