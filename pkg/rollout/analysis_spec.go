package rollout

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"sluice.dev/sluice/pkg/api"
)

// Analysis is the analysis of a step or of a whole release, with its consequences.
type Analysis struct {
	Templates []TemplateRef
	// Args are the values in the Rollout.
	Args map[string]string
	// OnFailure is never empty.
	OnFailure           api.FailureAction
	AutoPromote, DryRun bool
	// StartingStep is the first measured step of the release, counted from 1. It is 0 in the analysis of a step.
	StartingStep int32
}

// StandsForApproval reports whether measurements that pass approve the step. A nil analysis does not.
func (a *Analysis) StandsForApproval() bool { return a != nil && a.AutoPromote && !a.DryRun }

// TemplateRef names an AnalysisTemplate of the Rollout's namespace, or a ClusterAnalysisTemplate.
type TemplateRef struct {
	Name         string
	ClusterScope bool
}

func (t TemplateRef) String() string {
	if t.ClusterScope {
		return "ClusterAnalysisTemplate/" + t.Name
	}
	return "AnalysisTemplate/" + t.Name
}

// StepAnalysis returns the analysis of a step, counted from 1; nil without one. With autoPromote, the analysis of the whole release gates each step
// without an analysis of its own.
func (s Spec) StepAnalysis(step int32) *Analysis {
	if step < 1 || int(step) > len(s.Steps) {
		return nil
	}
	if own := s.Steps[step-1].Analysis; own != nil {
		return own
	}
	if whole := s.ReleaseAnalysis; whole != nil && whole.AutoPromote && step >= whole.StartingStep {
		return whole
	}
	return nil
}

// WithoutAnalyses returns the same steps without their analyses and without that of the release.
func (s Spec) WithoutAnalyses() Spec {
	s.Steps, s.ReleaseAnalysis = slices.Clone(s.Steps), nil
	for i := range s.Steps {
		s.Steps[i].Analysis = nil
	}
	return s
}

// WithoutTemplates returns the same steps without the metrics of the templates of these names. An analysis without any other template goes.
func (s Spec) WithoutTemplates(names []string) Spec {
	without := func(a *Analysis) *Analysis {
		if a == nil {
			return nil
		}
		less := *a
		less.Templates = slices.DeleteFunc(slices.Clone(a.Templates), func(t TemplateRef) bool { return slices.Contains(names, t.Name) })
		if len(less.Templates) == 0 {
			return nil
		}
		return &less
	}
	s.Steps, s.ReleaseAnalysis = slices.Clone(s.Steps), without(s.ReleaseAnalysis)
	for i := range s.Steps {
		s.Steps[i].Analysis = without(s.Steps[i].Analysis)
	}
	return s
}

// AbortScaleDownDelay is the default of abortScaleDownDelaySeconds.
const AbortScaleDownDelay = 30 * time.Second

func parseAnalysis(a api.Analysis, onFailure api.FailureAction) *Analysis {
	parsed := &Analysis{
		Args: map[string]string{}, OnFailure: cmp.Or(a.OnFailure, onFailure, api.FailureAbort), AutoPromote: a.AutoPromote, DryRun: a.DryRun,
	}
	for _, t := range a.Templates {
		parsed.Templates = append(parsed.Templates, TemplateRef{Name: t.Name, ClusterScope: t.ClusterScope})
	}
	for _, arg := range a.Args {
		parsed.Args[arg.Name] = arg.Value
	}
	return parsed
}

// MeasuredRuns returns the runs of analysis that the analyzer must measure now; nil for none. It returns runs only in states with stable traffic: a
// measurement during a change of the traffic would mix both shares.
func MeasuredRuns(r *api.Rollout) (step, release *api.AnalysisRun) {
	m, all := r.Status.Sluice, r.Status.Analysis
	if m == nil || all == nil || r.DeletionTimestamp != nil || r.Spec.Disabled {
		return nil, nil
	}
	state := State(m.State)
	open := func(run *api.AnalysisRun) bool { return run != nil && run.EndedAt == nil && run.Epoch == m.Epoch }
	if open(all.Step) && all.Step.PauseSeq == m.PauseSeq && (state == StateAnalysis || state == StatePaused) {
		step = all.Step
	}
	if open(all.Release) && state.InStep() && state != StateTrafficRouting && state != StateCompleted {
		release = all.Release
	}
	return step, release
}

// TemplateArguments returns the standard arguments of templates under their names in [api]; interval belongs to the metric. An unknown value, such as
// the hash of a canary that does not exist, is empty.
func TemplateArguments(s Spec, r *api.Rollout) map[string]string {
	args := map[string]string{
		api.ArgNamespace: r.Namespace, api.ArgRollout: r.Name, api.ArgWorkload: s.Workload.Name,
		api.ArgStableService: "", api.ArgCanaryService: "", api.ArgStableRevision: "", api.ArgCanaryRevision: "",
		api.ArgStableHash: "", api.ArgCanaryHash: "", api.ArgStep: "0", api.ArgWeight: "0",
	}
	if len(s.Routing) > 0 { // the first of several Services, which all have the same pods
		args[api.ArgStableService], args[api.ArgCanaryService] = s.Routing[0].Service, s.Routing[0].CanaryService
	}
	if c := r.Status.Common(); c != nil {
		args[api.ArgStableRevision], args[api.ArgStableHash] = c.StableRevision, c.StableRevision
		args[api.ArgCanaryRevision], args[api.ArgCanaryHash] = *StatusRevision(&r.Status), c.PodTemplateHash
	}
	if m := r.Status.Sluice; m != nil && m.Step >= 1 && int(m.Step) <= len(s.Steps) {
		args[api.ArgStep] = strconv.Itoa(int(m.Step))
		if share, ok := TrafficShare(m.Traffic); ok {
			args[api.ArgWeight] = strings.TrimSuffix(share.String(), "%")
		}
	}
	return args
}

// AnalysisActor is the approver of a step that its metrics promoted.
const AnalysisActor = "analysis"

// FleetActor is the approver of a pause that a permit of the fleet ended, and the actor of what the hub ordered.
const FleetActor = "fleet"
