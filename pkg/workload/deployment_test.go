package workload_test

import (
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"sluice.dev/sluice/pkg/rollout"
	"sluice.dev/sluice/pkg/workload"
)

// mergeMaps is a Deployment of ten replicas, changed.
func mergeMaps(changes ...func(*appsv1.Deployment)) *appsv1.Deployment {
	ten := int32(10)
	d := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "shop", UID: "u1", ResourceVersion: "7", Generation: 3},
		Spec: appsv1.DeploymentSpec{
			Replicas: &ten, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
			Template: template("web:1", map[string]string{"app": "web"}),
		},
	}
	for _, change := range changes {
		change(d)
	}
	return d
}

func template(image string, labels map[string]string) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: labels},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: image}}},
	}
}

func labelled(key, value string) func(*appsv1.Deployment) {
	return func(d *appsv1.Deployment) {
		if d.Labels == nil {
			d.Labels = map[string]string{}
		}
		d.Labels[key] = value
	}
}

func annotated(key, value string) func(*appsv1.Deployment) {
	return func(d *appsv1.Deployment) {
		if d.Annotations == nil {
			d.Annotations = map[string]string{}
		}
		d.Annotations[key] = value
	}
}

func paused(d *appsv1.Deployment) { d.Spec.Paused = true }

var (
	adopted = func(d *appsv1.Deployment) {
		labelled("rollouts.kruise.io/workload-type", "deployment")(d)
		annotated("sluice.dev/rollout", "web")(d)
	}
	inProgress    = annotated("rollouts.kruise.io/in-progressing", `{"rolloutName":"web"}`)
	pausedByOwner = annotated("sluice.dev/original.paused", "true")
)

func TestMarksOfADeployment(t *testing.T) {
	t.Parallel()
	type marks struct {
		Adopted, Held, HasMarks, Paused, OwnerPaused bool
		AdoptedBy, RolloutID                         string
	}
	cases := map[string]struct {
		d    *appsv1.Deployment
		want marks
	}{
		"one without marks":             {mergeMaps(), marks{}},
		"one that its owner has paused": {mergeMaps(paused), marks{Paused: true, OwnerPaused: true}},
		"one that is adopted":           {mergeMaps(adopted), marks{Adopted: true, HasMarks: true}},
		"one with half of the marks":    {mergeMaps(annotated("sluice.dev/rollout", "web")), marks{HasMarks: true}},
		"one of another Rollout":        {mergeMaps(adopted, annotated("sluice.dev/rollout", "other")), marks{AdoptedBy: "other"}},
		"one that is held":              {mergeMaps(adopted, inProgress, paused), marks{Adopted: true, HasMarks: true, Held: true, Paused: true}},
		"one that is held and was paused before": {
			mergeMaps(adopted, inProgress, paused, pausedByOwner), marks{Adopted: true, HasMarks: true, Held: true, Paused: true, OwnerPaused: true},
		},
		"one that is held and runs free":  {mergeMaps(inProgress), marks{Held: true, HasMarks: true}},
		"one that was held for another":   {mergeMaps(annotated("rollouts.kruise.io/in-progressing", `{"rolloutName":"other"}`)), marks{Held: true}},
		"one whose mark cannot be read":   {mergeMaps(annotated("rollouts.kruise.io/in-progressing", "[")), marks{Held: true}},
		"one with an id as a label":       {mergeMaps(labelled("rollouts.kruise.io/rollout-id", "v2")), marks{RolloutID: "v2"}},
		"one with an id as an annotation": {mergeMaps(annotated("rollouts.kruise.io/rollout-id", "v3")), marks{RolloutID: "v3"}},
		"one whose annotation is empty":   {mergeMaps(labelled("rollouts.kruise.io/rollout-id", "v2"), annotated("rollouts.kruise.io/rollout-id", "")), marks{}},
		"one with an id in both places":   {mergeMaps(labelled("rollouts.kruise.io/rollout-id", "v2"), annotated("rollouts.kruise.io/rollout-id", "v3")), marks{RolloutID: "v3"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := workload.ObserveDeployment(c.d, nil, "web")
			got := marks{w.Adopted, w.Held, w.HasMarks, w.Paused, w.OwnerPaused, w.AdoptedBy, w.RolloutID}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("what is seen differs (-want +got):\n%s", diff)
			}
		})
	}
}

func TestMaxUnavailableIsReckonedAsTheControllerDoes(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		replicas           int32
		surge, unavailable string
		want               int32
	}{
		"percentages round down":               {10, "25%", "25%", 2},
		"numbers count":                        {10, "1", "3", 3},
		"more than there are":                  {10, "1", "30", 10},
		"no surge and none may be missing":     {10, "0", "0", 1},
		"a share of few pods, without a surge": {2, "0", "25%", 1},
		"a share of few pods, with a surge":    {2, "25%", "25%", 0},
		"no pods":                              {0, "25%", "25%", 0},
		"what is no number":                    {10, "1", "many", 0},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			surge, unavailable := intstr.Parse(c.surge), intstr.Parse(c.unavailable)
			d := mergeMaps(func(d *appsv1.Deployment) {
				d.Spec.Replicas = &c.replicas
				d.Spec.Strategy.RollingUpdate = &appsv1.RollingUpdateDeployment{MaxSurge: &surge, MaxUnavailable: &unavailable}
			})
			if got := workload.ObserveDeployment(d, nil, "web").MaxUnavailable; got != c.want {
				t.Errorf("%d may be unavailable, want %d", got, c.want)
			}
		})
	}
	recreate := mergeMaps(func(d *appsv1.Deployment) { d.Spec.Strategy.Type = appsv1.RecreateDeploymentStrategyType })
	if got := workload.ObserveDeployment(recreate, nil, "web").MaxUnavailable; got != 0 {
		t.Errorf("%d may be unavailable without a rolling update", got)
	}
}

func replicaSet(hash, owner string, revision int, image string) *appsv1.ReplicaSet {
	yes, n := true, int32(revision)
	return &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{
			Name: "web-" + hash, Labels: map[string]string{"pod-template-hash": hash},
			Annotations:     map[string]string{"deployment.kubernetes.io/revision": strconv.Itoa(revision)},
			OwnerReferences: []metav1.OwnerReference{{UID: types.UID(owner), Controller: &yes}},
		},
		Spec:   appsv1.ReplicaSetSpec{Replicas: &n, Template: template(image, map[string]string{"app": "web", "pod-template-hash": hash})},
		Status: appsv1.ReplicaSetStatus{ReadyReplicas: n - 1},
	}
}

func TestReplicaSetsAreOrderedByRevision(t *testing.T) {
	t.Parallel()
	d := mergeMaps()
	orphan := replicaSet("d", "u1", 1, "web:1")
	orphan.OwnerReferences = nil
	madeLast := replicaSet("b", "u1", 9, "web:0")
	madeLast.CreationTimestamp, madeLast.Status.Replicas = metav1.Unix(1, 0), 11
	sets := []*appsv1.ReplicaSet{
		replicaSet("c", "u1", 10, "web:1"), madeLast, replicaSet("a", "another", 1, "web:1"), orphan,
	}
	revision := workload.TemplateRevision(d.Spec.Template)
	want := []rollout.Revision{
		{Hash: "b", Revision: workload.TemplateRevision(template("web:0", map[string]string{"app": "web"})), Replicas: 9, Ready: 8, Surplus: 2, CreationOrder: 1},
		{Hash: "c", Revision: revision, Replicas: 10, Ready: 9},
	}
	got := workload.ObserveDeployment(d, sets, "web")
	if diff := cmp.Diff(want, got.Revisions); diff != "" {
		t.Errorf("the sets differ (-want +got):\n%s", diff)
	}
	if got.Revision != revision || revision == want[0].Revision {
		t.Errorf("the revision is %s, and %s of another template", got.Revision, want[0].Revision)
	}
	if sets[0].Spec.Template.Labels["pod-template-hash"] != "c" {
		t.Error("the template that was looked at has changed")
	}
}
