package workload_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sluice.dev/sluice/pkg/rollout"
	"sluice.dev/sluice/pkg/workload"
)

func canaryOf() workload.CanaryOf {
	return workload.CanaryOf{
		Name: "web-canary", Replicas: 2, Epoch: 4, Revision: "r2", RolloutName: "shop", RolloutUID: "u9",
		PatchLabels: map[string]string{"track": "canary"}, PatchAnnotations: map[string]string{"note": "new"},
	}
}

func TestTheCanaryIsACopyWithItsOwnPods(t *testing.T) {
	t.Parallel()
	stable := mergeMaps(adopted, inProgress, paused, labelled("team", "shop"), labelled("app.kubernetes.io/instance", "shop"),
		labelled("rollouts.kruise.io/rollout-id", "v2"), annotated("kubectl.kubernetes.io/last-applied-configuration", "{}"),
		annotated("argocd.argoproj.io/tracking-id", "x"), annotated("meta.helm.sh/release-name", "x"),
		annotated("deployment.kubernetes.io/revision", "8"), annotated("contact", "ops"),
		func(d *appsv1.Deployment) { d.Spec.MinReadySeconds = 7 })
	before := stable.DeepCopy()
	of := canaryOf()
	of.ReplicaSets = []*appsv1.ReplicaSet{
		replicaSet("ddd", "u1", 3, "web:0"), replicaSet("bbb", "u1", 1, "web:0"), replicaSet("old", "u1", 0, "web:0"), replicaSet("stranger", "u7", 1, "web:1"),
	}
	got, err := workload.NewCanary(stable, of)
	if err != nil {
		t.Fatal(err)
	}
	yes, no, two := true, false, int32(2)
	pods := map[string]string{"app": "web", "track": "canary"}
	want := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{
			Name: "web-canary", Namespace: "shop",
			Labels:          map[string]string{"team": "shop", "sluice.dev/rollout-uid": "u9", "rollouts.kruise.io/canary-deployment": "web"},
			Annotations:     map[string]string{"contact": "ops", "sluice.dev/rollout": "shop", "sluice.dev/epoch": "4", "sluice.dev/revision": "r2"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "Deployment", Name: "web", UID: "u1", Controller: &yes, BlockOwnerDeletion: &no}},
		},
		Spec: appsv1.DeploymentSpec{
			Replicas: &two, MinReadySeconds: 7, Template: template("web:1", pods),
			Selector: &metav1.LabelSelector{
				MatchLabels:      map[string]string{"app": "web"},
				MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "pod-template-hash", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"bbb", "ddd"}}},
			},
		},
	}
	want.Spec.Template.Annotations = map[string]string{"note": "new"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the canary differs (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(before, stable); diff != "" {
		t.Errorf("making a canary changed the stable Deployment (-before +after):\n%s", diff)
	}
}

// If pods with the hash of the canary run already, or if the executor sees no ReplicaSet, a label tells the pods of the canary apart.
func TestTheCanaryHasALabelOfItsOwnWherePodsOfItsTemplateRun(t *testing.T) {
	t.Parallel()
	for name, sets := range map[string][]*appsv1.ReplicaSet{
		"its template runs": {replicaSet("aaa", "u1", 1, "web:1"), replicaSet("bbb", "u1", 3, "web:0")},
		"nothing runs":      {replicaSet("aaa", "u1", 0, "web:1")},
		"no ReplicaSet":     nil,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			of := canaryOf()
			of.PatchLabels, of.PatchAnnotations, of.ReplicaSets = nil, nil, sets
			canary, err := workload.NewCanary(mergeMaps(), of)
			if err != nil {
				t.Fatal(err)
			}
			labels := map[string]string{"app": "web", "sluice.dev/rollout-uid": "u9"}
			if diff := cmp.Diff([]any{labels, &metav1.LabelSelector{MatchLabels: labels}}, []any{canary.Spec.Template.Labels, canary.Spec.Selector}); diff != "" {
				t.Errorf("labels of its pods, and selector (-want +got):\n%s", diff)
			}
		})
	}
}

func TestALongNameGoesIntoNoLabel(t *testing.T) {
	t.Parallel()
	canary, err := workload.NewCanary(mergeMaps(func(d *appsv1.Deployment) { d.Name = strings.Repeat("w", 64) }), canaryOf())
	if err != nil {
		t.Fatal(err)
	}
	if name, ok := canary.Labels["rollouts.kruise.io/canary-deployment"]; ok {
		t.Errorf("the label is %s", name)
	}
}

func TestACanaryThatItsSelectorWouldMissIsRefused(t *testing.T) {
	t.Parallel()
	notCanary := func(d *appsv1.Deployment) {
		d.Spec.Selector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "track", Operator: metav1.LabelSelectorOpDoesNotExist}}
	}
	cases := map[string]struct {
		stable *appsv1.Deployment
		labels map[string]string
		says   string
	}{
		"a label of the selector":            {mergeMaps(), map[string]string{"app": "other"}, `the label app of patchPodTemplateMetadata is "other", but Deployment web selects its pods by app=web`},
		"a label that an expression forbids": {mergeMaps(notCanary), map[string]string{"track": "canary"}, "out of the selector of Deployment web (app=web,!track)"},
		"no selector":                        {mergeMaps(func(d *appsv1.Deployment) { d.Spec.Selector = nil }), nil, "has no selector"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			of := canaryOf()
			of.PatchLabels = c.labels
			if _, err := workload.NewCanary(c.stable, of); err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("the error is %v", err)
			}
		})
	}
	same := canaryOf()
	same.PatchLabels = map[string]string{"app": "web"}
	if _, err := workload.NewCanary(mergeMaps(), same); err != nil {
		t.Errorf("the same value as in the selector is refused: %v", err)
	}
}

func TestACanaryIsSeenAsItWasMade(t *testing.T) {
	t.Parallel()
	d, err := workload.NewCanary(mergeMaps(), canaryOf())
	if err != nil {
		t.Fatal(err)
	}
	d.UID, d.Generation, d.Status = "u2", 2, appsv1.DeploymentStatus{ObservedGeneration: 1, UpdatedReplicas: 2, AvailableReplicas: 1}
	set := replicaSet("abc", "u2", 1, "web:1")
	set.Spec.Template = *d.Spec.Template.DeepCopy()
	set.Spec.Template.Labels["pod-template-hash"] = "abc"
	sets := []*appsv1.ReplicaSet{replicaSet("zzz", "u1", 2, "web:1"), set}

	want := rollout.Canary{UID: "u2", Ours: true, Epoch: 4, Revision: "r2", Replicas: 2, Updated: 2, Available: 1, Hash: "abc"}
	if diff := cmp.Diff(want, workload.ObserveCanary(d, sets, "shop", "u9")); diff != "" {
		t.Errorf("the canary differs (-want +got):\n%s", diff)
	}
	if workload.ObserveCanary(d, sets, "other", "another").Ours || workload.ObserveCanary(mergeMaps(), nil, "", "").Ours ||
		workload.ObserveCanary(mergeMaps(annotated("sluice.dev/rollout", "shop")), nil, "shop", "u9").Ours {
		t.Error("a Deployment of others is seen as ours")
	}
	if !workload.ObserveCanary(d, sets, "shop", "another").Ours {
		t.Error("what a dead Rollout of the same name left is not seen as ours")
	}
}
