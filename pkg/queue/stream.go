package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Names in NATS.
const (
	StreamWork      = "SLUICE_WORK"
	StreamEvents    = "SLUICE_EVENTS"
	StreamApprovals = "SLUICE_APPROVALS"
	StreamDead      = "SLUICE_DLQ"
	BucketLease     = "sluice_lease"
	BucketAnalysis  = "sluice_analysis"
)

// advisories is where NATS tells that a hint was delivered too often.
const advisories = "$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES." + StreamWork + "."

const (
	leaseTTL = 6 * time.Second
	// keepEvents is how long events, decisions and dead letters can be read.
	keepEvents = 7 * 24 * time.Hour
	// keepLetters is how many of one key are kept: the newest says it all.
	keepLetters = 10
	// gatherBound is how long servers may take to become a cluster.
	gatherBound = 30 * time.Second
	gatherRetry = 250 * time.Millisecond
	// deletionEnds is ample for a server to remove a stream's files.
	deletionEnds = 100 * time.Millisecond
)

func (q *Queue) streamConfigs() []jetstream.StreamConfig {
	archive := func(name, about string, subjects ...string) jetstream.StreamConfig {
		return jetstream.StreamConfig{
			Name: name, Description: about, Subjects: subjects, Replicas: q.replicas,
			Storage: jetstream.FileStorage, MaxAge: keepEvents, Duplicates: 10 * time.Minute,
		}
	}
	dead := archive(StreamDead, "Work that no run survived or that keeps failing", deadPrefix+">", advisories+">")
	dead.MaxMsgsPerSubject = keepLetters
	return []jetstream.StreamConfig{
		{
			// The stream has hints and timers and nothing else: a client that may publish a schedule to one of its subjects can reach all of them.
			Name: StreamWork, Description: "Hints to look at a rollout, and its timers",
			Subjects: []string{workPrefix + ">", timerPrefix + ">", measurePrefix + ">", tickPrefix + ">"}, Replicas: q.replicas,
			Storage: jetstream.FileStorage, Retention: jetstream.WorkQueuePolicy,
			MaxMsgsPerSubject: 1, Discard: jetstream.DiscardOld,
			// Schedules bring roll-ups with them; written out, so that an update
			// compares equal.
			AllowMsgSchedules: true, AllowRollup: true,
		},
		archive(StreamEvents, "Events of releases", eventPrefix+">"),
		archive(StreamApprovals, "Decisions from outside", approvalPrefix+">"),
		dead,
	}
}

func (q *Queue) bucketConfigs() []jetstream.KeyValueConfig {
	bucket := func(name, about string, ttl time.Duration) jetstream.KeyValueConfig {
		return jetstream.KeyValueConfig{
			Bucket: name, Description: about, TTL: ttl, History: 1, Storage: jetstream.FileStorage, Replicas: q.replicas,
		}
	}
	return []jetstream.KeyValueConfig{
		bucket(BucketLease, "Leases of executors on rollouts", leaseTTL),
		bucket(BucketAnalysis, "State of analyses", sumsTTL),
	}
}

// applyStreams creates all streams and buckets, or updates them. Several processes may do so at once. It writes nothing to those that are up to
// date. It gives servers that have just started time to find each other.
func (q *Queue) applyStreams(ctx context.Context) error {
	until := time.Now().Add(gatherBound)
	for {
		err := q.applyStreamsOnce(ctx)
		if !isGathering(err) || time.Now().After(until) {
			return err
		}
		if closedWithin(ctx.Done(), gatherRetry) {
			return err
		}
	}
}

// isGathering says that the servers of a cluster do not know each other yet.
func isGathering(err error) bool {
	const noSuitablePeers, temporarilyUnavailable = 10005, 10008
	var refused *jetstream.APIError
	return errors.As(err, &refused) && (refused.ErrorCode == noSuitablePeers || refused.ErrorCode == temporarilyUnavailable)
}

func (q *Queue) applyStreamsOnce(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	for _, cfg := range q.streamConfigs() {
		_, err := q.js.CreateStream(ctx, cfg)
		if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
			_, err = q.js.UpdateStream(ctx, cfg)
		}
		if err != nil {
			return fmt.Errorf("make stream %s: %w", cfg.Name, err)
		}
	}
	for _, cfg := range q.bucketConfigs() {
		kv, err := q.js.CreateKeyValue(ctx, cfg)
		if errors.Is(err, jetstream.ErrBucketExists) {
			kv, err = q.js.UpdateKeyValue(ctx, cfg)
		}
		if err != nil {
			return fmt.Errorf("make bucket %s: %w", cfg.Bucket, err)
		}
		switch cfg.Bucket {
		case BucketLease:
			q.leases = kv
		case BucketAnalysis:
			q.sums = kv
		}
	}
	return nil
}

// WorkStreamCreated is when the stream of work was made. Another one than before means
// that the stream was lost meanwhile, and with it all hints and timers: who has
// given hints gives them again.
func (q *Queue) WorkStreamCreated(ctx context.Context) (time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	stream, err := q.js.Stream(ctx, StreamWork)
	if err != nil {
		return time.Time{}, fmt.Errorf("ask when stream %s was made: %w", StreamWork, err)
	}
	return stream.CachedInfo().Created, nil
}

// ensureStreams creates missing streams again. It leaves existing ones alone: a NATS server that gets a request to create or update a stream while
// it deletes the stream may keep one that takes messages and never answers. The exception is a stream that lacks a subject: a process of an older
// version has updated it.
//
// A caller that comes while another call is under way waits for that call.
func (q *Queue) ensureStreams(ctx context.Context) error {
	done := q.ensuring.DoChan("", func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), requestTimeout)
		defer cancel()
		return nil, q.ensureAllStreams(ctx)
	})
	select {
	case result := <-done:
		return result.Err
	case <-ctx.Done():
		return fmt.Errorf("make streams again: %w", ctx.Err())
	}
}

func (q *Queue) ensureAllStreams(ctx context.Context) error {
	for _, cfg := range q.streamConfigs() {
		there, err := q.ensureStream(ctx, cfg.Name, func() error {
			_, err := q.js.CreateStream(ctx, cfg)
			return err
		})
		if err == nil && there != nil && lacksSubject(there.Subjects, cfg.Subjects) {
			_, err = q.js.UpdateStream(ctx, cfg)
		}
		if err != nil {
			return err
		}
	}
	for _, cfg := range q.bucketConfigs() {
		if _, err := q.ensureStream(ctx, "KV_"+cfg.Bucket, func() error {
			_, err := q.js.CreateKeyValue(ctx, cfg)
			return err
		}); err != nil {
			return err
		}
	}
	return nil
}

func lacksSubject(have, want []string) bool {
	return slices.ContainsFunc(want, func(s string) bool { return !slices.Contains(have, s) })
}

// ensureStream returns the configuration of the stream if it is there.
func (q *Queue) ensureStream(ctx context.Context, name string, create func() error) (*jetstream.StreamConfig, error) {
	var there *jetstream.StreamConfig
	err := withAnswerTimeout(ctx, func(ctx context.Context) error {
		stream, err := q.js.Stream(ctx, name)
		if err == nil {
			there = &stream.CachedInfo().Config
		}
		return err
	})
	if !errors.Is(err, jetstream.ErrStreamNotFound) {
		return there, err
	}
	// For the same reason: let a deletion under way come to its end.
	select {
	case <-time.After(deletionEnds):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if err := create(); err != nil && !errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
		return nil, fmt.Errorf("make stream %s again: %w", name, err)
	}
	q.log.Warn("a stream was missing in NATS and has been made again", "stream", name)
	return nil, nil
}

// withRecovery runs do until it works, for at most requestTimeout. It creates missing streams again, and retries when no server answers, because the
// server may have died of the request. So do may run twice, and the first reply is lost.
func (q *Queue) withRecovery(ctx context.Context, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	for mended := false; ; {
		err := withAnswerTimeout(ctx, do)
		if isGone(err) && !mended {
			if q.existingOnly {
				return fmt.Errorf("%w; the streams of Sluice are not on this NATS: check its address and account, and that a watcher or an executor runs with them", err)
			}
			mended = true
			if mending := withAnswerTimeout(ctx, q.ensureStreams); mending != nil {
				err, mended = mending, false
			} else {
				continue
			}
		}
		if err == nil || ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, nats.ErrTimeout) {
			return err
		}
	}
}

// withAnswerTimeout gives one attempt its time.
func withAnswerTimeout(ctx context.Context, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	return do(ctx)
}

// isGone says that a stream, bucket or consumer does not exist (any more).
func isGone(err error) bool {
	for _, gone := range []error{
		jetstream.ErrNoStreamResponse, jetstream.ErrStreamNotFound, jetstream.ErrConsumerNotFound,
		jetstream.ErrConsumerDeleted, jetstream.ErrBucketNotFound, nats.ErrNoResponders,
	} {
		if errors.Is(err, gone) {
			return true
		}
	}
	return false
}
