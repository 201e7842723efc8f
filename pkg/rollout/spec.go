package rollout

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"sluice.dev/sluice/pkg/api"
)

// Style is how a release brings in new pods.
type Style string

// Styles of a release.
const (
	StyleCanary    Style = "canary"
	StylePartition Style = "partition"
	StyleBlueGreen Style = "bluegreen"
)

// Spec is a Rollout's spec, parsed once into values that are valid: steps exist, indices and percentages are in range, and
// both API shapes have become one.
type Spec struct {
	Workload Ref
	Style    Style
	Disabled bool
	Paused   bool
	Steps    []Step
	// Routing is nil without traffic routing. No two entries have a Service or a gateway object in common.
	Routing []Routing
	// TrafficRouting is the name of the TrafficRouting that the release asks for, "" for none.
	TrafficRouting string
	// PatchLabels and PatchAnnotations go into the pods of the canary.
	PatchLabels, PatchAnnotations map[string]string
	// FailureThreshold is the number of updated pods that may be unready; the zero value allows none.
	FailureThreshold Amount
	// ReleaseAnalysis watches the whole release; nil for nothing.
	ReleaseAnalysis *Analysis
	// RollbackWindow is how many versions before the stable one are released without their steps.
	RollbackWindow int32
	// RollbackInBatch has a rollback go by the steps, where it can.
	RollbackInBatch bool
	// KeepPaused leaves the workload paused when the Rollout is deleted during its release.
	KeepPaused bool
	// ConstantCapacity: the stable Deployment gives up as many pods as the canary gains.
	ConstantCapacity bool
	// ProgressDeadline is how long a step may take to become ready; 0 for as long as it likes.
	ProgressDeadline time.Duration
	// OnDeadline is what follows when it has passed.
	OnDeadline api.DeadlineAction
	// AllowUnreachable: its owner accepts that a stable Service reaches no ready pod of the stable version. AllowDropped: its owner accepts that
	// pods of others get no requests through a stable Service during the release.
	AllowUnreachable, AllowDropped bool
	// AbortDelay is how long the canary is kept after an abort.
	AbortDelay time.Duration
	// Fleet is the FleetRollout that governs the Rollout, nil for none.
	Fleet *api.FleetReference
	// Unsupported names the fields whose part does not exist yet; a release with any of them is held.
	Unsupported []string
	// Hash identifies the plan, leaving out what may change at any time: pauses, analyses, deadlines and the failure threshold.
	Hash string
}

// Step is one step of the plan.
type Step struct {
	Replicas Amount
	// Weight is the canary's share of the traffic, nil when the step does not set one.
	Weight                *Percent
	Matches               []api.HTTPRouteMatch
	RequestHeaderModifier *api.HTTPHeaderFilter
	// Mirror is the share of the requests that are copied to the canary, nil for none.
	Mirror *Percent `json:",omitempty"`
	// Manual steps wait for approval, the others for Pause to pass.
	Manual bool
	Pause  time.Duration
	// Analysis is nil for a step that has none of its own.
	Analysis *Analysis
	// AllowFull: the owner accepts that the step replaces the last stable pod although it asks for less. The hash of the plan leaves this field out.
	AllowFull bool `json:"-"`
}

// RoutesTraffic reports whether the step sends traffic, or copies of it, to the canary by a gateway.
func (s Step) RoutesTraffic() bool { return s.Weight != nil || len(s.Matches) > 0 || s.Mirror != nil }

// Routing is one Service that brings traffic to the workload, and the gateway objects that route to it.
type Routing struct {
	Service string
	// CanaryService equals Service when there is no canary Service of its own.
	CanaryService string
	// Grace is spent before something goes away that traffic might still reach.
	Grace   time.Duration
	Objects []Ref
	// Only lists gateway objects with the rules that the release may change; it leaves the other rules alone.
	Only []OnlyRules `json:",omitempty"`
	// Tag marks the requests that are for canaries; nil when nothing does.
	Tag *api.TrafficTag `json:",omitempty"`
}

// OnlyRules names the rules of a gateway object that a release may touch.
type OnlyRules struct {
	Object Ref
	Rules  []string
}

// AllowedRules are the rules of a gateway object that the release may change, nil for all that lead to the Service.
func (r Routing) AllowedRules(object Ref) []string {
	for _, only := range r.Only {
		if only.Object == object {
			return only.Rules
		}
	}
	return nil
}

// SeparateService reports whether the canary has a Service of its own.
func (r Routing) SeparateService() bool { return r.Service != r.CanaryService }

// Parse reads a Rollout of either shape. The error names the first field that is wrong and how to mend it; the same rules
// stand in the admission policy.
func Parse(r *api.Rollout) (Spec, error) {
	ref, legacy, err := workloadRef(r)
	if err != nil {
		return Spec{}, err
	}
	spec := Spec{Workload: ref, Disabled: r.Spec.Disabled, Paused: r.Spec.Strategy.Paused, Fleet: r.Spec.Fleet, KeepPaused: r.Annotations[api.AnnotationKeepPaused] == "true"}
	spec.RollbackInBatch = r.Annotations[api.AnnotationRollbackInBatch] == "true"
	strategy := r.Spec.Strategy
	switch {
	case strategy.Canary == nil && strategy.BlueGreen == nil:
		return Spec{}, errors.New("Canary and BlueGreen cannot both be empty")
	case strategy.Canary != nil && strategy.BlueGreen != nil:
		return Spec{}, errors.New("Canary and BlueGreen cannot both be set")
	}
	if strategy.RollbackWindow != nil {
		spec.RollbackWindow = strategy.RollbackWindow.Revisions
	}
	spec.AllowUnreachable, spec.AllowDropped = strategy.AllowUnreachableStable, strategy.AllowDroppedEndpoints
	plan := planOf(strategy)
	spec.Style = StyleOf(r)
	if spec.Style == StyleBlueGreen && !ref.IsDeployment() && !ref.IsCloneSet() {
		return Spec{}, errors.New("blueGreen releases a Deployment (apps) or a CloneSet (apps.kruise.io) only")
	}
	if spec.Steps, err = parseSteps(plan, spec.Style, legacy); err != nil {
		return Spec{}, err
	}
	if spec.Routing, err = parseRoutings(plan); err != nil {
		return Spec{}, err
	}
	if spec.TrafficRouting, err = trafficRoutingName(r, plan); err != nil {
		return Spec{}, err
	}
	if spec.Style == StyleCanary { // the pods of the workload itself are its owner's
		spec.PatchLabels, spec.PatchAnnotations = plan.podMetadata()
	}
	if plan.failureThreshold != "" {
		if spec.FailureThreshold, err = ParseAmount(plan.failureThreshold); err != nil {
			return Spec{}, fmt.Errorf("failureThreshold must be a number from 0 on, or a percentage: %w", err)
		}
	}
	if a := strategy.Analysis; a != nil {
		spec.ReleaseAnalysis = parseAnalysis(a.Analysis, plan.onFailure)
		spec.ReleaseAnalysis.StartingStep = 1
		if a.StartingStep != nil {
			spec.ReleaseAnalysis.StartingStep = *a.StartingStep
		}
		if int(spec.ReleaseAnalysis.StartingStep) > len(spec.Steps) {
			return Spec{}, fmt.Errorf("analysis.startingStep must be the number of a step, from 1 to %d", len(spec.Steps))
		}
	}
	spec.ProgressDeadline, spec.OnDeadline = time.Duration(plan.deadline)*time.Second, plan.onDeadline
	spec.AbortDelay = AbortScaleDownDelay
	if plan.abortDelay != nil {
		spec.AbortDelay = time.Duration(*plan.abortDelay) * time.Second
	}
	spec.ConstantCapacity = spec.Style == StyleCanary && strategy.Canary.Capacity == api.CapacityConstant
	spec.Unsupported = unsupportedFields(r, spec, plan)
	spec.Hash = PlanHash(spec)
	return spec, nil
}

// workloadRef finds the workload in either shape. legacy reports the v1alpha1 shape, whose absent style means canary.
func workloadRef(r *api.Rollout) (ref Ref, legacy bool, err error) {
	old := r.Spec.ObjectRef != nil
	if old && r.Spec.WorkloadRef != nil {
		return Ref{}, false, errNoForm()
	}
	named := r.Spec.Workload()
	if named == nil {
		return Ref{}, false, errNoForm()
	}
	return RefOf(*named), old, nil
}

func errNoForm() error {
	return errors.New("exactly one of workloadRef (the v1beta1 form) and objectRef.workloadRef (the v1alpha1 form) must be set")
}

// StyleOf is the style that a Rollout asks for, valid or not; empty without a strategy. Only a Deployment can have a second workload for the canary.
func StyleOf(r *api.Rollout) Style {
	ref, legacy := r.Spec.Workload(), r.Spec.ObjectRef != nil
	switch {
	case r.Spec.Strategy.BlueGreen != nil:
		return StyleBlueGreen
	case r.Spec.Strategy.Canary == nil:
		return ""
	case ref != nil && !RefOf(*ref).IsDeployment():
		return StylePartition
	case legacy && !strings.EqualFold(r.Annotations[api.AnnotationRollingStyle], api.RollingStylePartition):
		return StyleCanary
	case r.Spec.Strategy.Canary.EnableExtraWorkloadForCanary:
		return StyleCanary
	}
	return StylePartition
}

// plan is what canary and blue-green strategies have in common.
type plan struct {
	field            string
	steps            []api.Step
	routings         []api.TrafficRoutingRef
	failureThreshold string
	metadata         *api.PodTemplateMetadata
	sharedService    bool
	routingRef       string
	onFailure        api.FailureAction
	deadline         int32
	onDeadline       api.DeadlineAction
	abortDelay       *int32
}

func planOf(s api.Strategy) plan {
	if b := s.BlueGreen; b != nil {
		p := plan{
			field: "blueGreen", steps: b.Steps, routings: b.TrafficRoutings, routingRef: b.TrafficRoutingRef,
			onFailure: b.OnFailure, onDeadline: b.OnDeadline, abortDelay: b.AbortScaleDownDelaySeconds,
		}
		if b.ProgressDeadlineSeconds != nil {
			p.deadline = *b.ProgressDeadlineSeconds
		}
		p.sharedService = b.DisableGenerateCanaryService != nil && *b.DisableGenerateCanaryService
		if b.FailureThreshold != nil {
			p.failureThreshold = b.FailureThreshold.String()
		}
		return p
	}
	c := s.Canary
	p := plan{
		field: "canary", steps: c.Steps, routings: c.TrafficRoutings, routingRef: c.TrafficRoutingRef, metadata: c.PatchPodTemplateMetadata,
		onFailure: c.OnFailure, onDeadline: c.OnDeadline, abortDelay: c.AbortScaleDownDelaySeconds,
	}
	if c.ProgressDeadlineSeconds != nil {
		p.deadline = *c.ProgressDeadlineSeconds
	}
	p.sharedService = c.DisableGenerateCanaryService != nil && *c.DisableGenerateCanaryService
	if c.FailureThreshold != nil {
		p.failureThreshold = c.FailureThreshold.String()
	}
	return p
}

// podMetadata merges the two places where pod metadata may be given; the routing's own wins.
func (p plan) podMetadata() (labels, annotations map[string]string) {
	labels, annotations = map[string]string{}, map[string]string{}
	merge := func(m *api.PodTemplateMetadata) {
		if m == nil {
			return
		}
		for k, v := range m.Labels {
			labels[k] = v
		}
		for k, v := range m.Annotations {
			annotations[k] = v
		}
	}
	merge(p.metadata)
	for _, r := range p.routings {
		merge(r.PatchPodTemplateMetadata)
		if r.Tag != nil && r.Tag.Label != "" {
			labels[r.Tag.Label] = r.Tag.Value
		}
	}
	return labels, annotations
}

func parseSteps(p plan, style Style, legacy bool) ([]Step, error) {
	if len(p.steps) == 0 {
		return nil, errors.New("steps must hold at least one step")
	}
	parsed := make([]Step, 0, len(p.steps))
	for i, s := range p.steps {
		step, err := parseStep(s, style, legacy)
		if err != nil {
			return nil, fmt.Errorf("step %d: %w", i+1, err)
		}
		if s.Analysis != nil {
			step.Analysis = parseAnalysis(*s.Analysis, p.onFailure)
		}
		if i > 0 {
			before := parsed[i-1].Replicas
			if before.Percent == step.Replicas.Percent && before.Value > step.Replicas.Value {
				return nil, fmt.Errorf("step %d: replicas must not be less than in the step before", i+1)
			}
		}
		parsed = append(parsed, step)
	}
	return parsed, nil
}

func parseStep(s api.Step, style Style, legacy bool) (Step, error) {
	step := Step{Matches: s.Matches, RequestHeaderModifier: s.RequestHeaderModifier, Manual: s.Pause.Duration == nil, AllowFull: s.AllowFullStep}
	if !step.Manual {
		step.Pause = time.Duration(*s.Pause.Duration) * time.Second
	}
	err := checkRequests(s)
	if err != nil {
		return Step{}, err
	}
	if step.Weight, err = parseWeight(s, style, legacy); err != nil {
		return Step{}, err
	}
	if s.Mirror != nil {
		share, ok := parseShare(cmp.Or(s.Mirror.Traffic, "100%"))
		if !ok || share == 0 {
			return Step{}, errors.New("mirror.traffic must be a percentage above 0% and up to 100%")
		}
		step.Mirror = &share
	}
	switch {
	case s.Replicas != nil:
		if step.Replicas, err = ParseAmount(s.Replicas.String()); err != nil {
			return Step{}, errReplicas()
		}
	case legacy && step.Weight != nil:
		step.Replicas = Amount{Value: int32(math.Ceil(float64(*step.Weight))), Percent: true}
	default:
		return Step{}, errors.New("replicas is required: set a number or a percentage of the pods")
	}
	if step.Replicas.Value == 0 || step.Replicas.Percent && step.Replicas.Value > 100 {
		return Step{}, errReplicas()
	}
	return step, nil
}

func errReplicas() error {
	return errors.New("replicas must be a number above 0, or a percentage above 0% and up to 100%")
}

// checkRequests judges what a step says of single requests.
func checkRequests(s api.Step) error {
	for _, m := range s.Matches {
		if m.Cookie != nil && slices.ContainsFunc(m.Headers, func(h api.HTTPHeaderMatch) bool { return strings.EqualFold(h.Name, "Cookie") }) {
			return errors.New("a match has a condition on the header Cookie and one on a cookie, which is in that header: keep one")
		}
		if p := m.Path; p != nil && p.Value != nil && !strings.HasPrefix(*p.Value, "/") && (p.Type == nil || *p.Type != api.MatchRegularExpression) {
			return errors.New("the path of a match must start with a slash")
		}
	}
	return nil
}

// PlanHash identifies the steps and the routing of a spec; pauses and analyses may change at any time and are left out.
func PlanHash(s Spec) string {
	steps := make([]Step, len(s.Steps))
	for i, step := range s.Steps {
		step.Manual, step.Pause, step.Analysis = false, 0, nil
		steps[i] = step
	}
	plan := struct {
		Style   Style
		Steps   []Step
		Routing *Routing
		Labels  map[string]string
		Notes   map[string]string
		Further []Routing `json:",omitempty"` // releases under way know a plan with one by its hash
		Asked   string    `json:",omitempty"`
		// Shrinks is Constant.
		Shrinks bool `json:",omitempty"`
	}{Style: s.Style, Steps: steps, Labels: s.PatchLabels, Notes: s.PatchAnnotations, Asked: s.TrafficRouting, Shrinks: s.ConstantCapacity}
	if len(s.Routing) > 0 {
		plan.Routing, plan.Further = &s.Routing[0], s.Routing[1:]
	}
	body, err := json.Marshal(plan)
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:8])
}

// InBatches reports whether rollbacks go by the steps, and why they do not where that is asked for.
func (s Spec) InBatches() (yes bool, why string) {
	switch ref := s.Workload; {
	case !s.RollbackInBatch:
		return false, ""
	case ref.IsDeployment() || ref.Kind == "DaemonSet":
		return false, fmt.Sprintf("it is for StatefulSets and CloneSets, and %s is neither", ref)
	case s.Style != StylePartition:
		return false, "the pods of the stable version still run in parallel with the new ones"
	case len(s.Routing) > 0 || s.TrafficRouting != "":
		return false, "traffic is routed, and all of it leaves the version that is taken back first"
	}
	return true, ""
}

// StepPasses reports whether a step passes by itself regardless of its pause: the last one does with all replicas, unless stable pods run in
// parallel.
func (s Spec) StepPasses(n int32) bool {
	return n > 0 && int(n) == len(s.Steps) && s.Steps[n-1].Replicas == Amount{Value: 100, Percent: true} && s.Style != StyleBlueGreen
}

// WaitsForApproval reports whether a step waits until a user approves it, or metrics stand for that.
func (s Spec) WaitsForApproval(n int32) bool {
	step, _ := s.Step(n)
	return step.Manual && !s.StepPasses(n)
}

// Step returns a step by its number, counted from 1; the zero value if the plan does not have it. A blue-green release has one more step after the
// written ones: all traffic on all pods of the new version, before the old ones go.
func (s Spec) Step(n int32) (step Step, ok bool) {
	switch {
	case n < 1 || n > s.LastStep():
		return Step{}, false
	case int(n) > len(s.Steps):
		return Step{Replicas: Amount{Value: 100, Percent: true}, Weight: new(Percent(100))}, true
	}
	return s.Steps[n-1], true
}

// LastStep is the number of the last step; for a blue-green release, of the one after the written steps.
func (s Spec) LastStep() int32 {
	n := int32(len(s.Steps))
	if s.Style == StyleBlueGreen && s.Routing != nil {
		n++
	}
	return n
}

var errTwoTrafficRoutings = errors.New("trafficRoutingRef and the annotation " + api.AnnotationTrafficRouting + " name different TrafficRoutings; keep one of them")

// trafficRoutingName is the TrafficRouting that a Rollout names, in either place.
func trafficRoutingName(r *api.Rollout, p plan) (string, error) {
	annotated := r.Annotations[api.AnnotationTrafficRouting]
	switch {
	case p.routingRef == "" || p.routingRef == annotated:
		return annotated, nil
	case annotated == "":
		return p.routingRef, nil
	}
	return "", errTwoTrafficRoutings
}

// NextStepIndex is the step that follows one of so many steps, api.NoNextStep after the last. Steps count from 1.
func NextStepIndex(step int32, steps int) int32 {
	if int(step) >= steps {
		return api.NoNextStep
	}
	return step + 1
}
