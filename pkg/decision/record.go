package decision

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"sluice.dev/sluice/pkg/event"
	"sluice.dev/sluice/pkg/queue"
)

// record is what earlier deliveries of a request to any process have left: either the pause that it is bound to, or its answer. The status of the object
// decides; the record only prevents that a request that was refused, or bound to one pause, applies to a later pause. If the record is lost, the status and
// the time of the request still exclude old requests.
type record[P any] struct {
	Pause  *P             `json:"pause,omitempty"`
	Answer *event.Decided `json:"answer,omitempty"`
	At     time.Time      `json:"at"`
}

// putRecord stores a record. was is the record that another delivery stored first; it is nil when s was stored.
func (r *Request[P]) putRecord(ctx context.Context, s record[P]) (was *record[P], err error) {
	body, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("encode approval record: %w", err)
	}
	version, err := r.Queue.PutApprovalRecord(ctx, r.Key, r.ID, r.version, body)
	if err == nil {
		r.version = version
		return nil, nil
	}
	if !errors.Is(err, queue.ErrApprovalRecordConflict) {
		return nil, err
	}
	if body, r.version, err = r.Queue.GetApprovalRecord(ctx, r.Key, r.ID); err != nil {
		return nil, err
	}
	was = &record[P]{}
	if err := json.Unmarshal(body, was); err != nil || was.Pause == nil && was.Answer == nil {
		return nil, fmt.Errorf("decode approval record: %w", errors.Join(errors.New("it is neither a pause nor an answer"), err))
	}
	return was, nil
}

// putAnswer stores the answer, and replaces a recorded pause.
func (r *Request[P]) putAnswer(ctx context.Context, s record[P]) error {
	was, err := r.putRecord(ctx, s)
	if err == nil && was != nil && was.Answer == nil {
		_, err = r.putRecord(ctx, s)
	}
	return err
}
