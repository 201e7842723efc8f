package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"sluice.dev/sluice/pkg/fleetmessage"
)

// Names of streams and buckets in NATS.
const (
	StreamWork      = "SLUICE_WORK"
	StreamEvents    = "SLUICE_EVENTS"
	StreamApprovals = "SLUICE_APPROVALS"
	StreamDead      = "SLUICE_DLQ"
	// Only the NATS of a hub has the next two.
	StreamFleetDown = "SLUICE_FLEET_DOWN"
	StreamFleetUp   = "SLUICE_FLEET_UP"
	BucketLease     = "sluice_lease"
	BucketAnalysis  = "sluice_analysis"
)

// advisories is the subject on which NATS reports that a hint was delivered too often.
const advisories = "$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES." + StreamWork + "."

const (
	leaseTTL = 6 * time.Second
	// keepEvents is how long NATS keeps events, decisions and dead letters.
	keepEvents = 7 * 24 * time.Hour
	// keepLetters is how many letters of one key are kept; the newest has everything.
	keepLetters = 10
	// gatherBound is how long servers may take to become a cluster.
	gatherBound = 30 * time.Second
	gatherRetry = 250 * time.Millisecond
	// headerRoom is what the headers of a message need beside its content. NATS counts both.
	headerRoom = 1 << 10
	// deletionEnds is long enough for a server to remove a stream's files.
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
	streams := []jetstream.StreamConfig{
		{
			// Only hints and timers are in this stream: a user that may publish a schedule to one of its subjects can
			// reach all of them.
			Name: StreamWork, Description: "Hints to look at a rollout, and its timers",
			Subjects: []string{workPrefix + ">", timerPrefix + ">", measurePrefix + ">", tickPrefix + ">", fleetWorkPrefix + ">", fleetTimerPrefix + ">"}, Replicas: q.replicas,
			Storage: jetstream.FileStorage, Retention: jetstream.WorkQueuePolicy,
			MaxMsgsPerSubject: 1, Discard: jetstream.DiscardOld,
			// Schedules imply roll-ups. They are set here too, so that an update compares equal.
			AllowMsgSchedules: true, AllowRollup: true,
		},
		archive(StreamEvents, "Events of releases", eventPrefix+">", fleetEventPrefix+">"),
		archive(StreamApprovals, "Decisions from outside", approvalPrefix+">", fleetRequestPrefix+">"),
		dead,
	}
	if q.hub.Load() {
		states := func(name, about, subjects string) jetstream.StreamConfig {
			return jetstream.StreamConfig{
				Name: name, Description: about, Subjects: []string{subjects}, Replicas: q.replicas, Storage: jetstream.FileStorage,
				MaxMsgsPerSubject: 1, Discard: jetstream.DiscardOld, MaxMsgSize: fleetmessage.MaxSize + headerRoom, AllowDirect: true,
			}
		}
		streams = append(streams, states(StreamFleetDown, "The last order of the hub to each cluster about each Rollout", fleetmessage.OrderSubjects("*")),
			states(StreamFleetUp, "The last answer of each cluster about each Rollout", fleetmessage.AnswerSubjects("*")))
	}
	return streams
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

// applyStreams creates or updates all streams and buckets. Several processes may do so at once. It does not write to
// streams that are up to date. It gives servers that have just started the time to find each other.
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

// isGathering reports whether the servers of a cluster do not know each other yet.
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

// WorkStreamCreated returns the creation time of the stream of work. If it changes, the stream was lost in between with
// all hints and timers, and each sender of hints must send them again.
func (q *Queue) WorkStreamCreated(ctx context.Context) (time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	stream, err := q.js.Stream(ctx, StreamWork)
	if err != nil {
		return time.Time{}, fmt.Errorf("ask when stream %s was made: %w", StreamWork, err)
	}
	return stream.CachedInfo().Created, nil
}

// ensureStreams creates missing streams again. It does not touch existing streams. If a NATS server creates or updates
// a stream while it deletes the stream, the result may be a stream that takes messages and never answers. The exception
// is a stream that lacks a subject, because a process of an older version has set its own configuration. A caller that
// comes during such a repair waits for its end.
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

// ensureStream returns the configuration of the stream if it exists.
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
	// For the same reason it waits for the end of a deletion under way.
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

// withRecovery runs do until it succeeds, for at most requestTimeout. It creates missing streams again. It asks again
// if no answer comes, because the server may have died. So do may run twice, and the first reply may be lost.
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

// withAnswerTimeout bounds one attempt.
func withAnswerTimeout(ctx context.Context, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	return do(ctx)
}

// isGone reports whether a stream, bucket or consumer does not exist, or no longer exists.
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
