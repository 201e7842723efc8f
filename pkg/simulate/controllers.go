package simulate

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/workload"
)

var (
	deployments    = schema.GroupResource{Group: appsv1.GroupName, Resource: "deployments"}
	replicaSets    = schema.GroupResource{Group: appsv1.GroupName, Resource: "replicasets"}
	pods           = schema.GroupResource{Resource: "pods"}
	services       = schema.GroupResource{Resource: "services"}
	endpointSlices = schema.GroupResource{Group: discoveryv1.GroupName, Resource: "endpointslices"}
	revisions      = schema.GroupResource{Group: appsv1.GroupName, Resource: "controllerrevisions"}
)

// never is a limit in seconds: a pod with a longer minimum ready time never counts as available.
const never = math.MaxInt32 / 4

// runControllers runs the controllers of a namespace once. It reports whether they changed anything, and the changes that a release waits for. A release waits
// only for the endpoints of its canary Services.
func (s *store) runControllers(namespace string) (moved bool, told []string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before, was := s.version, maps.Clone(s.objects)
	for _, step := range []func(string) error{s.settleDeployments, s.settleObjects, s.settleGateways, s.collectGarbage} {
		if err := step(namespace); err != nil {
			return false, nil, err
		}
	}
	acted := s.version != before || len(s.objects) != len(was)
	if err := s.settleEndpoints(namespace); err != nil {
		return false, nil, err
	}
	for _, k := range s.allKeys() {
		if what := describeProgress(k, was[k], s.objects[k]); k.namespace == namespace && what != "" {
			told = append(told, what)
		}
	}
	if acted && len(told) == 0 {
		told = append(told, "until the controller of the workload has seen it")
	}
	return s.version != before || len(s.objects) != len(was), told, nil
}

// describeProgress describes the new progress of an object that a release waits for; "" for no new progress.
func describeProgress(k key, was, is *unstructured.Unstructured) string {
	count := func(o *unstructured.Unstructured, fields ...string) int64 {
		if o == nil {
			return 0
		}
		n, _, _ := unstructured.NestedInt64(o.Object, fields...)
		return n
	}
	switch k.GroupResource {
	case replicaSets:
		if n := count(is, "status", "readyReplicas"); n != count(was, "status", "readyReplicas") {
			return fmt.Sprintf("until ReplicaSet %s has %d ready", k.name, n)
		}
	case endpointSlices:
		n := endpointsIn(is)
		if is.GetLabels()[api.LabelRolloutUID] == "" {
			return ""
		}
		if n > 0 && n != endpointsIn(was) {
			return fmt.Sprintf("until Service %s has endpoints: %d", is.GetLabels()[discoveryv1.LabelServiceName], n)
		}
	case deployments, services, pods, revisions:
	default:
		for _, field := range []string{"updatedReplicas", "updatedNumberScheduled"} {
			n := count(is, "status", field)
			if n == 0 && count(was, "status", field) > 0 {
				return fmt.Sprintf("until the controller of %s %s has seen the new version", is.GetKind(), k.name)
			}
			if n != count(was, "status", field) {
				return fmt.Sprintf("until %s %s has %d ready in the new version", is.GetKind(), k.name, n)
			}
		}
		if was == nil || equality.Semantic.DeepEqual(was.Object["status"], is.Object["status"]) {
			return ""
		}
		if _, runs := workload.KindOfObject(is); runs {
			return fmt.Sprintf("until the controller of %s %s has seen it", is.GetKind(), k.name)
		}
		return fmt.Sprintf("until the gateway has accepted %s %s", is.GetKind(), k.name)
	}
	return ""
}

func endpointsIn(o *unstructured.Unstructured) int {
	if o == nil {
		return 0
	}
	endpoints, _, _ := unstructured.NestedSlice(o.Object, "endpoints")
	return len(endpoints)
}

func fromUnstructured[T any](o *unstructured.Unstructured) (*T, error) {
	typed := new(T)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, typed); err != nil {
		return nil, fmt.Errorf("%s %s: %w", o.GetKind(), o.GetName(), err)
	}
	return typed, nil
}

func toUnstructured(typed any, kind schema.GroupVersionKind) (*unstructured.Unstructured, error) {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(typed)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", kind.Kind, err)
	}
	o := &unstructured.Unstructured{Object: fields}
	o.SetGroupVersionKind(kind)
	return o, nil
}

// putTyped stores an object as a controller changed it.
func (s *store) putTyped(k key, typed any) error {
	next, err := toUnstructured(typed, s.objects[k].GroupVersionKind())
	if err != nil {
		return err
	}
	s.updateObject(k, next)
	return nil
}

// collectGarbage removes the objects of deleted owners, as the garbage collector does.
func (s *store) collectGarbage(namespace string) error {
	for _, k := range s.allKeys() {
		owner := metav1.GetControllerOfNoCopy(s.objects[k])
		if k.namespace == namespace && owner != nil && s.dead[owner.UID] {
			s.removeObject(k)
		}
	}
	return nil
}

func (s *store) settleDeployments(namespace string) error {
	for _, k := range s.listKeys(deployments, namespace) {
		d, err := fromUnstructured[appsv1.Deployment](s.objects[k])
		if err != nil {
			return err
		}
		if d.DeletionTimestamp != nil {
			s.finishForegroundDeletion(k)
			continue
		}
		if err := s.settleDeployment(k, d); err != nil {
			return err
		}
	}
	return nil
}

// finishForegroundDeletion ends a foreground deletion: it removes the owned ReplicaSets first.
func (s *store) finishForegroundDeletion(k key) {
	o := s.objects[k]
	for _, set := range s.ownedBy(replicaSets, o) {
		s.removeObject(set)
	}
	next := o.DeepCopy()
	next.SetFinalizers(slices.DeleteFunc(next.GetFinalizers(), func(f string) bool { return f == metav1.FinalizerDeleteDependents }))
	s.updateObject(k, next)
}

// ownSet is a ReplicaSet that its Deployment is scaling.
type ownSet struct {
	key
	*appsv1.ReplicaSet
}

func (o ownSet) desiredReplicas() int32 { return ptr.Deref(o.Spec.Replicas, 1) }
func (o ownSet) availableReplicas() int32 {
	if o.Spec.MinReadySeconds >= never {
		return 0
	}
	return o.desiredReplicas()
}

func (s *store) settleDeployment(k key, d *appsv1.Deployment) error {
	var sets []ownSet
	for _, sk := range s.ownedBy(replicaSets, s.objects[k]) {
		set, err := fromUnstructured[appsv1.ReplicaSet](s.objects[sk])
		if err != nil {
			return err
		}
		sets = append(sets, ownSet{sk, set})
	}
	revision := workload.TemplateRevision(d.Spec.Template)
	isNew := func(o ownSet) bool { return workload.TemplateRevision(o.Spec.Template) == revision }
	if !d.Spec.Paused && !slices.ContainsFunc(sets, isNew) {
		set, err := s.newSet(d, sets)
		if err != nil {
			return err
		}
		sets = append(sets, set)
	}
	rollDeployment(d, sets, isNew)
	status := appsv1.DeploymentStatus{ObservedGeneration: s.objects[k].GetGeneration(), Conditions: d.Status.Conditions}
	for _, set := range sets {
		if isNew(set) {
			set.Spec.MinReadySeconds = d.Spec.MinReadySeconds
			status.UpdatedReplicas += set.desiredReplicas()
		}
		status.Replicas += set.desiredReplicas()
		status.ReadyReplicas += set.desiredReplicas()
		status.AvailableReplicas += set.availableReplicas()
		if err := s.putSet(set); err != nil {
			return err
		}
	}
	status.UnavailableReplicas = max(0, ptr.Deref(d.Spec.Replicas, 1)-status.AvailableReplicas)
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&status)
	if err != nil {
		return fmt.Errorf("Deployment %s: %w", d.Name, err)
	}
	next := s.objects[k].DeepCopy() // its spec stays as it is written
	next.Object["status"] = fields
	s.updateObject(k, next)
	return nil
}

// putSet stores a ReplicaSet whose pods all exist and are ready.
func (s *store) putSet(set ownSet) error {
	next, err := toUnstructured(set.ReplicaSet, s.objects[set.key].GroupVersionKind())
	if err != nil {
		return err
	}
	generation := s.updateObject(set.key, next).GetGeneration()
	n := set.desiredReplicas()
	set.Status = appsv1.ReplicaSetStatus{Replicas: n, FullyLabeledReplicas: n, ReadyReplicas: n, AvailableReplicas: set.availableReplicas(), ObservedGeneration: generation}
	return s.putTyped(set.key, set.ReplicaSet)
}

// newSet returns the ReplicaSet of a Deployment's template. A cluster names it by a hash; the simulation names it by its role.
func (s *store) newSet(d *appsv1.Deployment, sets []ownSet) (ownSet, error) {
	hash := "stable"
	switch {
	case d.Labels[api.LabelRolloutUID] != "":
		hash = "canary"
	case len(sets) > 0:
		hash = "new"
	}
	for i := 2; slices.ContainsFunc(sets, func(o ownSet) bool { return o.Labels[api.LabelPodTemplateHash] == hash }); i++ {
		hash = fmt.Sprintf("new-%d", i)
	}
	template := *d.Spec.Template.DeepCopy()
	template.Labels = withEntry(template.Labels, api.LabelPodTemplateHash, hash)
	selector := d.Spec.Selector.DeepCopy()
	if selector == nil {
		return ownSet{}, fmt.Errorf("Deployment %s has no spec.selector; give it one", d.Name)
	}
	selector.MatchLabels = withEntry(selector.MatchLabels, api.LabelPodTemplateHash, hash)
	n := int32(0)
	if len(sets) == 0 {
		n = ptr.Deref(d.Spec.Replicas, 1)
	}
	set := &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Name: d.Name + "-" + hash, Namespace: d.Namespace, Labels: template.Labels,
			Annotations:     map[string]string{"deployment.kubernetes.io/revision": fmt.Sprint(len(sets) + 1)},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(d, appsv1.SchemeGroupVersion.WithKind("Deployment"))}},
		Spec: appsv1.ReplicaSetSpec{Replicas: &n, Selector: selector, Template: template, MinReadySeconds: d.Spec.MinReadySeconds},
	}
	o, err := toUnstructured(set, appsv1.SchemeGroupVersion.WithKind("ReplicaSet"))
	if err != nil {
		return ownSet{}, err
	}
	k := key{replicaSets, d.Namespace, set.Name}
	made, err := fromUnstructured[appsv1.ReplicaSet](s.createObject(k, o))
	return ownSet{k, made}, err
}

func withEntry(m map[string]string, name, value string) map[string]string {
	m = maps.Clone(m)
	if m == nil {
		m = map[string]string{}
	}
	m[name] = value
	return m
}

// rollDeployment scales ReplicaSets as far as the spec of the Deployment allows when every pod is ready at once.
func rollDeployment(d *appsv1.Deployment, sets []ownSet, isNew func(ownSet) bool) {
	want := ptr.Deref(d.Spec.Replicas, 1)
	scale := func(o ownSet, n int32) { o.Spec.Replicas = &n }
	active := slices.DeleteFunc(slices.Clone(sets), func(o ownSet) bool { return o.desiredReplicas() == 0 })
	if d.Spec.Paused {
		if len(active) == 1 {
			scale(active[0], want)
		}
		return
	}
	i := slices.IndexFunc(sets, isNew)
	fresh := sets[i]
	fresh.Spec.MinReadySeconds = d.Spec.MinReadySeconds
	if len(active) == 0 || len(active) == 1 && isNew(active[0]) {
		scale(fresh, want)
		return
	}
	surge, missing := rollingBudget(d.Spec.Strategy, want)
	for range 4 * (want + surge + 1) {
		var total, available int32
		for _, o := range sets {
			total += o.desiredReplicas()
			available += o.availableReplicas()
		}
		if more := min(want-fresh.desiredReplicas(), want+surge-total); more > 0 {
			scale(fresh, fresh.desiredReplicas()+more)
			continue
		}
		room := total - (want - missing) - (fresh.desiredReplicas() - fresh.availableReplicas())
		old := slices.IndexFunc(sets, func(o ownSet) bool { return !isNew(o) && o.desiredReplicas() > 0 })
		if room <= 0 || old < 0 {
			return
		}
		// Scale down unavailable pods first, and no more available pods than may be missing.
		spare := min(room, max(sets[old].desiredReplicas()-sets[old].availableReplicas(), available-(want-missing)))
		if spare <= 0 {
			return
		}
		scale(sets[old], sets[old].desiredReplicas()-min(spare, sets[old].desiredReplicas()))
	}
}

// rollingBudget returns the number of surge pods of a Deployment and the number of pods that may be missing. At least one of the two is above 0.
func rollingBudget(strategy appsv1.DeploymentStrategy, want int32) (surge, missing int32) {
	quarter := intstr.FromString("25%")
	first, second := &quarter, &quarter
	if r := strategy.RollingUpdate; r != nil {
		first, second = cmp.Or(r.MaxSurge, first), cmp.Or(r.MaxUnavailable, second)
	}
	surge, missing = scaledValue(first, want, true), scaledValue(second, want, false)
	if surge == 0 && missing == 0 {
		missing = 1
	}
	return surge, missing
}

func scaledValue(n *intstr.IntOrString, of int32, up bool) int32 {
	v, err := intstr.GetScaledValueFromIntOrPercent(n, int(of), up)
	if err != nil {
		return 0
	}
	return int32(v)
}

// settleGateways sets the observed generation in statuses of gateway objects that have one.
func (s *store) settleGateways(namespace string) error {
	for _, k := range s.allKeys() {
		if k.namespace != namespace || k.Group == api.Group || k.Group == appsv1.GroupName {
			continue
		}
		next := s.objects[k].DeepCopy()
		setObservedGeneration(next.Object["status"], next.GetGeneration())
		s.updateObject(k, next)
	}
	return nil
}

func setObservedGeneration(v any, generation int64) {
	switch v := v.(type) {
	case map[string]any:
		if _, tells := v["observedGeneration"]; tells && v["type"] != nil {
			v["observedGeneration"] = generation
		}
		for _, member := range v {
			setObservedGeneration(member, generation)
		}
	case []any:
		for _, element := range v {
			setObservedGeneration(element, generation)
		}
	}
}
