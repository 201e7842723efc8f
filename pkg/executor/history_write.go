package executor

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/history"
	"sluice.dev/sluice/pkg/kube"
)

// write brings the records of a Rollout up to what was heard of it.
func (h *historian) write(ctx context.Context, uid string) error {
	h.mu.Lock()
	t := h.tales[uid]
	var releases []int64
	if t != nil {
		releases = t.account.ReleasesToRecord()
	}
	h.mu.Unlock()
	for _, epoch := range releases {
		if err := h.record(ctx, t, epoch); err != nil {
			return err
		}
	}
	if t != nil {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.dropped(uid, t)
	}
	return nil
}

// page is one release, and what is to stand in its record.
type page struct {
	epoch    int64
	involved kube.Involved
	wanted   api.RolloutHistoryStatus
	fresh    bool
	deleting bool
}

func (h *historian) page(t *tale, epoch int64) page {
	h.mu.Lock()
	defer h.mu.Unlock()
	p := page{epoch: epoch, fresh: t.fresh[epoch], deleting: t.deleting}
	var written api.RolloutHistoryStatus
	if r := t.records[epoch]; r != nil {
		written = r.Status
	}
	p.wanted = t.account.BuildRecord(epoch, written)
	var ok bool
	if p.involved, ok = t.first[epoch]; !ok {
		p.involved = t.latest
	}
	return p
}

// rewrites bounds how often a record is told anew because somebody else wrote it.
const rewrites = 5

// record writes one record, if it is not as it should be. What it looks like is read once; a record that was written since is told anew.
func (h *historian) record(ctx context.Context, t *tale, epoch int64) error {
	for range rewrites {
		p := h.page(t, epoch)
		if t.records[epoch] == nil && p.wanted.Outcome != "" && h.clock().Sub(p.wanted.EndedAt.Time) > longOver {
			h.forget(t, epoch)
			return nil
		}
		done, err := h.try(ctx, t, p)
		if err != nil || done {
			return err
		}
	}
	return fmt.Errorf("record release %d of rollout %s: others write the record again and again", epoch, t.key)
}

// try makes, reads or updates the record. It is not done when the record turned out to be another one than was known.
func (h *historian) try(ctx context.Context, t *tale, p page) (done bool, err error) {
	known := t.records[p.epoch]
	if known == nil && !p.fresh {
		known, err = h.kube.History(ctx, p.involved, p.epoch)
		switch {
		case err == nil:
			t.records[p.epoch] = known
			return false, nil
		case !kube.IsNoHistory(err):
			return false, err
		}
		known = nil
	}
	if known == nil {
		return h.create(ctx, t, p)
	}
	if equality.Semantic.DeepEqual(known.Status, p.wanted) {
		h.recorded(t, known)
		return true, nil
	}
	updated, err := h.kube.UpdateHistory(ctx, known, p.wanted)
	switch {
	case kube.IsNoHistory(err): // somebody deleted it while the release was under way
		return h.create(ctx, t, p)
	case kube.IsConflict(err):
		delete(t.records, p.epoch)
		h.doubt(t, p.epoch)
		return false, nil
	case err != nil:
		return false, err
	}
	h.recorded(t, updated)
	return true, nil
}

// create makes the record of a release, and takes away what is older than is kept. A Rollout that is being deleted gets no more records:
// they would go with it.
func (h *historian) create(ctx context.Context, t *tale, p page) (done bool, err error) {
	if p.deleting {
		h.forget(t, p.epoch)
		return true, nil
	}
	created, err := h.kube.CreateHistory(ctx, p.involved, p.wanted)
	switch {
	case kube.IsHistoryThere(err):
		h.doubt(t, p.epoch)
		return false, nil
	case kube.IsNoHistory(err): // the namespace is going away
		h.forget(t, p.epoch)
		return true, nil
	case err != nil:
		return false, err
	}
	h.recorded(t, created)
	kept, err := h.kube.PruneHistory(ctx, p.involved, h.limit)
	if err != nil {
		return true, err
	}
	for _, older := range kept {
		if older < p.epoch {
			return true, h.close(ctx, t, p, older)
		}
	}
	return true, nil
}

// close ends the record of the release before, if nobody has and nobody else can: what led to its end has left the outbox.
func (h *historian) close(ctx context.Context, t *tale, p page, older int64) error {
	h.mu.Lock()
	recorded := older <= t.ended || slices.Contains(t.account.ReleasesToRecord(), older)
	h.mu.Unlock()
	if recorded {
		return nil
	}
	known, err := h.kube.History(ctx, p.involved, older)
	if err == nil && known.Status.Outcome == "" {
		_, err = h.kube.UpdateHistory(ctx, known, history.EndedBefore(known.Status, p.wanted, h.clock()))
	}
	if kube.IsNoHistory(err) || kube.IsConflict(err) {
		return nil // it is gone, or somebody else tells of its end
	}
	return err
}

// recorded takes in a record as it was written.
func (h *historian) recorded(t *tale, r *api.RolloutHistory) {
	h.mu.Lock()
	defer h.mu.Unlock()
	epoch := r.Status.Epoch
	t.records[epoch] = r
	t.account.DropRecorded(r.Status)
	if r.Status.Outcome != "" {
		t.ended = max(t.ended, epoch)
		delete(t.first, epoch)
		delete(t.fresh, epoch)
		for older := range t.records {
			if older < epoch {
				delete(t.records, older)
			}
		}
	}
}

// doubt has the record read before it is written again.
func (h *historian) doubt(t *tale, epoch int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(t.fresh, epoch)
}

// forget gives a record up.
func (h *historian) forget(t *tale, epoch int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	t.account.ForgetRelease(epoch)
	delete(t.first, epoch)
	delete(t.fresh, epoch)
}
