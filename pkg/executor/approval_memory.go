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

// approvalStore holds the record of one approval from its earlier deliveries to any executor. The status decides; the record only prevents that an approval
// that was refused, or bound to one pause, applies to a later pause. If the record is lost, the status and the time of an approval still exclude old approvals.
type approvalStore struct {
	queue   *queue.Queue
	key     queue.Key
	id      string
	version uint64
}

// approvalRecord holds either the pause that an approval is bound to, or the answer to the approval.
type approvalRecord struct {
	Pause  *rollout.Pause `json:"pause,omitempty"`
	Answer *event.Decided `json:"answer,omitempty"`
	At     time.Time      `json:"at"`
}

// putRecord stores a record. was is the record that another delivery stored first; it is nil when s was stored.
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

// putAnswer stores the answer, and replaces a recorded pause.
func (m *approvalStore) putAnswer(ctx context.Context, s approvalRecord) error {
	was, err := m.putRecord(ctx, s)
	if err == nil && was != nil && was.Answer == nil {
		_, err = m.putRecord(ctx, s)
	}
	return err
}
