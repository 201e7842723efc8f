package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/kube/apiclient"
	"sluice.dev/sluice/pkg/rollout"
)

// AnalysisClient is the client of the analyzer. It observes Rollouts and templates, and writes the results of metrics
// into the status of Rollouts. It is safe for concurrent use.
type AnalysisClient struct {
	client      *Client
	secretCache secretCache
}

// AnalysisOptions configure an [AnalysisClient].
type AnalysisOptions struct {
	// Cluster is the name of the cluster in logs.
	Cluster string
	// Installation is where Sluice is installed; the zero value is the default installation.
	Installation api.Installation
	// Logger is slog.Default() when nil.
	Logger *slog.Logger
}

// NewAnalysisClient makes a client that reads everything from the API server until [AnalysisClient.Start] runs.
func NewAnalysisClient(cfg *rest.Config, o AnalysisOptions) (*AnalysisClient, error) {
	cfg = rest.CopyConfig(cfg)
	if cfg.UserAgent == "" {
		cfg.UserAgent = "sluice-analyzer"
	}
	c, err := New(cfg, Options{Cluster: o.Cluster, Installation: o.Installation, Logger: o.Logger})
	if err != nil {
		return nil, err
	}
	return &AnalysisClient{client: c, secretCache: secretCache{known: map[types.NamespacedName]cachedSecret{}}}, nil
}

// Start watches Rollouts and templates until ctx is done; call it once. It calls moved with a Rollout that was passed
// to [AnalysisClient.TrackView] when the Rollout or one of its templates has changed since. moved must not block.
func (a *AnalysisClient) Start(ctx context.Context, moved func(types.NamespacedName)) {
	var running sync.WaitGroup
	defer running.Wait()
	c := a.client
	c.changes.startTracking(moved)
	defer c.changes.stopTracking()
	startWatch(ctx, &running, c, "rollouts."+api.Group, c.informers.rollouts)
	c.informers.startTemplates(ctx, &running, c)
	<-ctx.Done()
}

// WaitForCacheSync waits for the first list of Rollouts, or until a timeout.
func (a *AnalysisClient) WaitForCacheSync(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, syncTimeout)
	defer cancel()
	a.client.informers.rollouts.WaitForSync(ctx)
}

// IsWatching reports whether Rollouts are watched now.
func (a *AnalysisClient) IsWatching() bool { return a.client.IsWatching() }

// Scope tells the two runs of analysis of a Rollout apart.
type Scope string

// Values of Scope.
const (
	ScopeStep    Scope = "step"
	ScopeRelease Scope = "release"
)

// AnalysisView has the measurements that a Rollout asks for now.
type AnalysisView struct {
	// Rollout is shared with others: it must not be changed.
	Rollout *api.Rollout
	Spec    rollout.Spec
	// Runs are the runs to measure; empty if there is nothing to do.
	Runs     []AnalysisRun
	snapshot *Snapshot
}

// AnalysisRun is one run of analysis.
type AnalysisRun struct {
	Scope Scope
	// Record is the run as the status has it. It is shared with others.
	Record  *api.AnalysisRun
	DryRun  bool
	Metrics []AnalysisMetric
	// Problem says why the run cannot be measured and how to correct it; empty if it can.
	Problem string
}

// ObserveRuns finds the runs of a Rollout to measure. With live it asks the API server, otherwise it takes what the
// watches have shown. [apiclient.IsGone] recognizes the error for a deleted Rollout; every other error passes by
// itself.
func (a *AnalysisClient) ObserveRuns(ctx context.Context, name types.NamespacedName, live bool) (*AnalysisView, error) {
	o := &observation{client: a.client, snapshot: &Snapshot{}, namespace: name.Namespace}
	if live {
		o.source = fromServer
	}
	a.client.changes.putVersions(name, nil)
	if err := o.readRollout(ctx, name); err != nil {
		return nil, apiclient.RolloutError("read", &api.Rollout{ObjectMeta: metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name}}, err)
	}
	v := &AnalysisView{Rollout: o.snapshot.rollout, snapshot: o.snapshot}
	step, release := rollout.MeasuredRuns(v.Rollout)
	if step == nil && release == nil {
		return v, nil
	}
	var err error
	if v.Spec, err = rollout.Parse(v.Rollout); err != nil {
		return v, nil // the executor stalls the release for it, and says so
	}
	return v, a.readRuns(ctx, o, v, step, release)
}

func (a *AnalysisClient) readRuns(ctx context.Context, o *observation, v *AnalysisView, step, release *api.AnalysisRun) error {
	asked := map[Scope]*rollout.Analysis{}
	if step != nil {
		asked[ScopeStep] = v.Spec.StepAnalysis(step.Step)
	}
	if release != nil {
		asked[ScopeRelease] = v.Spec.ReleaseAnalysis
	}
	var refs []rollout.TemplateRef
	for _, what := range asked {
		if what != nil {
			refs = append(refs, what.Templates...)
		}
	}
	found, err := o.readTemplates(ctx, refs)
	if err != nil && !apiclient.IsForbidden(err) && !api.Unserved(err) {
		return fmt.Errorf("read the templates of Rollout %s/%s: %w", v.Rollout.Namespace, v.Rollout.Name, err)
	}
	standard := rollout.TemplateArguments(v.Spec, v.Rollout)
	for _, run := range []AnalysisRun{{Scope: ScopeStep, Record: step}, {Scope: ScopeRelease, Record: release}} {
		what := asked[run.Scope]
		if run.Record == nil || what == nil {
			continue // the user removed the analysis from the Rollout, and the executor ends the run
		}
		run.DryRun = what.DryRun
		var flaws []analysisFlaw
		if err != nil {
			run.Problem = "The templates cannot be read: " + asSentence(err) + "."
		} else if run.Metrics, flaws = metricsOf(&a.client.metricParser, what, v.Rollout.Namespace, found, standard); len(flaws) > 0 {
			run.Problem = "The analysis cannot be measured: its " + flaws[0].field + " " + flaws[0].text
		}
		shareAlpha(run.Metrics, v.Rollout)
		v.Runs = append(v.Runs, run)
	}
	return nil
}

// shareAlpha gives each comparison of a Rollout in a fleet its share of alpha, by the number of clusters in the permit.
func shareAlpha(metrics []AnalysisMetric, r *api.Rollout) {
	if r.Spec.Fleet == nil || r.Status.Fleet == nil || r.Status.Fleet.Permit == nil {
		return
	}
	for i := range metrics {
		if c := metrics[i].Compare; c != nil {
			c.ShareAlpha(r.Status.Fleet.Permit.Clusters)
		}
	}
}

// TrackView says that the analyzer is done with a Rollout for now. From then on [AnalysisClient.Start] calls moved when
// the Rollout, or one of its templates, is no longer as the view has it.
func (a *AnalysisClient) TrackView(v *AnalysisView) {
	name := v.snapshot.rolloutKey()
	known := map[trackedItem]itemVersion{itemOf(rolloutItem, v.Rollout): {fingerprint: fingerprintOf(v.Rollout)}}
	for it, print := range v.snapshot.templates {
		known[it] = print
	}
	a.client.changes.putVersions(name, known)
	if a.HasChanged(name) {
		a.client.changes.notifyRollouts(trackedItem{rolloutItem, name.String()})
	}
}

// HasChanged reports whether the watches have shown a change since [AnalysisClient.TrackView].
func (a *AnalysisClient) HasChanged(name types.NamespacedName) bool { return a.client.HasChanged(name) }

// WriteRuns writes the runs that are not nil into the status, and puts the new Rollout into the view. It fails with a
// conflict when the Rollout was changed since it was observed: then it has written nothing.
func (a *AnalysisClient) WriteRuns(ctx context.Context, v *AnalysisView, step, release *api.AnalysisRun) error {
	runs := map[Scope]any{}
	for scope, run := range map[Scope]*api.AnalysisRun{ScopeStep: step, ScopeRelease: release} {
		if run != nil {
			runs[scope] = map[string]any{"phase": run.Phase, "message": run.Message, "metrics": run.Metrics, "renewBy": run.RenewBy, "endedAt": run.EndedAt}
		}
	}
	body, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": v.Rollout.UID, "resourceVersion": v.Rollout.ResourceVersion},
		"status":   map[string]any{"analysis": runs},
	})
	if err != nil {
		return err
	}
	c := a.client
	updated, err := apiclient.WithDeadline(ctx, func(ctx context.Context) (*api.Rollout, error) {
		r := &api.Rollout{}
		return r, c.rollouts.Patch(types.MergePatchType).Namespace(v.Rollout.Namespace).Resource("rollouts").Name(v.Rollout.Name).SubResource("status").
			Param("fieldManager", api.FieldManager).Body(body).Do(ctx).Into(r)
	})
	if err != nil {
		return apiclient.RolloutError("write the analysis of", v.Rollout, err)
	}
	c.informers.rollouts.StoreAnswer(updated)
	v.Rollout, v.snapshot.rollout = updated, updated
	return nil
}
