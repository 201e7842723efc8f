// Package executor carries out releases: it takes one Rollout at a time from the queue, observes the cluster, calls [planner.Plan], acts, and commits. It
// decides nothing itself, and no run relies on memory of an earlier run.
//
// Invariant: the executor takes an action that raises exposure only after it committed the status that intends the action. It never raises or removes anything
// on the evidence of a watch alone. It acknowledges work only after the last commit.
package executor

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/types"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/kube"
	"sluice.dev/sluice/pkg/kube/apiclient"
	"sluice.dev/sluice/pkg/queue"
	"sluice.dev/sluice/pkg/rollout"
)

// Options configure an executor.
type Options struct {
	// ClusterName is the name of the cluster in subjects and events.
	ClusterName string
	Kube        *kube.Client
	Queue       *queue.Queue
	// Workers is the number of Rollouts that the executor reconciles in parallel; at least 1.
	Workers int
	// HistoryLimit is the number of releases of a Rollout that keep a record; 0 disables records.
	HistoryLimit int
	// Fleet is the hub of this cluster's fleet; nil for a cluster without a hub.
	Fleet FleetLink
	// Clock is time.Now except in tests.
	Clock      func() time.Time
	Logger     *slog.Logger
	Registerer prometheus.Registerer
}

// FleetLink takes what this cluster tells the hub of its fleet. Its methods do not block.
type FleetLink interface {
	// Report takes what a Rollout does that a FleetRollout governs. generation is the one of the order that the run has observed.
	Report(name types.NamespacedName, governedBy api.FleetReference, report api.FleetReport, generation int64)
	// ReportUngoverned takes that no FleetRollout governs a Rollout. left: the Rollout still remembers one.
	ReportUngoverned(name types.NamespacedName, left bool)
	// ReportAbsent takes that a Rollout does not exist.
	ReportAbsent(name types.NamespacedName)
}

// noFleet is the FleetLink of a cluster without a hub.
type noFleet struct{}

func (noFleet) Report(types.NamespacedName, api.FleetReference, api.FleetReport, int64) {}
func (noFleet) ReportUngoverned(types.NamespacedName, bool)                             {}
func (noFleet) ReportAbsent(types.NamespacedName)                                       {}

// Executor works on rollouts. Its method Handle is safe for concurrent use with different keys.
type Executor struct {
	Options
	reconciler *Reconciler
	outbox     *outbox
	metrics    *metrics
	requeuer   *requeuer
	history    *historian
}

// New makes an executor without starting it.
func New(o Options) *Executor {
	if o.Clock == nil {
		o.Clock = time.Now
	}
	if o.Fleet == nil {
		o.Fleet = noFleet{}
	}
	e := &Executor{Options: o, outbox: newOutbox(o.ClusterName, o.Queue), metrics: newMetrics(o.Registerer)}
	e.reconciler = &Reconciler{Kube: o.Kube, Clock: o.Clock, Commit: e.commitDecision, Apply: e.applyAction, RunStage: e.runStage}
	e.requeuer, e.history = newRequeuer(e), newHistorian(o)
	registerReadMetrics(o.Registerer, o.Kube)
	return e
}

// Run takes work and approvals from the queue until ctx is done, then finishes the runs that have begun.
func (e *Executor) Run(ctx context.Context) error {
	defer e.Kube.FlushEvents()
	defer e.history.startRecording(ctx)()
	stop := e.requeuer.startChecks(ctx)
	defer stop()
	both, ctx := errgroup.WithContext(ctx)
	both.Go(func() error {
		return e.Queue.Consume(ctx, queue.ConsumeOptions{
			Cluster: e.ClusterName, Workers: e.Workers, Handler: e.Handle, Requeue: e.requeuer.keys, OnDeadLetter: e.recordDeadLetter,
			Logger: e.Logger, Metrics: queue.NewMetrics(e.Registerer, queue.TaskRelease),
		})
	})
	both.Go(func() error {
		return e.Queue.ConsumeApprovals(ctx, queue.ApprovalOptions{Cluster: e.ClusterName, Workers: e.Workers, Handler: e.DecideApproval, Logger: e.Logger})
	})
	return both.Wait()
}

// cleanUpOrphanedRoutes removes a deleted Rollout from shared gateway objects when the namespace of the Rollout is deleted too. kind names another kind than
// Rollout. over reports whether the namespace is gone, so that no other object of the Rollout can be left.
func (e *Executor) cleanUpOrphanedRoutes(ctx context.Context, kind string, gone types.NamespacedName) (over bool, err error) {
	stays, err := e.Kube.NamespaceActive(ctx, gone.Namespace)
	if stays || err != nil {
		return false, err
	}
	n, err := e.Kube.CleanUpOrphanedRoutes(ctx, kind, gone)
	if n > 0 {
		e.Logger.Info("removed a Rollout whose namespace is gone from gateway objects", "namespace", gone.Namespace, "name", gone.Name, "objects", n)
	}
	if apiclient.IsForbidden(err) {
		e.Logger.Warn("cannot look for gateway objects that list a Rollout whose namespace is gone", "namespace", gone.Namespace, "name", gone.Name, "error", err)
		return true, nil
	}
	return true, err
}

// cleanUpOrphans releases workloads that still carry the marks of a deleted Rollout.
func (e *Executor) cleanUpOrphans(ctx context.Context, gone types.NamespacedName) error {
	if over, err := e.cleanUpOrphanedRoutes(ctx, "", gone); over || err != nil {
		return err
	}
	n, err := e.Kube.CleanUpOrphanedWorkloads(ctx, gone)
	if n > 0 {
		e.Logger.Info("released workloads whose Rollout is gone", "namespace", gone.Namespace, "rollout", gone.Name, "workloads", n)
	}
	if apiclient.IsForbidden(err) {
		e.Logger.Warn("cannot look for workloads whose Rollout is gone", "namespace", gone.Namespace, "rollout", gone.Name, "error", err)
		return nil
	}
	return err
}

// unreadableRetry is the delay before the executor retries an object that it could not read, or a script that exceeded its time limit. No event announces a
// granted permission or a less busy machine.
const unreadableRetry = 10 * time.Second

// undecidedRetry is the delay for a watch that has not yet shown an answer that the API server has given. The watch itself announces nothing.
const undecidedRetry = time.Second

// Handle reconciles one Rollout, or one TrafficRouting, as far as possible now.
func (e *Executor) Handle(ctx context.Context, key queue.Key) (r queue.Result) {
	defer func() {
		r.RetryAfter = apiclient.RetryAfter(r.Err)
		if apiclient.IsUndecided(r.Err) {
			r = queue.Result{WakeAt: e.Clock().Add(undecidedRetry)}
		}
	}()
	if until := queue.HeldUntil(ctx); until != nil {
		ctx = kube.WithLease(ctx, until)
	}
	name := types.NamespacedName{Namespace: key.Namespace, Name: key.Name}
	if key.Task == queue.TaskRouting {
		return e.reconcileRouting(ctx, name)
	}
	var snap *kube.Snapshot
	err := e.runStage(ctx, stageObserve, func(ctx context.Context) (err error) {
		snap, err = e.Kube.Observe(ctx, name)
		return err
	})
	if apiclient.IsGone(err) {
		e.Fleet.ReportAbsent(name)
		return queue.Result{Err: e.cleanUpOrphans(ctx, name)}
	}
	if err != nil {
		return queue.Result{Err: fmt.Errorf("observe rollout %s: %w", name, err)}
	}
	ctx = continueTrace(ctx, snap.Seen)
	// Publish the committed transitions of earlier runs before new ones replace them in the outbox.
	if err := e.publishTransitions(ctx, snap.Seen); err != nil {
		return queue.Result{Err: err}
	}
	e.history.observeSnapshot(snap)
	remembersFleet := snap.Seen.Status.Fleet != nil
	out, err := e.reconciler.Reconcile(ctx, snap)
	e.metrics.conflicts.Add(float64(out.Conflicts))
	e.Kube.TrackAfterRun(snap)
	if apiclient.IsGone(err) {
		e.Fleet.ReportAbsent(name)
		return queue.Result{}
	}
	switch governor := snap.Seen.Spec.Fleet; {
	case err != nil:
	case governor == nil:
		e.Fleet.ReportUngoverned(name, remembersFleet)
	case out.Report != nil:
		e.Fleet.Report(name, *governor, *out.Report, snap.FleetGeneration())
	}
	wake := e.nextWake(out.WakeAt, snap.Seen.Problems, snap.Seen.Routes)
	return queue.Result{WakeAt: wake, Err: err, KeepLease: out.Busy && e.Kube.IsWatching()}
}

func (e *Executor) applyAction(ctx context.Context, snap *kube.Snapshot, action rollout.Action) error {
	e.Logger.Info("act", "namespace", snap.Seen.Namespace, "rollout", snap.Seen.Name, "action", action.String())
	return e.runAction(ctx, action, func(ctx context.Context) error { return e.Kube.ApplyAction(ctx, snap, action) })
}

func (e *Executor) commitDecision(ctx context.Context, snap *kube.Snapshot, d rollout.Decision) error {
	before, told := snap.Seen.Status.Sluice.GetState(), snap.Seen.Status.Sluice.GetTransitionSeq()
	// The run may have observed the Rollout again since it began, so the status may hold unpublished transitions of another process.
	if err := e.publishTransitions(ctx, snap.Seen); err != nil {
		return err
	}
	if err := e.runStage(ctx, stageCommit, func(ctx context.Context) error { return e.Kube.CommitStatus(ctx, snap, d.Status) }); err != nil {
		return fmt.Errorf("commit status: %w", err)
	}
	if after := d.Status.Sluice.GetState(); after != before {
		e.Logger.Info("state changed", "namespace", snap.Seen.Namespace, "rollout", snap.Seen.Name,
			"from", before, "to", after, "step", d.Status.Sluice.Step, "message", d.Status.Message)
	}
	e.metrics.countTransitions(d.Status.Sluice.Transitions, told)
	for _, note := range append(kubeEventsOf(snap.Seen, e.outbox), d.KubeEvents...) {
		e.Kube.RecordEvent(snap, note.Warning, note.Reason, note.Message)
	}
	e.history.observeSnapshot(snap)
	return e.publishTransitions(ctx, snap.Seen)
}

func (e *Executor) publishTransitions(ctx context.Context, seen rollout.Seen) error {
	if len(e.outbox.unsentTransitions(seen)) == 0 {
		return nil
	}
	return e.runStage(ctx, stagePublish, func(ctx context.Context) error { return e.outbox.publishTransitions(ctx, seen) })
}

// nextWake returns the time of the next reconciliation: at, or unreadableRetry from now if that is sooner and no event will report the change.
func (e *Executor) nextWake(at time.Time, problems []rollout.Problem, routes []rollout.Route) time.Time {
	silent := slices.ContainsFunc(problems, rollout.Problem.NeedsPolling) || slices.ContainsFunc(routes, rollout.Route.ScriptTimedOut)
	if retry := e.Clock().Add(unreadableRetry); silent && (at.IsZero() || retry.Before(at)) {
		return retry
	}
	return at
}
