package fleethub

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/fleet"
)

const (
	// maxRounds bounds the decisions of one run.
	maxRounds = 24
	// writers is how many FleetTargets, or orders, a run writes in parallel.
	writers = 16
	// countEvery is the least time between two writes of a status in which only the counts differ.
	countEvery = time.Second
)

// reconcile decides about a FleetRollout until nothing is left to do now, and publishes the orders that its clusters do not have. It returns the time of the
// next run.
func (h *Hub) reconcile(ctx context.Context, name types.NamespacedName) (time.Time, error) {
	for range maxRounds {
		r, known := h.kube.FleetRollout(name)
		if !known || r == nil {
			return time.Time{}, nil
		}
		if r.DeletionTimestamp != nil {
			return time.Time{}, h.endFleet(ctx, r)
		}
		if r.Spec.Release != nil && !slices.Contains(r.Finalizers, api.FinalizerFleet) {
			var err error
			if r, err = h.kube.SetFleetFinalizer(ctx, r, true); err != nil {
				return time.Time{}, err
			}
		}
		seen, targets, known := h.observe(r)
		if !known {
			return h.Clock().Add(readyRetry), nil
		}
		if err := h.outbox.publishStates(ctx, r, targets); err != nil {
			return time.Time{}, err
		}
		d := fleet.Plan(seen, h.Clock())
		moved, wake, err := h.carryOut(ctx, r, targets, d)
		if err != nil {
			return time.Time{}, err
		}
		if err := h.publishPermits(ctx, r, targets, d); err != nil {
			return time.Time{}, err
		}
		if !moved {
			return wake, h.publishOrders(ctx, r, targets)
		}
	}
	return time.Time{}, fmt.Errorf("it did not come to rest in %d rounds", maxRounds)
}

// carryOut commits the status of a decision, and then writes its FleetTargets. It reports whether it has written anything, and returns the time of the next run
// if not.
func (h *Hub) carryOut(ctx context.Context, r *api.FleetRollout, targets map[string]*api.FleetTarget, d fleet.Decision) (moved bool, wake time.Time, err error) {
	wake = d.WakeAt
	setConditions(&d.Status, r.Generation, h.Clock())
	switch changed, counts := compareStatus(r.Status, d.Status); {
	case changed || counts && h.mayCount(r):
		committed, err := h.kube.CommitFleetStatus(ctx, r, d.Status)
		if err != nil {
			return false, wake, err
		}
		for _, t := range d.Status.Transitions {
			if t.Seq > r.Status.TransitionSeq {
				h.kube.RecordFleetEvent(committed, needsAttention(t), t.Reason, t.Message)
			}
		}
		h.metrics.countDecision(r.Status, d.Status)
		h.logPhase(r, d.Status)
		moved = true
	case counts:
		if next := h.Clock().Add(countEvery); wake.IsZero() || next.Before(wake) {
			wake = next
		}
	}
	writes, ctx := errgroup.WithContext(ctx)
	writes.SetLimit(writers)
	for cluster, t := range d.Targets {
		moved = true
		writes.Go(func() error { return h.kube.WriteFleetTarget(ctx, r, cluster, targets[cluster], t.Permit, t.Status) })
	}
	return moved, wake, writes.Wait()
}

// needsAttention reports whether a person should know of a transition.
func needsAttention(t api.FleetTransition) bool {
	switch t.To {
	case string(api.FleetPhaseStalled), string(api.FleetPhaseWithdrawing), string(api.FleetPhaseWithdrawn), string(api.FleetPhaseAborted):
		return true
	}
	return t.To == string(api.FleetPhasePaused) && t.Reason != "Duration" || t.Reason == "CommandRefused"
}

// compareStatus reports whether a status has changed in anything but its counts, or in its counts alone.
func compareStatus(before, after api.FleetRolloutStatus) (changed, counts bool) {
	counts = !equality.Semantic.DeepEqual(before.Counts, after.Counts)
	before.Counts, after.Counts = nil, nil
	return !equality.Semantic.DeepEqual(before, after), counts
}

// mayCount reports whether a status may be written for its counts alone, and notes that it is.
func (h *Hub) mayCount(r *api.FleetRollout) bool {
	name := types.NamespacedName{Namespace: r.Namespace, Name: r.Name}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.Clock().Sub(h.counted[name]) < countEvery {
		return false
	}
	h.counted[name] = h.Clock()
	return true
}

func (h *Hub) logPhase(r *api.FleetRollout, status api.FleetRolloutStatus) {
	if r.Status.Phase != status.Phase || r.Status.Reason != status.Reason {
		h.Logger.Info("the fleet's phase changed", "namespace", r.Namespace, "fleetrollout", r.Name, "from", r.Status.Phase, "to", status.Phase, "reason", status.Reason,
			"wave", status.Wave, "message", status.Message)
	}
}

// setConditions describes the phase by the conditions that kstatus reads.
func setConditions(s *api.FleetRolloutStatus, generation int64, now time.Time) {
	s.ObservedGeneration = generation
	stalled, ready := s.Phase == api.FleetPhaseStalled, s.Phase == api.FleetPhaseSucceeded || s.Phase == api.FleetPhaseIdle
	over := ready || s.Phase == api.FleetPhaseWithdrawn || s.Phase == api.FleetPhaseAborted
	for kind, is := range map[string]bool{"Ready": ready, "Reconciling": !over && !stalled, "Stalled": stalled} {
		status := metav1.ConditionFalse
		if is {
			status = metav1.ConditionTrue
		}
		meta.SetStatusCondition(&s.Conditions, metav1.Condition{
			Type: kind, Status: status, Reason: s.Reason, Message: s.Message, ObservedGeneration: generation, LastTransitionTime: metav1.NewTime(now),
		})
	}
	slices.SortFunc(s.Conditions, func(a, b metav1.Condition) int { return strings.Compare(a.Type, b.Type) })
}
