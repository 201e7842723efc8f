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

// AnalysisClient is a client for who measures: it sees Rollouts and templates, and writes what metrics say into the status of Rollouts. It
// is safe for concurrent use.
type AnalysisClient struct {
	client      *Client
	secretCache secretCache
}

// AnalysisOptions say how an Analysis works.
type AnalysisOptions struct {
	// Cluster is the name of the cluster in logs.
	Cluster string
	// Logger is slog.Default() when nil.
	Logger *slog.Logger
}

// NewAnalysisClient makes a client that reads everything from the API server until [AnalysisClient.Start] runs.
func NewAnalysisClient(cfg *rest.Config, o AnalysisOptions) (*AnalysisClient, error) {
	cfg = rest.CopyConfig(cfg)
	if cfg.UserAgent == "" {
		cfg.UserAgent = "sluice-analyzer"
	}
	c, err := New(cfg, Options{Cluster: o.Cluster, Logger: o.Logger})
	if err != nil {
		return nil, err
	}
	return &AnalysisClient{client: c, secretCache: secretCache{known: map[types.NamespacedName]cachedSecret{}}}, nil
}

// Start watches Rollouts and templates until ctx is done; call it once. moved is told of each Rollout that [AnalysisClient.TrackView] was called for
// when something of it has changed since; it must not block.
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

// WaitForCacheSync waits until the first list of Rollouts is in, but not for long.
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

// AnalysisView is what a Rollout wants measured now.
type AnalysisView struct {
	// Rollout is shared with others: it must not be changed.
	Rollout *api.Rollout
	Spec    rollout.Spec
	// Runs are those that are to be measured; none means that there is nothing to do.
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
	// Problem says why it cannot be measured, and what to do; empty when it can.
	Problem string
}

// ObserveRuns observes the runs of analysis of a Rollout, by the watches or, with live, by the API server's present state. The error is for
// [apiclient.IsGone], or passes by itself.
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
		return v, nil // the release is held for it, and the executor says so
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
			continue // the analysis was taken out of the Rollout, which is for the executor to end
		}
		run.DryRun = what.DryRun
		var flaws []analysisFlaw
		if err != nil {
			run.Problem = "The templates cannot be read: " + asSentence(err) + "."
		} else if run.Metrics, flaws = metricsOf(&a.client.metricParser, what, v.Rollout.Namespace, found, standard); len(flaws) > 0 {
			run.Problem = "The analysis cannot be measured: its " + flaws[0].field + " " + flaws[0].text
		}
		v.Runs = append(v.Runs, run)
	}
	return nil
}

// TrackView ends the analyzer's work on a Rollout for now. From then on, moved of [AnalysisClient.Start] is called when the Rollout, or a template
// of it, differs from the view.
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

// HasChanged reports whether something is not as Rest left it, as far as the watches have shown.
func (a *AnalysisClient) HasChanged(name types.NamespacedName) bool { return a.client.HasChanged(name) }

// WriteRuns puts what metrics say into the status, of the runs that are not nil, and the Rollout as it then is into the view. It fails
// with a conflict when the Rollout was changed since it was seen: then nothing was written.
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
