package workload_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"sluice.dev/sluice/pkg/rollout"
	"sluice.dev/sluice/pkg/workload"
)

func TestClientsOfOpenKruiseFindTheStableRevisionAndTheOwnersFields(t *testing.T) {
	t.Parallel()
	own := mergeMaps(adopted, inProgress, func(d *appsv1.Deployment) {
		none, one, deadline := intstr.FromInt32(0), intstr.FromString("30%"), int32(700)
		d.Spec.Strategy.RollingUpdate = &appsv1.RollingUpdateDeployment{MaxUnavailable: &none, MaxSurge: &one}
		d.Spec.MinReadySeconds, d.Spec.ProgressDeadlineSeconds = 7, &deadline
	})
	const fields = `{"maxUnavailable":0,"maxSurge":"30%","minReadySeconds":7,"progressDeadlineSeconds":700}`
	take := workload.TakeOverDeployment(own, "shop", rollout.Budget{Surge: 1})
	take.AddKruiseMarks(own, "abc", true)
	taken := patched(t, own, take)
	got := []string{taken.Labels["rollouts.kruise.io/stable-revision"], taken.Annotations["rollouts.kruise.io/original-deployment-strategy"]}
	if diff := cmp.Diff([]string{"abc", fields}, got); diff != "" {
		t.Errorf("the marks differ (-want +got):\n%s", diff)
	}
	again := workload.ResumeRollingUpdate(taken, "shop", rollout.Budget{Surge: 2})
	before := len(again["metadata"].(map[string]any))
	again.AddKruiseMarks(taken, "abc", true)
	if len(again["metadata"].(map[string]any)) != before {
		t.Errorf("marks that are there are written again: %v", again)
	}
	end := workload.ResumeDeployment(taken, rollout.StableIDKept)
	end.RemoveKruiseMarks(taken)
	ended := patched(t, taken, end)
	for _, m := range []map[string]string{ended.Labels, ended.Annotations} {
		for _, key := range []string{"rollouts.kruise.io/stable-revision", "rollouts.kruise.io/original-deployment-strategy"} {
			if value, left := m[key]; left {
				t.Errorf("%s: %s is left", key, value)
			}
		}
	}
	inPlace := workload.TakeOverDeployment(own, "shop", rollout.Budget{Surge: 1})
	inPlace.AddKruiseMarks(own, "abc", false)
	if _, marked := patched(t, own, inPlace).Annotations["rollouts.kruise.io/original-deployment-strategy"]; marked {
		t.Error("a release in place has the mark of a blue-green release")
	}
}
