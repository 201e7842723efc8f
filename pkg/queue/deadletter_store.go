package queue

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// ErrNoDeadLetter says that a key has no dead letter.
var ErrNoDeadLetter = errors.New("there is no dead letter about it")

// ListDeadLetters returns the newest dead letter of each task and Rollout in a cluster and a namespace, in order of
// their names. An empty argument means all.
func (q *Queue) ListDeadLetters(ctx context.Context, cluster, namespace string) ([]DeadLetter, error) {
	found, _, err := q.readDeadLetters(ctx, keyScope{cluster: cluster, namespace: namespace, tasks: []string{TaskRelease, TaskAnalysis, TaskRouting, TaskFleet}})
	return found, err
}

// GetDeadLetter returns the newest dead letter about a key, or ErrNoDeadLetter.
func (q *Queue) GetDeadLetter(ctx context.Context, key Key) (DeadLetter, error) {
	found, _, err := q.deadLettersOf(ctx, key)
	if err != nil {
		return DeadLetter{}, err
	}
	return found[0], nil
}

// RetryDeadLetter retries the work of a dead letter, and removes the letters about it. A process whose run fails again
// writes a new letter. The error is ErrNoDeadLetter if the key has no letter.
func (q *Queue) RetryDeadLetter(ctx context.Context, key Key) error {
	_, told, err := q.deadLettersOf(ctx, key)
	if err != nil {
		return err
	}
	// If this process dies in between, the work is retried and the letter remains.
	if err := q.PublishHint(ctx, key); err != nil {
		return fmt.Errorf("retry: %w", err)
	}
	if err := q.purgeDeadLetters(ctx, key, told...); err != nil {
		return fmt.Errorf("retry %s: it is retried, but its letter stays: %w", key, err)
	}
	return nil
}

func (q *Queue) deadLettersOf(ctx context.Context, key Key) (found []DeadLetter, told []uint64, err error) {
	if err := key.Validate(); err != nil {
		return nil, nil, fmt.Errorf("dead letter: %w", err)
	}
	found, told, err = q.readDeadLetters(ctx, keyScopeOf(key))
	if err == nil && len(found) == 0 {
		err = fmt.Errorf("dead letter of %s: %w", key, ErrNoDeadLetter)
	}
	return found, told, err
}

// readDeadLetters also returns the sequence numbers of the advisories of NATS about the work in the letters.
func (q *Queue) readDeadLetters(ctx context.Context, of keyScope) (list []DeadLetter, told []uint64, err error) {
	subjects, err := of.deadSubjects()
	if err != nil {
		return nil, nil, fmt.Errorf("read dead letters: %w", err)
	}
	letters := map[Key]DeadLetter{}
	err = q.withRecovery(ctx, func(ctx context.Context) error {
		clear(letters)
		told = nil
		if err := q.readAdvisories(ctx, func(l DeadLetter, seq uint64) {
			if of.includesKey(l.Key) {
				letters[l.Key], told = l, append(told, seq)
			}
		}); err != nil {
			return err
		}
		return q.scanDeadStream(ctx, subjects, jetstream.DeliverLastPerSubjectPolicy, func(m jetstream.Msg) {
			if l, err := decodeDeadLetter(m); err != nil {
				q.log.Warn("passing over a dead letter that cannot be read", "subject", m.Subject(), "error", err)
			} else {
				letters[l.Key] = l
			}
		})
	})
	if err != nil {
		return nil, nil, fmt.Errorf("read dead letters: %w", err)
	}
	list = slices.SortedFunc(maps.Values(letters), func(a, b DeadLetter) int {
		return cmp.Or(cmp.Compare(a.Key.Cluster, b.Key.Cluster), cmp.Compare(a.Key.Namespace, b.Key.Namespace),
			cmp.Compare(a.Key.Name, b.Key.Name), cmp.Compare(a.Key.Task, b.Key.Task))
	})
	return list, told, nil
}

// keyScope is a set of keys. It has the keys of its tasks that match all of its words that are not empty.
type keyScope struct {
	cluster, namespace, name string
	tasks                    []string
}

func keyScopeOf(key Key) keyScope {
	return keyScope{key.Cluster, key.Namespace, key.Name, []string{key.Task}}
}

func (s keyScope) includesKey(k Key) bool {
	return (s.cluster == "" || s.cluster == k.Cluster) && (s.namespace == "" || s.namespace == k.Namespace) &&
		(s.name == "" || s.name == k.Name) && slices.Contains(s.tasks, k.Task)
}

// deadSubjects returns the subjects of all letters about the keys.
func (s keyScope) deadSubjects() (subjects []string, err error) {
	var tokens []string
	for _, part := range []string{s.cluster, s.namespace, s.name} {
		if part == "" {
			tokens = append(tokens, "*")
			continue
		}
		if err := validName(part); err != nil {
			return nil, fmt.Errorf("%q: %w", part, err)
		}
		tokens = append(tokens, subjectToken(part))
	}
	for _, task := range s.tasks {
		subject := deadPrefix + strings.Join(tokens, ".")
		if task != TaskRelease {
			subject += "." + task
		}
		subjects = append(subjects, subject)
	}
	return subjects, nil
}

// decodeDeadLetter reads a letter; its subject names the key.
func decodeDeadLetter(m jetstream.Msg) (DeadLetter, error) {
	var l DeadLetter
	if err := json.Unmarshal(m.Data(), &l); err != nil {
		return l, err
	}
	var err error
	l.Key, err = ParseSubject(m.Subject())
	return l, err
}

// readAdvisories reads the advisories of NATS, which are about work whose processes all died before they could write a
// letter. An advisory names a message only by its sequence number. If the message no longer exists, it was replaced or
// handled, and the advisory is ignored.
func (q *Queue) readAdvisories(ctx context.Context, each func(l DeadLetter, seq uint64)) error {
	work, err := q.js.Stream(ctx, StreamWork)
	if err != nil {
		return err
	}
	var told []jetstream.Msg
	if err := q.scanDeadStream(ctx, []string{advisories + ">"}, jetstream.DeliverAllPolicy, func(m jetstream.Msg) { told = append(told, m) }); err != nil {
		return err
	}
	for _, m := range told {
		var a struct {
			Seq        uint64    `json:"stream_seq"`
			Deliveries uint64    `json:"deliveries"`
			Time       time.Time `json:"timestamp"`
		}
		meta, err := m.Metadata()
		if err != nil || json.Unmarshal(m.Data(), &a) != nil {
			continue
		}
		hint, err := work.GetMsg(ctx, a.Seq)
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			continue
		}
		if err != nil {
			return err
		}
		if key, err := ParseSubject(hint.Subject); err == nil {
			each(DeadLetter{Key: key, Reason: Abandoned, Error: abandonedMessage(key.Task), Attempts: a.Deliveries, Since: hint.Time, Time: a.Time}, meta.Sequence.Stream)
		}
	}
	return nil
}

// scanDeadStream reads the current content of the stream of dead letters.
func (q *Queue) scanDeadStream(ctx context.Context, subjects []string, policy jetstream.DeliverPolicy, each func(jetstream.Msg)) error {
	c, err := q.js.CreateConsumer(ctx, StreamDead, jetstream.ConsumerConfig{
		FilterSubjects: subjects, DeliverPolicy: policy, AckPolicy: jetstream.AckNonePolicy,
		MemoryStorage: true, Replicas: 1, InactiveThreshold: readerIdle,
	})
	if err != nil {
		return err
	}
	defer func() {
		// The server soon removes a consumer that remains.
		_ = q.js.DeleteConsumer(context.WithoutCancel(ctx), StreamDead, c.CachedInfo().Name)
	}()
	for left := c.CachedInfo().NumPending; left > 0; {
		batch, err := c.Fetch(int(min(left, 256)), jetstream.FetchMaxWait(fetchWait))
		if err != nil {
			return err
		}
		before := left
		for m := range batch.Messages() {
			each(m)
			left--
		}
		if err := batch.Error(); err != nil {
			return err
		}
		if left == before {
			return nil // letters were removed in the meantime
		}
	}
	return nil
}

// keysWithDeadLetters returns the keys of a scope that have dead letters.
func (q *Queue) keysWithDeadLetters(ctx context.Context, of keyScope) (map[Key]bool, error) {
	subjects, err := of.deadSubjects()
	if err != nil {
		return nil, fmt.Errorf("read subjects of dead letters: %w", err)
	}
	stream, err := q.js.Stream(ctx, StreamDead)
	if err != nil {
		return nil, fmt.Errorf("read subjects of dead letters: %w", err)
	}
	keys := map[Key]bool{}
	for _, filter := range subjects {
		info, err := stream.Info(ctx, jetstream.WithSubjectFilter(filter))
		if err != nil {
			return nil, fmt.Errorf("read subjects of dead letters: %w", err)
		}
		for subject := range info.State.Subjects {
			if key, err := ParseSubject(subject); err == nil {
				keys[key] = true
			}
		}
	}
	return keys, nil
}

// purgeDeadLetters removes the letters about a key, and the advisories with the given sequence numbers.
func (q *Queue) purgeDeadLetters(ctx context.Context, key Key, told ...uint64) error {
	stream, err := q.js.Stream(ctx, StreamDead)
	if err == nil {
		err = stream.Purge(ctx, jetstream.WithPurgeSubject(key.DeadLetterSubject()))
	}
	for _, seq := range told {
		if err == nil {
			err = stream.DeleteMsg(ctx, seq)
		}
	}
	if err != nil && !errors.Is(err, jetstream.ErrMsgNotFound) {
		return fmt.Errorf("remove dead letters of %s: %w", key, err)
	}
	return nil
}
