package executor

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/history"
	"sluice.dev/sluice/pkg/kube"
	"sluice.dev/sluice/pkg/kube/apiclient"
)

// writeRecords updates the records of a Rollout to the observed state.
func (h *historian) writeRecords(ctx context.Context, uid string) error {
	h.mu.Lock()
	t := h.entries[uid]
	var releases []int64
	if t != nil {
		releases = t.builder.ReleasesToRecord()
	}
	h.mu.Unlock()
	for _, epoch := range releases {
		if err := h.recordRelease(ctx, t, epoch); err != nil {
			return err
		}
	}
	if t != nil {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.dropIfDone(uid, t)
	}
	return nil
}

// recordDraft is one release with the content that its record should have.
type recordDraft struct {
	epoch     int64
	objects   kube.HistoryObjects
	wanted    api.RolloutHistoryStatus
	begunHere bool
	deleting  bool
}

func (h *historian) draftRecord(t *historyEntry, epoch int64) recordDraft {
	h.mu.Lock()
	defer h.mu.Unlock()
	p := recordDraft{epoch: epoch, begunHere: t.begunHere[epoch], deleting: t.deleting}
	var written api.RolloutHistoryStatus
	if r := t.records[epoch]; r != nil {
		written = r.Status
	}
	p.wanted = t.builder.BuildRecord(epoch, written)
	var ok bool
	if p.objects, ok = t.firstObjects[epoch]; !ok {
		p.objects = t.latestObjects
	}
	return p
}

// maxRewrites bounds the attempts to write a record that other clients change.
const maxRewrites = 5

// recordRelease writes one record if it differs from its wanted content. It reads the record at most once in each attempt, and drafts it again after a
// conflict.
func (h *historian) recordRelease(ctx context.Context, t *historyEntry, epoch int64) error {
	for range maxRewrites {
		p := h.draftRecord(t, epoch)
		if t.records[epoch] == nil && p.wanted.Outcome != "" && h.clock().Sub(p.wanted.EndedAt.Time) > recordedAge {
			h.forgetRelease(t, epoch)
			return nil
		}
		done, err := h.writeRecord(ctx, t, p)
		if err != nil || done {
			return err
		}
	}
	return fmt.Errorf("record release %d of rollout %s: others write the record again and again", epoch, t.key)
}

// writeRecord creates, reads or updates the record. done is false when the stored record differs from the known one.
func (h *historian) writeRecord(ctx context.Context, t *historyEntry, p recordDraft) (done bool, err error) {
	known := t.records[p.epoch]
	if known == nil && !p.begunHere {
		known, err = h.kube.GetHistory(ctx, p.objects, p.epoch)
		switch {
		case err == nil:
			t.records[p.epoch] = known
			return false, nil
		case !kube.IsHistoryNotFound(err):
			return false, err
		}
		known = nil
	}
	if known == nil {
		return h.createRecord(ctx, t, p)
	}
	if equality.Semantic.DeepEqual(known.Status, p.wanted) {
		h.storeRecord(t, known)
		return true, nil
	}
	updated, err := h.kube.UpdateHistory(ctx, known, p.wanted)
	switch {
	case kube.IsHistoryNotFound(err): // another client deleted the record while the release was under way
		return h.createRecord(ctx, t, p)
	case apiclient.IsConflict(err):
		delete(t.records, p.epoch)
		h.requireRead(t, p.epoch)
		return false, nil
	case err != nil:
		return false, err
	}
	h.storeRecord(t, updated)
	return true, nil
}

// createRecord creates the record of a release and prunes records beyond the limit. A Rollout that is being deleted gets no more records, because the garbage
// collector would delete them with it.
func (h *historian) createRecord(ctx context.Context, t *historyEntry, p recordDraft) (done bool, err error) {
	if p.deleting {
		h.forgetRelease(t, p.epoch)
		return true, nil
	}
	created, err := h.kube.CreateHistory(ctx, p.objects, p.wanted)
	switch {
	case kube.IsHistoryAlreadyExists(err):
		h.requireRead(t, p.epoch)
		return false, nil
	case kube.IsHistoryNotFound(err): // the namespace is going away
		h.forgetRelease(t, p.epoch)
		return true, nil
	case err != nil:
		return false, err
	}
	h.storeRecord(t, created)
	kept, err := h.kube.PruneHistory(ctx, p.objects, h.limit)
	if err != nil {
		return true, err
	}
	for _, older := range kept {
		if older < p.epoch {
			return true, h.endEarlierRecord(ctx, t, p, older)
		}
	}
	return true, nil
}

// endEarlierRecord ends the record of the release before, unless it has ended or its end is still to be recorded. The transitions of that end have left the
// outbox.
func (h *historian) endEarlierRecord(ctx context.Context, t *historyEntry, p recordDraft, older int64) error {
	h.mu.Lock()
	recorded := older <= t.ended || slices.Contains(t.builder.ReleasesToRecord(), older)
	h.mu.Unlock()
	if recorded {
		return nil
	}
	known, err := h.kube.GetHistory(ctx, p.objects, older)
	if err == nil && known.Status.Outcome == "" {
		_, err = h.kube.UpdateHistory(ctx, known, history.EndedBefore(known.Status, p.wanted, h.clock()))
	}
	if kube.IsHistoryNotFound(err) || apiclient.IsConflict(err) {
		return nil // the record is deleted, or another process records its end
	}
	return err
}

// storeRecord takes over a record as the API server returned it.
func (h *historian) storeRecord(t *historyEntry, r *api.RolloutHistory) {
	h.mu.Lock()
	defer h.mu.Unlock()
	epoch := r.Status.Epoch
	t.records[epoch] = r
	t.builder.DropRecorded(r.Status)
	if r.Status.Outcome != "" {
		t.ended = max(t.ended, epoch)
		delete(t.firstObjects, epoch)
		delete(t.begunHere, epoch)
		for older := range t.records {
			if older < epoch {
				delete(t.records, older)
			}
		}
	}
}

// requireRead makes the next write of the record read it first.
func (h *historian) requireRead(t *historyEntry, epoch int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(t.begunHere, epoch)
}

// forgetRelease drops the record of a release without writing it.
func (h *historian) forgetRelease(t *historyEntry, epoch int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	t.builder.ForgetRelease(epoch)
	delete(t.firstObjects, epoch)
	delete(t.begunHere, epoch)
}
