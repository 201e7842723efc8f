package fleetlink

import (
	"errors"

	"k8s.io/apimachinery/pkg/types"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/fleetmessage"
	"sluice.dev/sluice/pkg/queue"
)

// Order returns the last permit of the hub for a Rollout that a FleetRollout governs, nil for none, and the versions that the hub has withdrawn. refused says
// why the last message of the hub counts for nothing, "" if it counts.
func (l *Link) Order(r *api.Rollout) (permit *api.FleetPermit, blocked []api.FleetBlock, refused string) {
	name := types.NamespacedName{Namespace: r.Namespace, Name: r.Name}
	l.mu.Lock()
	message := l.exchangeAbout(name).order.Data
	l.mu.Unlock()
	if message == nil {
		return nil, nil, ""
	}
	_, hub, err := l.Keys()
	if err != nil {
		return nil, nil, err.Error()
	}
	var last *api.FleetPermit
	if f := r.Status.Fleet; f != nil && f.FleetRollout == *r.Spec.Fleet {
		last = f.Permit
	}
	order, err := fleetmessage.Receiver{Member: l.Member, Hub: l.Hub, Keys: hub}.OpenOrder(message, fleetmessage.Name(name), *r.Spec.Fleet, last)
	var refusal *fleetmessage.Refusal
	switch {
	case errors.As(err, &refusal) && refusal.Reason == fleetmessage.ReasonOld:
		l.noteRefusal(name, nil)
		return nil, nil, "" // the Rollout has the newer one
	case err != nil:
		l.noteRefusal(name, err)
		return nil, nil, err.Error()
	}
	l.noteRefusal(name, nil)
	if order.Permit == nil {
		return holdForDeleted(order.Deleted, last), order.Blocked, ""
	}
	return order.Permit, order.Blocked, ""
}

// holdForDeleted is the permit of a FleetRollout that was deleted: the release goes no further.
func holdForDeleted(epoch int64, last *api.FleetPermit) *api.FleetPermit {
	hold := &api.FleetPermit{}
	if last != nil {
		hold = last.DeepCopy()
	}
	hold.Epoch, hold.Seq, hold.Verb, hold.NotAfter = epoch, 0, api.FleetVerbHold, nil
	return hold
}

// noteRefusal counts and logs a refused order, once for each reason in a row. A nil error is an order that counts.
func (l *Link) noteRefusal(name types.NamespacedName, err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	l.mu.Lock()
	x := l.exchangeAbout(name)
	same := x.refused == text
	x.refused = text
	l.mu.Unlock()
	var refusal *fleetmessage.Refusal
	if same || !errors.As(err, &refusal) {
		return
	}
	l.metrics.refusals.WithLabelValues(string(refusal.Reason)).Inc()
	l.Logger.Warn("an order of the hub is refused", "namespace", name.Namespace, "rollout", name.Name, "reason", refusal.Reason, "error", err)
}

// lastRefusal returns why an order is refused, "" if each order counts.
func (l *Link) lastRefusal() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	first := ""
	for name, x := range l.rollouts {
		if text := name.String() + ": " + x.refused; x.refused != "" && (first == "" || text < first) {
			first = text
		}
	}
	return first
}

// Generation counts the answers about a Rollout that other processes of this cluster have sent and that this process knows. An executor asks for it before it
// looks at the Rollout.
func (l *Link) Generation(name types.NamespacedName) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.exchangeAbout(name).generation
}

// Report tells the hub what a governed Rollout does. generation is that of the time at which the executor began to look at it. If the link has read the answer
// of another process since, the executor looks again.
func (l *Link) Report(name types.NamespacedName, governedBy api.FleetReference, report api.FleetReport, generation int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	x := l.exchangeAbout(name)
	if x.known && x.generation != generation {
		if next := (fleetmessage.Answer{FleetRollout: governedBy, Report: report}); !next.SaysSame(x.sent) {
			l.hinter.Hint(queue.Key{Cluster: l.ClusterName, Namespace: name.Namespace, Name: name.Name})
		}
		return
	}
	l.offer(name, x, governedBy, report)
}

// ReportAbsent tells the hub that the cluster has no Rollout of that name, if the hub has heard of one.
func (l *Link) ReportAbsent(name types.NamespacedName) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.reportGone(name, api.FleetReportAbsent)
}

// ReportUngoverned tells the hub that no FleetRollout governs a Rollout any more. left: the Rollout remembers a fleet. Otherwise, only a Rollout counts that the
// link has met.
func (l *Link) ReportUngoverned(name types.NamespacedName, left bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if left || l.rollouts[name] != nil {
		l.reportGone(name, api.FleetReportUngoverned)
	}
}

// reportGone offers an answer about a Rollout without a fleet. l.mu is held.
func (l *Link) reportGone(name types.NamespacedName, state api.FleetReportState) {
	x := l.exchangeAbout(name)
	x.refused = ""
	var governor api.FleetReference
	if x.sent != nil {
		governor = x.sent.FleetRollout
	}
	l.offer(name, x, governor, api.FleetReport{State: state})
}

// offer makes a report the next answer. l.mu is held.
func (l *Link) offer(name types.NamespacedName, x *exchange, governor api.FleetReference, report api.FleetReport) {
	next := &fleetmessage.Answer{Rollout: fleetmessage.Name(name), FleetRollout: governor, Report: report}
	if x.known && !x.sending && next.SaysSame(x.sent) {
		x.next = nil
		return
	}
	x.next = next
	l.work.Add(name)
}
