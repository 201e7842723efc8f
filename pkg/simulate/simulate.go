package simulate

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	luaconfiguration "sluice.dev/sluice/lua_configuration"
	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/executor"
	"sluice.dev/sluice/pkg/kube"
	"sluice.dev/sluice/pkg/rollout"
	"sluice.dev/sluice/pkg/script"
	"sluice.dev/sluice/pkg/trafficrouting"
)

// Options configure a simulation.
type Options struct {
	// Rollout is the Rollout of the release.
	Rollout types.NamespacedName
	// Objects are all objects, including the Rollout; a second manifest of the workload is its new version. With Config they contain only the new version.
	Objects []*unstructured.Unstructured
	// Config is the cluster to read from; nil when Objects contain everything.
	Config *rest.Config
	// ScriptDir and ScriptConfigMap are the sources of users' scripts, as for executors.
	ScriptDir       string
	ScriptConfigMap types.NamespacedName
	// Command is the name of this program in commands for users.
	Command string
	Now     time.Time
}

// maxRuns bounds the number of runs. A release with more runs never ends.
const maxRuns = 1000

// simulation is one simulated release.
type simulation struct {
	Options
	store      *store
	client     *kube.Client
	reconciler *executor.Reconciler
	scripts    *script.Library
	now        time.Time
	spec       rollout.Spec
	rec        *recorder
}

// SimulateRelease simulates a release. It returns an error for unreadable input; the report holds the refusals of the release.
func SimulateRelease(ctx context.Context, o Options) (*Report, error) {
	p := &simulation{Options: o, now: o.Now}
	p.store = newStore(func() time.Time { return p.now })
	if err := p.buildServer(ctx); err != nil {
		return nil, err
	}
	if err := p.playRelease(ctx); err != nil {
		return nil, err
	}
	return p.rec.report, nil
}

// buildServer creates the API server and its client, and loads the objects.
func (p *simulation) buildServer(ctx context.Context) error {
	server := &server{store: p.store, listed: map[string]bool{}}
	if p.Config != nil {
		var err error
		if server.beyond, err = newCluster(p.Config); err != nil {
			return err
		}
	} else {
		p.store.whole = true
		known, err := crdSchemas()
		if err != nil {
			return err
		}
		for _, o := range p.Objects {
			o = withDefaults(o)
			fillDefaults(o.Object, known[o.GetAPIVersion()+" "+o.GetKind()])
			p.store.loadObject(p.store.keyOf(o), o)
		}
	}
	config := &rest.Config{Host: "http://rehearsal.invalid", Transport: server}
	r, err := p.readRollout(ctx, config)
	if err != nil {
		return err
	}
	p.scripts = script.NewLibrary(luaconfiguration.FS, p.ScriptDir)
	p.client, err = kube.New(config, kube.Options{
		Scripts: p.scripts, ScriptConfigMap: p.ScriptConfigMap, Logger: slog.New(slog.DiscardHandler), IgnoreFleets: true,
	})
	if err != nil {
		return err
	}
	if spec, err := rollout.Parse(r); err == nil { // the release refuses an invalid Rollout
		p.spec = spec
	}
	if err := p.checkForeignManifests(); err != nil {
		return err
	}
	p.serveKinds()
	p.rec = newRecorder(p.store, r, p.spec)
	if p.spec.Fleet != nil {
		p.rec.addWarning(fmt.Sprintf("The release waits for permits of FleetRollout %s. This plan shows it with all of its permits.", p.spec.Fleet))
	}
	p.reconciler = p.newReconciler()
	return nil
}

// checkForeignManifests rejects a manifest of another object when a cluster is given, because the simulation would ignore it silently.
func (p *simulation) checkForeignManifests() error {
	if p.Config == nil {
		return nil
	}
	ref := p.spec.Workload
	for _, o := range p.Objects {
		if o.GroupVersionKind().GroupKind() != schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind).GroupKind() || o.GetName() != ref.Name || o.GetNamespace() != p.Rollout.Namespace {
			return fmt.Errorf("%s %s/%s is not the workload of Rollout %s; with --live only the new version of its workload may be given", o.GetKind(), o.GetNamespace(), o.GetName(), p.Rollout)
		}
	}
	return nil
}

// readRollout returns the Rollout before the simulation.
func (p *simulation) readRollout(ctx context.Context, config *rest.Config) (*api.Rollout, error) {
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make client: %w", err)
	}
	o, err := client.Resource(api.RolloutResource()).Namespace(p.Rollout.Namespace).Get(ctx, p.Rollout.Name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("read Rollout %s: %w", p.Rollout, err)
	}
	return fromUnstructured[api.Rollout](o)
}

func (p *simulation) rolloutKey() key {
	return key{api.RolloutResource().GroupResource(), p.Rollout.Namespace, p.Rollout.Name}
}

// serveKinds registers the kinds that the Rollout names, and the kinds that their scripts create. A missing object of such a kind is then reported as missing,
// and not as an unknown kind.
func (p *simulation) serveKinds() {
	p.store.mu.Lock()
	defer p.store.mu.Unlock()
	refs := []rollout.Ref{p.spec.Workload}
	for _, r := range p.spec.Routing {
		refs = append(refs, r.Objects...)
	}
	if o := p.store.objects[p.routingKey()]; o != nil {
		if t, err := fromUnstructured[api.TrafficRouting](o); err == nil {
			if spec, err := trafficrouting.Parse(t); err == nil {
				for _, service := range spec.Services {
					refs = append(refs, service.Objects...)
				}
			}
		}
	}
	said := p.scripts.CapabilitiesByKind(p.scriptsOfUsers())
	for _, ref := range refs {
		kind := schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind)
		p.store.serveKind(kind)
		if c := said[script.GroupKind(kind.GroupKind())]; c != nil {
			for _, made := range c.Creates {
				p.store.serveKind(schema.FromAPIVersionAndKind(made.APIVersion, made.Kind))
			}
		}
	}
}

// scriptsOfUsers returns the scripts in the ConfigMap among the manifests.
func (p *simulation) scriptsOfUsers() script.ConfigMap {
	cm := script.ConfigMap{Name: p.ScriptConfigMap.String()}
	if o := p.store.objects[key{schema.GroupResource{Resource: "configmaps"}, p.ScriptConfigMap.Namespace, p.ScriptConfigMap.Name}]; o != nil {
		cm.Data, _, _ = unstructured.NestedStringMap(o.Object, "data")
		cm.Override = o.GetAnnotations()[api.AnnotationOverride] == "true"
	}
	return cm
}

func (p *simulation) routingKey() key {
	return key{api.TrafficRoutingResource().GroupResource(), p.Rollout.Namespace, p.spec.TrafficRouting}
}

// playRelease carries the release to its end, or to the point where it stalls.
func (p *simulation) playRelease(ctx context.Context) error {
	if why := p.describeUnknownFields(); why != "" {
		p.rec.addRefusal(Refusal{Reason: string(rollout.ReasonInvalidSpec), Message: why})
		return nil
	}
	changed := false
	for range maxRuns {
		h, err := p.runUntilIdle(ctx)
		if err != nil {
			return err
		}
		p.rec.enterPhase(h.status)
		if stateOf(h.status) == rollout.StateInitializing && p.recordRefusals(h) { // the plan judges the real endpoints before the simulated controller replaces them
			return nil
		}
		if moved, err := p.advanceCluster(ctx, h); moved || err != nil {
			if err != nil {
				return err
			}
			continue
		}
		switch state := stateOf(h.status); {
		case p.recordRefusals(h):
			return nil
		case !state.Releasing() && changed:
			p.rec.closePhase()
			return nil
		case state == rollout.StateIdle && !p.canRelease(h):
			p.rec.addRefusal(Refusal{Reason: "NotReady", Message: h.status.Message})
			return nil
		case state == rollout.StateIdle:
			if err := p.changeTemplate(); err != nil {
				return err
			}
			changed = true
		case p.passMetrics():
			changed = true
		default:
			changed = true
			if over, err := p.continueRelease(h); over || err != nil {
				return err
			}
		}
	}
	return fmt.Errorf("the release of Rollout %s did not come to its end in %d rests", p.Rollout, maxRuns)
}

// describeUnknownFields describes the fields of a Rollout or TrafficRouting manifest that the API server does not know.
func (p *simulation) describeUnknownFields() string {
	for _, o := range p.Objects {
		var into any
		switch {
		case o.GroupVersionKind().Group != api.Group:
			continue
		case o.GetKind() == api.KindRollout && o.GetName() == p.Rollout.Name:
			into = &api.Rollout{}
		case o.GetKind() == api.KindTrafficRouting && o.GetName() == p.spec.TrafficRouting:
			into = &api.TrafficRouting{}
		default:
			continue
		}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(o.Object, into, true); err != nil {
			return fmt.Sprintf("%s %s: %s", o.GetKind(), o.GetName(), strings.TrimPrefix(err.Error(), "strict decoding error: "))
		}
	}
	return ""
}

// canRelease reports whether a release can begin: the executor has adopted the workload.
func (p *simulation) canRelease(h runEnd) bool { return h.status.Phase == api.PhaseHealthy }

// advanceCluster runs the other controllers of the cluster.
func (p *simulation) advanceCluster(ctx context.Context, h runEnd) (bool, error) {
	moved, told, err := p.store.runControllers(p.Rollout.Namespace)
	if err == nil && !moved {
		if moved, err = p.advanceTrafficRouting(ctx); moved {
			told = []string{"until TrafficRouting " + p.spec.TrafficRouting + " has followed"}
		}
	}
	if len(told) > 0 && stateOf(h.status).Releasing() {
		p.rec.addWait(strings.Join(told, ", "))
	}
	return moved, err
}

// continueRelease provides the approval or the time that a release waits for. over reports that the release stalls.
func (p *simulation) continueRelease(h runEnd) (over bool, err error) {
	status := h.status
	switch state := stateOf(status); {
	case state == rollout.StatePaused && h.wake.IsZero():
		p.rec.addWait(fmt.Sprintf("for approval: %s approve %s -n %s", p.Command, p.Rollout.Name, p.Rollout.Namespace))
		return false, p.approveStep()
	case !h.wake.IsZero() && h.wake.After(p.now):
		passes := (h.wake.Sub(p.now) + time.Second - 1).Truncate(time.Second) // a fraction of a second depends on the time of the plan
		what := "the pause of the step"
		if state != rollout.StatePaused {
			what = status.Message
		}
		p.rec.addWait(fmt.Sprintf("for %s: %s", passes, what))
		p.now = h.wake
		return false, nil
	}
	p.rec.addRefusal(Refusal{Step: int(status.CurrentStepIndex), Reason: "Stalled", Message: status.Message})
	return true, nil
}

// recordRefusals reports whether a user must change something before the release continues, and records the reasons.
func (p *simulation) recordRefusals(r runEnd) bool {
	i := slices.IndexFunc(r.status.Conditions, func(c api.Condition) bool { return c.Type == api.ConditionStalled && c.Message == r.status.Message })
	for _, warning := range []*rollout.Problem{r.seen.AtRisk, r.seen.Uncovered, r.seen.Torn, r.seen.Dropped} {
		if warning != nil {
			p.rec.addWarning(warning.Message)
		}
	}
	for _, problem := range r.seen.Problems {
		if !problem.Warning {
			continue
		}
		p.rec.addWarning(problem.Message)
		if i >= 0 && problem.Message == r.status.Conditions[i].Message {
			i = -1 // it is only a warning
		}
	}
	if i < 0 {
		return false
	}
	held := r.status.Conditions[i]
	told := false
	for _, route := range r.seen.Routes {
		for _, n := range slices.Sorted(maps.Keys(route.Steps)) {
			if why := route.Steps[n].Refused; why != "" && held.Reason == rollout.ReasonRouteUnsupported {
				p.rec.addRefusal(Refusal{Step: int(n), Object: route.Object.String(), Reason: string(held.Reason), Message: why})
				told = true
			}
		}
	}
	if !told {
		step := 0
		if stateOf(r.status).InStep() {
			step = int(r.status.CurrentStepIndex)
		}
		p.rec.addRefusal(Refusal{Step: step, Reason: string(held.Reason), Message: held.Message})
	}
	for _, problem := range r.seen.Problems {
		if !problem.Warning && problem.Message != held.Message {
			p.rec.addRefusal(Refusal{Reason: string(problem.Reason), Message: problem.Message})
		}
	}
	return true
}

// findWorkload returns the key and a copy of the workload; nil when it does not exist.
func (p *simulation) findWorkload() (key, *unstructured.Unstructured) {
	p.store.mu.Lock()
	defer p.store.mu.Unlock()
	kind := schema.FromAPIVersionAndKind(p.spec.Workload.APIVersion, p.spec.Workload.Kind)
	for k, o := range p.store.objects {
		if k.namespace == p.Rollout.Namespace && k.name == p.spec.Workload.Name && o.GroupVersionKind().GroupKind() == kind.GroupKind() {
			return k, o.DeepCopy()
		}
	}
	return key{}, nil
}

// changeTemplate sets the new template of the workload: the template of its second manifest, or one that differs in an annotation.
func (p *simulation) changeTemplate() error {
	at, next := p.findWorkload()
	if next == nil {
		return errors.New("the workload went in the middle of the rehearsal")
	}
	given := p.newVersionManifest(next)
	p.rec.recordNewVersion(given != nil)
	if given == nil {
		annotations, _, _ := unstructured.NestedStringMap(next.Object, "spec", "template", "metadata", "annotations")
		err := unstructured.SetNestedStringMap(next.Object, withEntry(annotations, annotationNewVersion, "new"), "spec", "template", "metadata", "annotations")
		if err != nil {
			return err
		}
		setAnnotation(next, api.AnnotationRolloutID, "") // the id belongs to the earlier version
	} else {
		template, _, err := unstructured.NestedMap(given.Object, "spec", "template")
		if err == nil {
			err = unstructured.SetNestedMap(next.Object, template, "spec", "template")
		}
		if err != nil {
			return fmt.Errorf("%s %s: %w", given.GetKind(), given.GetName(), err)
		}
		if id := given.GetLabels()[api.LabelRolloutID]; id != "" {
			next.SetLabels(withEntry(next.GetLabels(), api.LabelRolloutID, id))
		}
		setAnnotation(next, api.AnnotationRolloutID, given.GetAnnotations()[api.AnnotationRolloutID])
	}
	p.store.mu.Lock()
	defer p.store.mu.Unlock()
	p.store.updateObject(at, next)
	return nil
}

// setAnnotation sets an annotation, and removes it for the value "".
func setAnnotation(o *unstructured.Unstructured, key, value string) {
	annotations := o.GetAnnotations()
	if delete(annotations, key); value != "" {
		annotations = withEntry(annotations, key, value)
	}
	o.SetAnnotations(annotations)
}

// annotationNewVersion is the annotation that the simulation changes when no new version is given.
const annotationNewVersion = "sluice.dev/planned-version"

// newVersionManifest returns the manifest of the new version: the second one of the workload, or with a cluster the first. It returns nil without one.
func (p *simulation) newVersionManifest(workload *unstructured.Unstructured) (last *unstructured.Unstructured) {
	n := 0
	for _, o := range p.Objects {
		if o.GroupVersionKind().GroupKind() == workload.GroupVersionKind().GroupKind() && o.GetName() == workload.GetName() && o.GetNamespace() == workload.GetNamespace() {
			last, n = o, n+1
		}
	}
	if n > 1 || n == 1 && p.Config != nil {
		return withDefaults(last)
	}
	return nil
}

// updateStatus changes the status of the Rollout as another client does.
func (p *simulation) updateStatus(change func(*api.Rollout)) error {
	p.store.mu.Lock()
	defer p.store.mu.Unlock()
	k := p.rolloutKey()
	r, err := fromUnstructured[api.Rollout](p.store.objects[k])
	if err != nil {
		return err
	}
	change(r)
	return p.store.putTyped(k, r)
}

func (p *simulation) approveStep() error {
	return p.updateStatus(func(r *api.Rollout) { r.Status.Common().CurrentStepState = api.StepReady })
}

// passMetrics lets all running analyses pass, and reports whether there were any.
func (p *simulation) passMetrics() bool {
	var some []string
	err := p.updateStatus(func(r *api.Rollout) {
		if r.Status.Analysis == nil {
			return
		}
		for what, run := range map[string]*api.AnalysisRun{"the step": r.Status.Analysis.Step, "the release": r.Status.Analysis.Release} {
			if run != nil && run.EndedAt == nil && run.Phase == api.AnalysisRunning {
				now := metav1.NewMicroTime(p.now)
				run.Phase, run.Message, run.EndedAt, run.RenewBy = api.AnalysisPassed, "The rehearsal takes them for good.", &now, nil
				some = append(some, "until the metrics of "+what+" pass")
			}
		}
	})
	if err != nil || len(some) == 0 {
		return false
	}
	p.rec.addWait(strings.Join(some, " and "))
	return true
}
