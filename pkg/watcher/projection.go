package watcher

import (
	"fmt"
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
	"sluice.dev/sluice/pkg/traffic"
)

// serviceNameLabel is the label of an EndpointSlice with the name of its Service.
const serviceNameLabel = "kubernetes.io/service-name"

// rolloutFacts returns the spec as facts. As calls it returns the changes that others wrote into the status and that no
// run has taken up yet; commits change neither. The results of analyses are compared as they are, see
// [fact.urgencySince].
func (x *index) rolloutFacts(s *rolloutView) facts {
	p := x.planOf(s)
	f := facts{now: []any{s.Generation, s.Annotations[api.AnnotationRollingStyle], s.Annotations[api.AnnotationTrafficRouting]}, keptFacts: keptFacts{rollout: dependenciesOf(s, p)}}
	if call := rolloutCall(s, p); call != "" {
		f.calls = []string{call}
	}
	if c := s.status.Command; c != nil {
		f.calls = append(f.calls, fmt.Sprint("commands ", c.Action, " of release ", c.Epoch, " in pause ", c.PauseSeq))
	}
	return f
}

func rolloutCall(s *rolloutView, p *plan) string {
	if s.DeletionTimestamp == nil && !slices.Contains(s.Finalizers, api.FinalizerRollout) {
		return "no finalizer"
	}
	m, c := s.status.Sluice, s.status.currentStep()
	if m == nil || c == nil || m.Epoch == 0 {
		return ""
	}
	state, shown := rollout.State(m.State), c.CurrentStepState
	approved := shown == api.StepReady && state != rollout.StateReady
	if approved || state.InStep() && string(shown) != m.State || c.CurrentStepIndex != m.Step || c.NextStepIndex != nextIndex(s, p) {
		return fmt.Sprint("wrote ", shown, c.CurrentStepIndex, c.NextStepIndex, " into pause ", m.PauseSeq)
	}
	return ""
}

// nextIndex returns the next step that the state machine shows. If the spec cannot be parsed, it returns the step in
// the status.
func nextIndex(s *rolloutView, p *plan) int32 {
	switch {
	case p.steps == 0:
		return s.status.currentStep().NextStepIndex
	case int(s.status.Sluice.Step) >= p.steps:
		return api.NoNextStep
	}
	return s.status.Sluice.Step + 1
}

// deploymentFacts returns the spec that the owner wants, and whether the controller has reached it. The status only
// shows the progress in between.
func deploymentFacts(d *appsv1.Deployment) facts {
	labels, annotations := d.Labels, d.Annotations
	replicas := int32(1)
	if d.Spec.Replicas != nil {
		replicas = *d.Spec.Replicas
	}
	updated, total, available := d.Status.UpdatedReplicas, d.Status.Replicas, d.Status.AvailableReplicas
	observed := d.Status.ObservedGeneration >= d.Generation
	f := facts{
		keptFacts: keptFacts{claim: annotations[api.AnnotationRollout]},
		now: []any{
			templateDigest(&d.Spec.Template), d.Spec.Selector, d.Spec.Strategy, labels[api.LabelRolloutID], annotations[api.AnnotationRolloutID],
		},
		soon: []any{
			d.Generation, observed, updated, total, available,
			labels[api.LabelWorkloadType], annotations[api.AnnotationRollout], annotations[api.AnnotationInProgressing],
		},
	}
	if observed && updated >= replicas && total <= updated {
		f.calls = append(f.calls, "runs its version everywhere")
		if available >= replicas-maxUnavailable(d, replicas) {
			f.calls = append(f.calls, "runs its version everywhere, available")
		}
	}
	if labels[api.LabelRolloutUID] != "" { // an executor scales it, and waits for all pods
		f.calls = nil
		if observed && updated >= replicas && available >= replicas && replicas > 0 {
			f.calls = []string{fmt.Sprint(replicas, " pods are available")}
		}
		return f
	}
	f.now = append(f.now.([]any), replicas, d.Spec.Paused)
	_, parked := annotations[api.AnnotationOriginalPrefix+"maxSurge"]
	own, shrunk := annotations[api.AnnotationOriginalPrefix+"replicas"]
	if parked || shrunk { // each ready pod lets the release replace another one
		f.now = append(f.now.([]any), observed, updated, total, d.Status.ReadyReplicas)
	}
	if shrunk {
		f.now = append(f.now.([]any), own)
	}
	f.calls = append(f.calls, missingMarks(labels, annotations)...)
	return f
}

// templateDigest hashes the binary form, which costs a tenth of the text.
func templateDigest(t *corev1.PodTemplateSpec) factDigest {
	body, err := t.Marshal()
	if err != nil {
		return digestParts(t)
	}
	return digestOf(body)
}

func maxUnavailable(d *appsv1.Deployment, replicas int32) int32 {
	rolling := d.Spec.Strategy.RollingUpdate
	if rolling == nil || rolling.MaxUnavailable == nil {
		return 0
	}
	n, err := intstr.GetScaledValueFromIntOrPercent(rolling.MaxUnavailable, int(replicas), false)
	if err != nil {
		return 0
	}
	return int32(n)
}

// serviceFacts returns the selector of the owner. A selector for all revisions is a call, because during a release the
// Service must not have one.
func serviceFacts(svc *corev1.Service) facts {
	selector := maps.Clone(svc.Spec.Selector)
	hash := selector[api.LabelPodTemplateHash]
	delete(selector, api.LabelPodTemplateHash)
	f := facts{now: []any{selector, svc.Spec.Type, svc.Labels[api.LabelRolloutUID]}, soon: hash}
	if hash == "" {
		f.calls = []string{"selects all revisions"}
	}
	return f
}

// endpointFacts returns the number of ready endpoints of a canary. For any other Service it returns the ready pods and
// the ports.
func endpointFacts(slice *discoveryv1.EndpointSlice) facts {
	var ready []string
	for _, e := range slice.Endpoints {
		if ptr.Deref(e.Conditions.Ready, true) && !ptr.Deref(e.Conditions.Terminating, false) {
			ready = append(ready, ptr.Deref(e.TargetRef, corev1.ObjectReference{}).Name)
		}
	}
	if slice.Labels[api.LabelRolloutUID] != "" {
		return facts{now: len(ready)}
	}
	slices.Sort(ready)
	return facts{soon: []any{ready, slice.Ports}}
}

// routeFacts returns the conditions that the gateway wrote, and the namespaces that the owner allows. The content is a
// call unless an executor wrote it.
func routeFacts(u *unstructured.Unstructured) facts {
	status, _, _ := unstructured.NestedFieldNoCopy(u.Object, "status")
	annotations, live := u.GetAnnotations(), traffic.ContentDigest(u)
	f := facts{now: []any{conditionValues(status), annotations[api.AnnotationAllowNamespaces]}}
	if u.GetLabels()[api.LabelRolloutUID] != "" { // an executor created it
		f.soon, f.listed = live, releasesOn(u)
		for _, owner := range u.GetOwnerReferences() {
			of := schema.FromAPIVersionAndKind(owner.APIVersion, owner.Kind)
			f.parents = append(f.parents, object{of.Group, of.Kind, types.NamespacedName{Namespace: u.GetNamespace(), Name: owner.Name}})
		}
		return f
	}
	if u.GetNamespace() == "" {
		f.listed = releasesOn(u)
		f.soon = f.listed
	}
	if traffic.LastAppliedDigest(u) != live || annotations[api.AnnotationReleases] == "" || annotations[api.AnnotationOriginalSpec] == "" {
		f.calls = []string{live}
	}
	return f
}

// releasesOn returns the owners of the releases on an object, by kind; "" is the kind of Rollouts.
func releasesOn(u *unstructured.Unstructured) map[string][]types.NamespacedName {
	all := map[string][]types.NamespacedName{}
	for _, r := range traffic.ReleasesOn(u) {
		all[r.Kind] = append(all[r.Kind], types.NamespacedName{Namespace: r.Namespace, Name: r.Name})
	}
	return all
}

// conditionValues returns all conditions inside a gateway object's status, without their times and messages.
func conditionValues(status any) (list []any) {
	switch v := status.(type) {
	case []any:
		for _, e := range v {
			list = append(list, conditionValues(e)...)
		}
	case map[string]any:
		if v["type"] != nil && v["status"] != nil {
			return []any{v["type"], v["status"], v["observedGeneration"]}
		}
		for _, key := range slices.Sorted(maps.Keys(v)) {
			list = append(list, conditionValues(v[key])...)
		}
	}
	return list
}

func contentFacts(c *corev1.ConfigMap) facts {
	return facts{now: []any{c.Data, c.Annotations[api.AnnotationOverride]}}
}

// generationFacts cover only the existence and the spec of an object.
func generationFacts(u *unstructured.Unstructured) facts { return facts{now: u.GetGeneration()} }

// presenceFacts cover only the existence and the generation of an object.
func presenceFacts(o *metav1.PartialObjectMetadata) facts { return facts{now: o.Generation} }

// definitionFacts returns the generation, and whether the kind is established.
func definitionFacts(u *unstructured.Unstructured) facts {
	f := facts{now: u.GetGeneration(), keptFacts: keptFacts{kinds: definedKinds(u)}}
	conditions, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
	for _, c := range conditions {
		if m, ok := c.(map[string]any); ok && m["type"] == "Established" {
			f.now = []any{u.GetGeneration(), m["status"]}
		}
	}
	return f
}
