package rollout_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
)

func TestTheOldestRolloutOfAWorkloadComesFirst(t *testing.T) {
	t.Parallel()
	named := func(name string, age int, kind, workload string) *api.Rollout {
		return &api.Rollout{
			ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "shop", UID: types.UID(name), CreationTimestamp: metav1.NewTime(time.Unix(int64(1000-age), 0))},
			Spec:       api.RolloutSpec{WorkloadRef: &api.ObjectRef{APIVersion: "apps/v1", Kind: kind, Name: workload}},
		}
	}
	disabled := named("disabled", 9, "Deployment", "web")
	disabled.Spec.Disabled = true
	legacy := named("legacy", 9, "Deployment", "web")
	legacy.Spec.ObjectRef, legacy.Spec.WorkloadRef = &api.LegacyObjectRef{WorkloadRef: legacy.Spec.WorkloadRef}, nil
	unborn := named("web", 0, "Deployment", "web")
	unborn.UID, unborn.CreationTimestamp = "", metav1.Time{}
	web := named("web", 5, "Deployment", "web")
	for name, c := range map[string]struct {
		of     *api.Rollout
		others []*api.Rollout
		want   string
	}{
		"it is alone":                          {web, []*api.Rollout{web}, ""},
		"an older one":                         {web, []*api.Rollout{web, named("older", 6, "Deployment", "web")}, "older"},
		"the oldest of several":                {web, []*api.Rollout{named("older", 6, "Deployment", "web"), named("oldest", 7, "Deployment", "web")}, "oldest"},
		"a younger one":                        {web, []*api.Rollout{web, named("younger", 4, "Deployment", "web")}, ""},
		"one of the same age, by name":         {web, []*api.Rollout{named("a", 5, "Deployment", "web")}, "a"},
		"one of the same age, later by name":   {web, []*api.Rollout{named("x", 5, "Deployment", "web")}, ""},
		"a disabled one":                       {web, []*api.Rollout{disabled}, "disabled"},
		"one in the v1alpha1 form":             {web, []*api.Rollout{legacy}, "legacy"},
		"one of another workload":              {web, []*api.Rollout{named("older", 6, "Deployment", "api"), named("kind", 6, "StatefulSet", "web")}, ""},
		"one that is about to be created":      {unborn, []*api.Rollout{named("younger", 1, "Deployment", "web")}, "younger"},
		"one that names no workload":           {&api.Rollout{}, []*api.Rollout{web}, ""},
		"one that was created under this name": {web, []*api.Rollout{{ObjectMeta: metav1.ObjectMeta{Name: "web", UID: "before"}, Spec: web.Spec}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := ""
			if rival := rollout.RivalOf(c.of, c.others); rival != nil {
				got = rival.Name
			}
			if got != c.want {
				t.Errorf("the rival is %q, want %q", got, c.want)
			}
		})
	}
}
