package watcher

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/queue"
)

const (
	// sweepEvery is how often wake-up times are checked, overdue how late one must be to be swept: its timer was lost.
	sweepEvery = 5 * time.Second
	overdue    = 5 * time.Second
	// gather is for how long changes are put together that wake only soon.
	gather = time.Second
	// policyMemory is for how long executors may take for granted that the admission policies are there.
	policyMemory = 31 * time.Second
)

// hintRollout tells that a Rollout is to be looked at. Before the watcher has seen everything, nothing is told: then everything is.
func (w *Watcher) hintRollout(name types.NamespacedName) {
	if !w.started.Load() {
		return
	}
	w.mu.Lock()
	delete(w.gathered, name) // the next run sees all of it
	w.mu.Unlock()
	w.sendHint(name, queue.TaskRelease)
}

// hintAnalysis tells that the analyses of a Rollout are to be looked at.
func (w *Watcher) hintAnalysis(name types.NamespacedName) {
	if w.started.Load() {
		w.sendHint(name, queue.TaskAnalysis)
	}
}

func (w *Watcher) sendHint(name types.NamespacedName, task string) {
	w.hints.Inc()
	w.send(queue.Key{Cluster: w.ClusterName, Namespace: name.Namespace, Name: name.Name, Task: task})
}

func (w *Watcher) hintByUrgency(name types.NamespacedName, u urgency) {
	switch {
	case u == atOnce || u == soon && w.index.isTolerant(name):
		w.hintRollout(name)
	case u == soon:
		w.mu.Lock()
		w.gathered[name] = true
		w.mu.Unlock()
	}
}

// hintEverything hints every Rollout, every TrafficRouting and all that is measured, and those that are gone and have left marks: executors
// take them off.
func (w *Watcher) hintEverything() {
	w.hintRolloutsMatching(anyRollout)
	w.hintRoutingsMatching(anyRollout)
	w.hintAnalysesMatching(func(d *dependencies) bool { return d.analyses.anyMeasured() })
	w.hintOrphans(func(types.NamespacedName) bool { return true })
}

func (w *Watcher) hintOrphans(want func(types.NamespacedName) bool) {
	for _, name := range w.index.orphanedOwners() {
		if want(name) {
			w.hintRollout(name)
		}
	}
	for _, name := range w.routings.orphanedOwners() {
		if want(name) {
			w.hintRouting(name)
		}
	}
}

// namespaceChanged hints those that are gone from a namespace: what they have left elsewhere is taken off when that goes too.
func (w *Watcher) namespaceChanged(f *fact, _ bool, _ urgency) {
	if w.started.Load() {
		w.hintOrphans(func(name types.NamespacedName) bool { return name.Namespace == f.name.Name })
	}
}

// workloadChanged hints who releases a workload of a kind, and whose marks it carries although he is gone.
func (w *Watcher) workloadChanged(kind schema.GroupKind) func(*fact, bool, urgency) {
	return func(f *fact, gone bool, u urgency) {
		var owners []types.NamespacedName
		if f.claim != "" && !gone {
			owners = append(owners, types.NamespacedName{Namespace: f.name.Namespace, Name: f.claim})
		}
		for _, orphan := range w.index.setClaims(object{kind.Group, kind.Kind, f.name}, owners...) {
			w.hintRollout(orphan)
		}
		w.hintDependents(kind, f.name, u)
	}
}

// referencedChanged hints the Rollouts that depend on an object: on itself, on the gateway object that owns it, or on a Service that it is attached to. It also hints Rollouts
// that the object lists and that are gone.
func (w *Watcher) referencedChanged(kind schema.GroupKind) func(*fact, bool, urgency) {
	return func(f *fact, gone bool, u urgency) {
		if f.listed != nil {
			w.ownersChanged(object{kind.Group, kind.Kind, f.name}, f.listed, gone)
		}
		w.hintDependents(kind, f.name, u)
		for _, of := range f.parents {
			w.hintDependents(schema.GroupKind{Group: of.group, Kind: of.kind}, of.name, u)
		}
		for _, service := range f.services {
			w.hintDependents(serviceKind, types.NamespacedName{Namespace: f.name.Namespace, Name: service}, u)
		}
	}
}

// routeChanged hints the Rollouts of referencedChanged, and the Rollouts of gateway objects whose script reads the object.
func (w *Watcher) routeChanged(kind schema.GroupKind) func(*fact, bool, urgency) {
	named, read := w.referencedChanged(kind), w.readChanged(kind)
	return func(f *fact, gone bool, u urgency) {
		named(f, gone, u)
		read(f, gone, u)
	}
}

// readChanged hints who is routed by a gateway object whose script reads an object of a kind.
func (w *Watcher) readChanged(kind schema.GroupKind) func(*fact, bool, urgency) {
	return func(f *fact, gone bool, u urgency) {
		of := object{kind.Group, kind.Kind, f.name}
		names := f.names
		if gone {
			names = nil
		}
		w.index.refer(of, names)
		for _, by := range w.index.referrers(of) {
			w.hintDependents(schema.GroupKind{Group: by.group, Kind: by.kind}, by.name, u)
		}
	}
}

func (w *Watcher) ownersChanged(by object, owners map[string][]types.NamespacedName, gone bool) {
	if gone {
		owners = nil
	}
	for _, orphan := range w.index.setClaims(by, owners[""]...) {
		w.hintRollout(orphan)
	}
	for _, orphan := range w.routings.setClaims(by, owners[api.KindTrafficRouting]...) {
		w.hintRouting(orphan)
	}
}

func (w *Watcher) hintDependents(kind schema.GroupKind, name types.NamespacedName, u urgency) {
	of := object{kind.Group, kind.Kind, name}
	for _, rollout := range w.index.dependentsOf(of) {
		w.hintByUrgency(rollout, u)
	}
	for _, routing := range w.routings.dependentsOf(of) {
		w.hintRouting(routing)
	}
}

// endpointsChanged hints the releases under way that look at the endpoints of a Service.
func (w *Watcher) endpointsChanged(f *fact, _ bool, u urgency) {
	service := object{serviceKind.Group, serviceKind.Kind, types.NamespacedName{Namespace: f.name.Namespace, Name: f.service}}
	for _, rollout := range w.index.dependentsOf(service) {
		if w.index.isReleasing(rollout) {
			w.hintByUrgency(rollout, u)
		}
	}
}

// templateChanged hints who is measured by a template: an executor holds releases whose templates are missing or wrong, and an
// analyzer measures by them.
func (w *Watcher) templateChanged(kind schema.GroupKind) func(*fact, bool, urgency) {
	return func(f *fact, _ bool, u urgency) {
		w.hintDependents(kind, f.name, u)
		for _, rollout := range w.index.dependentsOf(object{kind.Group, kind.Kind, f.name}) {
			if w.index.isMeasured(rollout) {
				w.hintAnalysis(rollout)
			}
		}
	}
}

func (w *Watcher) hintAnalysesMatching(want func(*dependencies) bool) {
	for _, name := range w.index.namesMatching(want) {
		w.hintAnalysis(name)
	}
}

func (w *Watcher) hintRolloutsMatching(want func(*dependencies) bool) {
	for _, name := range w.index.namesMatching(want) {
		w.hintRollout(name)
	}
}

func anyRollout(*dependencies) bool { return true }

// policyChanged wakes everybody. Executors remember for a while that the policies are there, so that one which went is told again.
func (w *Watcher) policyChanged(_ *fact, gone bool, _ urgency) {
	w.hintRolloutsMatching(anyRollout)
	if gone {
		w.mu.Lock()
		w.policyGone = time.Now()
		w.mu.Unlock()
	}
}

func (w *Watcher) policyDue(now time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	due := !w.policyGone.IsZero() && now.Sub(w.policyGone) > policyMemory
	if due {
		w.policyGone = time.Time{}
	}
	return due
}

// flushGathered sends the gathered hints.
func (w *Watcher) flushGathered() {
	w.mu.Lock()
	var names []types.NamespacedName
	for name := range w.gathered {
		names = append(names, name)
	}
	w.mu.Unlock()
	for _, name := range names {
		w.hintRollout(name)
	}
}

// sweepPeriodically replaces lost messages: it sends hints for overdue wake-ups and for analyses without news, and from time to time for all
// Rollouts.
func (w *Watcher) sweepPeriodically(ctx context.Context) {
	gathers, sweeps, resyncs := time.NewTicker(gather), time.NewTicker(sweepEvery), time.NewTicker(w.Resync)
	defer gathers.Stop()
	defer sweeps.Stop()
	defer resyncs.Stop()
	var stream time.Time
	w.streamRecreated(ctx, &stream)
	for {
		select {
		case <-ctx.Done():
			return
		case <-gathers.C:
			w.flushGathered()
		case now := <-sweeps.C:
			w.hintRolloutsMatching(func(d *dependencies) bool { return !d.wakeAt.IsZero() && now.Sub(d.wakeAt) > overdue })
			w.hintAnalysesMatching(func(d *dependencies) bool { return d.analyses.renewalOverdue(now) })
			if w.policyDue(now) {
				w.hintRolloutsMatching(anyRollout)
			}
			if w.streamRecreated(ctx, &stream) {
				w.Logger.Warn("the stream of work was lost in NATS and made again, every Rollout is looked at")
				w.hintEverything()
			}
		case <-resyncs.C:
			w.hintEverything()
		}
	}
}

// streamRecreated reports whether the stream of work is another one than the last that was seen: hints given before are gone then.
func (w *Watcher) streamRecreated(ctx context.Context, last *time.Time) bool {
	ctx, cancel := context.WithTimeout(ctx, sweepEvery)
	defer cancel()
	now, err := w.workStreamCreated(ctx)
	if err != nil {
		// NATS is away, or the stream is, until somebody gives a hint or takes one. The next sweep asks again.
		w.Logger.Debug("ask about the stream of work", "error", err)
		return false
	}
	before := *last
	*last = now
	return !before.IsZero() && !now.Equal(before)
}
