package simulate

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/diff"
	"sluice.dev/sluice/pkg/kube"
	"sluice.dev/sluice/pkg/planner"
	"sluice.dev/sluice/pkg/release"
	"sluice.dev/sluice/pkg/rollout"
)

// Report is the result of a simulated release.
type Report struct {
	Namespace string `json:"namespace"`
	Rollout   string `json:"rollout"`
	Workload  string `json:"workload"`
	// NewVersion is the source of the new template: manifest, made up, or under way.
	NewVersion string    `json:"newVersion"`
	Phases     []Phase   `json:"phases"`
	Warnings   []string  `json:"warnings,omitempty"` // problems that do not stop it
	Refusals   []Refusal `json:"refusals,omitempty"` // empty means that the plan can be carried out
}

// Phase is a part of a release: the preparation, one of the steps, or the end.
type Phase struct {
	Name      string   `json:"name"`
	Step      int      `json:"step,omitempty"`   // from 1 on
	Asks      string   `json:"asks,omitempty"`   // the replicas and the traffic of the step
	Result    *Result  `json:"result,omitempty"` // the state after the step
	Events    []Event  `json:"events,omitempty"`
	Changes   []Change `json:"changes,omitempty"` // since the end of the phase before
	Unchanged []string `json:"unchanged,omitempty"`
}

// Result is the traffic and the pods of a step after the executor has carried it out.
type Result struct {
	// Traffic is the share of the requests that the new version gets, such as 10%, or matches; "" where the number of pods decides.
	Traffic    string `json:"traffic,omitempty"`
	NewPods    int32  `json:"newPods"`
	StablePods int32  `json:"stablePods"`
}

func (r Result) String() string {
	pods := fmt.Sprintf("pods: %d new, %d stable", r.NewPods, r.StablePods)
	if r.Traffic == "" {
		return pods
	}
	return "traffic " + r.Traffic + ", " + pods
}

// Event is one action or one wait. Events are in order.
type Event struct {
	Does  string `json:"does,omitempty"`
	Waits string `json:"waits,omitempty"`
}

// Change is the change of one object.
type Change struct {
	Object string   `json:"object"` // Kind name
	Change string   `json:"change"` // created, changed or deleted
	Diff   []string `json:"diff,omitempty"`
}

// Refusal is a reason why the release stops.
type Refusal struct {
	Step    int    `json:"step,omitempty"`
	Object  string `json:"object,omitempty"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// recorder writes a report.
type recorder struct {
	report  *Report
	store   *store
	steps   []string
	named   []string // objects that the report names even if they do not change
	before  map[key]*unstructured.Unstructured
	begun   bool
	current *Phase
}

func newRecorder(s *store, r *api.Rollout, spec rollout.Spec) *recorder {
	rec := &recorder{
		store: s, before: map[key]*unstructured.Unstructured{}, current: &Phase{Name: "Before the release"},
		report: &Report{Namespace: r.Namespace, Rollout: r.Name, Workload: spec.Workload.String(), NewVersion: "under way"},
	}
	rec.steps = release.DescribeSteps(r)
	rec.named = append(rec.named, spec.Workload.String())
	for _, routing := range spec.Routing {
		rec.named = append(rec.named, "Service "+routing.Service)
		for _, o := range routing.Objects {
			rec.named = append(rec.named, o.String())
		}
	}
	return rec
}

// recordNewVersion notes that the workload has its new template.
func (c *recorder) recordNewVersion(given bool) {
	c.begun, c.report.NewVersion = true, "made up"
	if given {
		c.report.NewVersion = "manifest"
	}
	c.beginPhase(Phase{Name: "The release begins"})
}

// recordDecision records a decision that the executor is about to carry out.
func (c *recorder) recordDecision(snap *kube.Snapshot, d rollout.Decision) {
	c.recordResult(d.Status, snap.Seen)
	c.enterPhase(d.Status)
	for _, note := range d.KubeEvents {
		if note.Reason == planner.ReasonSameRolloutID { // the new version rolls out without the steps
			c.addRefusal(Refusal{Reason: note.Reason, Message: note.Message})
		}
	}
}

// recordResult records the result of the step under way when the executor has routed its traffic.
func (c *recorder) recordResult(s api.RolloutStatus, seen rollout.Seen) {
	if s.Sluice == nil || seen.Workload == nil {
		return
	}
	for _, t := range s.Sluice.Transitions {
		if rollout.State(t.To) == rollout.StateInitializing {
			c.current.Result = nil // the earlier transitions belong to another release
		}
		if rollout.State(t.To) != rollout.StateAnalysis || int(t.Step) != c.current.Step {
			continue
		}
		result := Result{Traffic: t.Traffic, NewPods: newPods(s)}
		for _, set := range seen.Workload.Revisions {
			if set.Hash == s.Sluice.StableRevision {
				result.StablePods = set.Replicas
			}
		}
		c.current.Result = &result
	}
}

func newPods(s api.RolloutStatus) int32 {
	switch {
	case s.BlueGreenStatus != nil:
		return s.BlueGreenStatus.UpdatedReplicas
	case s.CanaryStatus != nil:
		return s.CanaryStatus.CanaryReplicas
	}
	return 0
}

// enterPhase begins the phase of a status.
func (c *recorder) enterPhase(s api.RolloutStatus) {
	state := stateOf(s)
	switch {
	case state.InStep():
		n := int(s.Sluice.Step)
		c.begun = true
		next := Phase{Name: fmt.Sprintf("Step %d of %d", n, len(c.steps)), Step: n}
		if n >= 1 && n <= len(c.steps) {
			next.Asks = c.steps[n-1]
		}
		c.beginPhase(next)
	case state == rollout.StateFinalising, state == rollout.StateIdle && c.begun && c.current.Name != "The release begins":
		c.beginPhase(Phase{Name: "The end"})
	}
}

func (c *recorder) beginPhase(next Phase) {
	if c.current.Name == next.Name {
		return
	}
	c.closePhase()
	c.current = &next
}

func (c *recorder) addAction(what string) {
	c.current.Events = append(c.current.Events, Event{Does: what})
}

func (c *recorder) addWait(what string) {
	if n := len(c.current.Events); n > 0 && c.current.Events[n-1].Waits == what {
		return
	}
	c.current.Events = append(c.current.Events, Event{Waits: what})
}

func (c *recorder) addRefusal(r Refusal) {
	if !slices.Contains(c.report.Refusals, r) {
		c.report.Refusals = append(c.report.Refusals, r)
	}
	c.closePhase()
}

func (c *recorder) addWarning(what string) {
	if !slices.Contains(c.report.Warnings, what) {
		c.report.Warnings = append(c.report.Warnings, what)
	}
}

// closePhase ends the current phase and records the changes of objects.
func (c *recorder) closePhase() {
	c.store.mu.Lock()
	defer c.store.mu.Unlock()
	phase := c.current
	keys := map[key]bool{}
	for _, some := range []map[key]*unstructured.Unstructured{c.before, c.store.objects, c.store.origins} {
		for k := range some {
			keys[k] = isReported(k)
		}
	}
	for _, k := range slices.SortedFunc(maps.Keys(keys), compareKeys) {
		if keys[k] {
			c.addChange(phase, k)
		}
	}
	if len(phase.Events) > 0 || len(phase.Changes) > 0 {
		c.report.Phases = append(c.report.Phases, *phase)
	}
	c.before = maps.Clone(c.store.objects)
	for k := range c.store.gone {
		c.before[k] = nil
	}
	c.current = &Phase{Name: phase.Name, Step: phase.Step}
}

func (c *recorder) addChange(phase *Phase, k key) {
	was, known := c.before[k]
	if !known {
		was = c.store.origins[k]
	}
	is := c.store.objects[k]
	if was == nil && is == nil {
		return
	}
	change, of := Change{Change: "changed"}, is
	switch {
	case was == nil:
		change.Change = "created"
	case is == nil:
		change.Change, of = "deleted", was
	}
	change.Object = of.GetKind() + " " + of.GetName()
	lines, err := diff.CompareObjects("before", ownerFields(was), "after", ownerFields(is))
	if err != nil {
		lines = []string{err.Error()}
	}
	switch {
	case len(lines) > 2:
		change.Diff = lines[2:]
		phase.Changes = append(phase.Changes, change)
	case slices.Contains(c.named, change.Object):
		phase.Unchanged = append(phase.Unchanged, change.Object)
	}
}

// isReported reports whether the report includes an object: objects that users write, and the objects that replace those in a release.
func isReported(k key) bool {
	switch k.GroupResource {
	case replicaSets, pods, endpointSlices, revisions:
		return false
	}
	switch k.Resource {
	case "rollouts", "events", "configmaps", "analysistemplates", "clusteranalysistemplates", "secrets":
		return false
	}
	return k.Group != "admissionregistration.k8s.io"
}

// ownerFields returns an object as its owner could have written it, without the fields that the API server and Sluice add; nil for nil.
func ownerFields(o *unstructured.Unstructured) map[string]any {
	if o == nil {
		return nil
	}
	o = o.DeepCopy()
	delete(o.Object, "status")
	for _, field := range []string{"uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "deletionTimestamp"} {
		unstructured.RemoveNestedField(o.Object, "metadata", field)
	}
	annotations := o.GetAnnotations()
	for name := range annotations {
		switch name {
		case "kubectl.kubernetes.io/last-applied-configuration", "deployment.kubernetes.io/revision",
			api.AnnotationOriginalSpec, api.AnnotationReleases, api.AnnotationRendered:
			delete(annotations, name)
		}
	}
	if len(annotations) == 0 {
		annotations = nil
	}
	o.SetAnnotations(annotations)
	if owners, _, _ := unstructured.NestedSlice(o.Object, "metadata", "ownerReferences"); len(owners) > 0 {
		for _, owner := range owners {
			if fields, ok := owner.(map[string]any); ok {
				delete(fields, "uid")
			}
		}
		_ = unstructured.SetNestedSlice(o.Object, owners, "metadata", "ownerReferences") // the list was read from this field
	}
	pruneEmpty(o.Object)
	return o.Object
}

// pruneEmpty drops additions of encoders: nulls, and empty objects in fields that are never intentionally empty.
func pruneEmpty(fields map[string]any) {
	for name, v := range fields {
		switch v := v.(type) {
		case nil:
			delete(fields, name)
		case map[string]any:
			pruneEmpty(v)
			if len(v) == 0 && strings.Contains(" resources strategy metadata labels ", " "+name+" ") {
				delete(fields, name)
			}
		case []any:
			for _, e := range v {
				if m, ok := e.(map[string]any); ok {
					pruneEmpty(m)
				}
			}
		}
	}
}

// DescribeVersion describes the source of the new version.
func (r Report) DescribeVersion() string {
	switch r.NewVersion {
	case "manifest":
		return "to the version of its second manifest"
	case "made up":
		return "to a version that differs in an annotation"
	}
	return "as it is now"
}

// String names the step, the object, the reason and what to do.
func (r Refusal) String() string {
	var where []string
	if r.Step > 0 {
		where = append(where, fmt.Sprintf("step %d", r.Step))
	}
	if r.Object != "" {
		where = append(where, r.Object)
	}
	where = append(where, r.Reason)
	return strings.Join(where, ", ") + ": " + r.Message
}
