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
	// sweepEvery is the interval of the check of wake-up times. The watcher sweeps a Rollout whose wake-up is later
	// than overdue, because its timer was lost.
	sweepEvery = 5 * time.Second
	overdue    = 5 * time.Second
	// gather is how long the watcher collects changes that wake only soon.
	gather = time.Second
	// policyMemory is how long executors may remember that the admission policies are installed.
	policyMemory = 31 * time.Second
)

// hintRollout sends a hint about a Rollout. Before the watcher has read its first lists it sends none, because
// afterwards it hints every Rollout.
func (w *Watcher) hintRollout(name types.NamespacedName) {
	if !w.started.Load() {
		return
	}
	w.mu.Lock()
	delete(w.gathered, name) // the next run sees these changes too
	w.mu.Unlock()
	w.sendHint(name, queue.TaskRelease)
}

// hintAnalysis sends a hint about the analyses of a Rollout.
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

// hintEverything hints every Rollout, every TrafficRouting and every analysis that is measured. It also hints deleted
// Rollouts that have left marks, which executors remove.
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

// namespaceChanged hints the deleted Rollouts of a namespace. When the namespace is deleted too, executors remove the
// entries that these Rollouts have left elsewhere.
func (w *Watcher) namespaceChanged(f *fact, _ bool, _ urgency) {
	if w.started.Load() {
		w.hintOrphans(func(name types.NamespacedName) bool { return name.Namespace == f.name.Name })
	}
}

// workloadChanged hints the Rollouts that release a workload of a kind, and a deleted Rollout whose marks the workload
// carries.
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

// referencedChanged hints the Rollouts that depend on an object: on the object itself, on the gateway object that owns
// it, or on a Service that it is attached to. It also hints deleted Rollouts that the object lists.
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

// routeChanged hints the Rollouts of [Watcher.referencedChanged], and the Rollouts of a gateway object whose script
// reads the object.
func (w *Watcher) routeChanged(kind schema.GroupKind) func(*fact, bool, urgency) {
	named, read := w.referencedChanged(kind), w.readChanged(kind)
	return func(f *fact, gone bool, u urgency) {
		named(f, gone, u)
		read(f, gone, u)
	}
}

// readChanged hints the Rollouts of a gateway object whose script reads an object of a kind.
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

// endpointsChanged hints the releases under way that depend on the endpoints of a Service.
func (w *Watcher) endpointsChanged(f *fact, _ bool, u urgency) {
	service := object{serviceKind.Group, serviceKind.Kind, types.NamespacedName{Namespace: f.name.Namespace, Name: f.service}}
	for _, rollout := range w.index.dependentsOf(service) {
		if w.index.isReleasing(rollout) {
			w.hintByUrgency(rollout, u)
		}
	}
}

// templateChanged hints the Rollouts that a template measures. An executor stalls releases with missing or invalid
// templates, and an analyzer measures with them.
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

// policyChanged wakes every Rollout. Executors remember for a while that the policies are installed, so after a
// deletion the watcher hints every Rollout again later.
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

// flushGathered hints the gathered Rollouts.
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

// sweepPeriodically makes up for lost messages. It hints Rollouts with overdue wake-ups and analyses with an overdue
// renewal, and at each resync everything.
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

// streamRecreated reports whether the stream of work was created again since the last call. Earlier hints are then
// lost.
func (w *Watcher) streamRecreated(ctx context.Context, last *time.Time) bool {
	ctx, cancel := context.WithTimeout(ctx, sweepEvery)
	defer cancel()
	now, err := w.workStreamCreated(ctx)
	if err != nil {
		// NATS is down, or the stream does not exist until a process sends or takes a hint. The next sweep asks again.
		w.Logger.Debug("ask about the stream of work", "error", err)
		return false
	}
	before := *last
	*last = now
	return !before.IsZero() && !now.Equal(before)
}
