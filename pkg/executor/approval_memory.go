package executor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"sluice.dev/sluice/pkg/event"
	"sluice.dev/sluice/pkg/queue"
	"sluice.dev/sluice/pkg/rollout"
)

// approvalStore is what is known about one approval from earlier deliveries of it, by any executor. What counts is the status; this only
// keeps an approval that was once refused, or taken for one pause, from counting later for another one. If it is lost, what is in
// the status and the times of an approval still keep old ones out.
type approvalStore struct {
	queue   *queue.Queue
	key     queue.Key
	id      string
	version uint64
}

// approvalRecord is one of two: the pause that an approval was taken for, or the answer to it.
type approvalRecord struct {
	Pause  *rollout.Pause `json:"pause,omitempty"`
	Answer *event.Decided `json:"answer,omitempty"`
	At     time.Time      `json:"at"`
}

// putRecord remembers a sight; was is what somebody else has remembered instead.
func (m *approvalStore) putRecord(ctx context.Context, s approvalRecord) (was *approvalRecord, err error) {
	body, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("encode approval record: %w", err)
	}
	version, err := m.queue.PutApprovalRecord(ctx, m.key, m.id, m.version, body)
	if err == nil {
		m.version = version
		return nil, nil
	}
	if !errors.Is(err, queue.ErrApprovalRecordConflict) {
		return nil, err
	}
	if body, m.version, err = m.queue.GetApprovalRecord(ctx, m.key, m.id); err != nil {
		return nil, err
	}
	was = &approvalRecord{}
	if err := json.Unmarshal(body, was); err != nil || was.Pause == nil && was.Answer == nil {
		return nil, fmt.Errorf("decode approval record: %w", errors.Join(errors.New("it is neither a pause nor an answer"), err))
	}
	return was, nil
}

// putAnswer remembers the answer, in place of the pause if that is remembered.
func (m *approvalStore) putAnswer(ctx context.Context, s approvalRecord) error {
	was, err := m.putRecord(ctx, s)
	if err == nil && was != nil && was.Answer == nil {
		_, err = m.putRecord(ctx, s)
	}
	return err
}
