package world

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/kube"
	"sluice.dev/sluice/pkg/queue"
)

// Hub has what a test says as the hub of a fleet, and what the executors of the world answer.
type Hub struct {
	hint func(context.Context, types.NamespacedName) error

	mu      sync.Mutex
	orders  map[types.NamespacedName]kube.FleetOrder
	reports map[types.NamespacedName]api.FleetReport
	open    map[types.NamespacedName]bool
	changed chan struct{} // closed at the next report
}

// NewHub returns a hub without permits. The function hint wakes the executors for a Rollout.
func NewHub(hint func(context.Context, types.NamespacedName) error) *Hub {
	return &Hub{hint: hint, orders: map[types.NamespacedName]kube.FleetOrder{}, reports: map[types.NamespacedName]api.FleetReport{},
		open: map[types.NamespacedName]bool{}, changed: make(chan struct{})}
}

// hinter returns a function that wakes the executors of the world for a Rollout.
func (w *World) hinter() func(context.Context, types.NamespacedName) error {
	connect := sync.OnceValues(func() (*queue.Queue, error) { return w.Connect(context.Background(), "hub") })
	return func(ctx context.Context, name types.NamespacedName) error {
		q, err := connect()
		if err != nil {
			return err
		}
		return q.PublishHint(ctx, queue.Key{Cluster: w.Name, Namespace: name.Namespace, Name: name.Name})
	}
}

// Order returns the last order about a Rollout.
func (h *Hub) Order(r *api.Rollout) kube.FleetOrder {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.orders[types.NamespacedName{Namespace: r.Namespace, Name: r.Name}]
}

// Report takes a report. A Rollout with open permits gets one for each version that waits.
func (h *Hub) Report(name types.NamespacedName, _ api.FleetReference, r api.FleetReport, _ int64) {
	h.mu.Lock()
	h.reports[name] = r
	close(h.changed)
	h.changed = make(chan struct{})
	waits := slices.Contains([]string{api.FleetReasonAwaitingPermit, api.FleetReasonPlanChanged}, r.Reason) || strings.Contains(r.Message, "has ended without success in this cluster") ||
		r.State == api.FleetReportCompleted && r.Template.Revision != r.Stable.Revision
	open := h.open[name]
	h.mu.Unlock()
	if !open || !waits {
		return
	}
	ctx := context.Background()
	if err := h.Give(ctx, name, api.FleetPermit{Verb: api.FleetVerbRelease, LocalPauses: api.FleetLocalPausesKeep}); err != nil {
		go func() { // NATS may be down, and each try waits for it
			for range hintTries {
				if h.hint(ctx, name) == nil {
					return
				}
			}
		}()
	}
}

// hintTries bounds how often the hub tries to wake the executors.
const hintTries = 20

// ReportUngoverned takes nothing: the tests ask for reports of governed Rollouts only.
func (h *Hub) ReportUngoverned(types.NamespacedName, bool) {}

// ReportAbsent takes nothing.
func (h *Hub) ReportAbsent(types.NamespacedName) {}

// PermitAll lets each version of a Rollout through, as soon as it waits for a permit. Its pauses stay with the users of the cluster.
func (h *Hub) PermitAll(name types.NamespacedName) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.open[name] = true
}

// PermitNone ends what PermitAll began.
func (h *Hub) PermitNone(name types.NamespacedName) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.open[name] = false
}

// Give gives the next permit. A permit to release names the version that the cluster reported last, or
// has images; a withdrawal blocks its version.
func (h *Hub) Give(ctx context.Context, name types.NamespacedName, permit api.FleetPermit) error {
	h.mu.Lock()
	last, r := h.orders[name], h.reports[name]
	permit.Epoch, permit.Seq = 1, 1
	if last.Permit != nil {
		permit.Epoch, permit.Seq = last.Permit.Epoch, last.Permit.Seq+1
	}
	switch {
	case len(permit.Images) > 0:
		permit.Version, permit.PlanHash = api.FleetRelease{Images: permit.Images}.Key(), r.PlanHash
	case permit.Verb == api.FleetVerbRelease || permit.Verb == api.FleetVerbHold:
		if len(r.Template.Keys()) == 0 {
			h.mu.Unlock()
			return errors.New("the cluster has reported no version")
		}
		permit.Version, permit.Revision, permit.PlanHash = r.Template.Keys()[0], r.Template.Revision, r.PlanHash
	case permit.Verb == api.FleetVerbWithdraw:
		permit.Epoch, permit.Seq = permit.Epoch+1, 1
		last.Blocked = api.MergeFleetBlock(last.Blocked, api.FleetBlock{Version: permit.Version, Epoch: permit.Epoch})
	}
	h.orders[name] = kube.FleetOrder{Permit: &permit, Blocked: last.Blocked}
	h.mu.Unlock()
	return h.hint(ctx, name)
}

// Await waits for a report.
func (h *Hub) Await(ctx context.Context, name types.NamespacedName, reached func(api.FleetReport) bool) (api.FleetReport, error) {
	for {
		h.mu.Lock()
		r, changed := h.reports[name], h.changed
		h.mu.Unlock()
		if reached(r) {
			return r, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return r, fmt.Errorf("wait for the report of %s, which is %+v: %w", name, r, ctx.Err())
		}
	}
}
