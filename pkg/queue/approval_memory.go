package queue

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// ErrApprovalRecordConflict says that the stored record is not the one that the caller knows. The caller reads it
// again.
var ErrApprovalRecordConflict = errors.New("something else is remembered")

// PutApprovalRecord stores the record of one decision in the stream of the decision, and for as long. version is the
// version of the record that it replaces, 0 for no record. If another record is stored, it writes nothing and returns
// [ErrApprovalRecordConflict]. It returns the new version. The id must tell the decisions about a Rollout apart, such
// as [event.DecidedID].
func (q *Queue) PutApprovalRecord(ctx context.Context, key Key, id string, version uint64, body []byte) (uint64, error) {
	var ack *jetstream.PubAck
	err := q.withRecovery(ctx, func(ctx context.Context) (err error) {
		ack, err = q.js.PublishMsg(ctx, &nats.Msg{Subject: approvalRecordSubject(key, id), Data: body},
			jetstream.WithExpectStream(StreamApprovals), jetstream.WithExpectLastSequencePerSubject(version))
		return err
	})
	var refused *jetstream.APIError
	switch {
	case errors.As(err, &refused) && refused.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence:
		return 0, fmt.Errorf("remember decision %s of %s: %w", id, key, ErrApprovalRecordConflict)
	case err != nil:
		return 0, fmt.Errorf("remember decision %s of %s: %w", id, key, err)
	}
	return ack.Sequence, nil
}

// GetApprovalRecord returns the last record of [Queue.PutApprovalRecord] and its version; 0 if no record is stored.
func (q *Queue) GetApprovalRecord(ctx context.Context, key Key, id string) (body []byte, version uint64, err error) {
	err = q.withRecovery(ctx, func(ctx context.Context) error {
		stream, err := q.js.Stream(ctx, StreamApprovals)
		if err != nil {
			return err
		}
		m, err := stream.GetLastMsgForSubject(ctx, approvalRecordSubject(key, id))
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			return nil
		}
		if err == nil {
			body, version = m.Data, m.Sequence
		}
		return err
	})
	if err != nil {
		return nil, 0, fmt.Errorf("recall decision %s of %s: %w", id, key, err)
	}
	return body, version, nil
}

// approvalRecordSubject has one token more than the subjects that senders may publish to, so no sender can write there. The id tells records about a Rollout
// and a FleetRollout of the same name apart.
func approvalRecordSubject(key Key, id string) string {
	return approvalPrefix + key.rolloutTokens() + ".memory." + PrincipalToken(id)
}
