package workload_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"

	"sluice.dev/sluice/pkg/rollout"
	"sluice.dev/sluice/pkg/workload"
)

func pods(n int32) func(*appsv1.Deployment) {
	return func(d *appsv1.Deployment) { d.Spec.Replicas = &n }
}

// shrunk are the annotations of a Deployment that was given other replicas than its owner wants.
func shrunk(own, given string) func(*appsv1.Deployment) {
	return func(d *appsv1.Deployment) {
		annotated("sluice.dev/original.replicas", own)(d)
		annotated("sluice.dev/assigned-replicas", given)(d)
	}
}

func TestADeploymentGivesWayAndHasItsReplicasBack(t *testing.T) {
	t.Parallel()
	resume := func(d *appsv1.Deployment) workload.Patch { return workload.ResumeDeployment(d, rollout.StableIDKept) }
	to7 := func(d *appsv1.Deployment) workload.Patch { return workload.ScaleDownDeployment(d, 7) }
	for name, c := range map[string]struct {
		from  *appsv1.Deployment
		patch func(*appsv1.Deployment) workload.Patch
		to    *appsv1.Deployment
	}{
		"shrink one that is whole":                       {mergeMaps(adopted, pods(10)), to7, mergeMaps(adopted, pods(7), shrunk("10", "7"))},
		"shrink further":                                 {mergeMaps(adopted, pods(9), shrunk("10", "9")), to7, mergeMaps(adopted, pods(7), shrunk("10", "7"))},
		"one that was scaled has another owner's number": {mergeMaps(adopted, pods(12), shrunk("10", "9")), to7, mergeMaps(adopted, pods(7), shrunk("12", "7"))},
		"give back":                                      {mergeMaps(adopted, pods(7), shrunk("10", "7")), workload.RestoreReplicas, mergeMaps(adopted, pods(10))},
		"give one back that was scaled":                  {mergeMaps(adopted, pods(12), shrunk("10", "7")), workload.RestoreReplicas, mergeMaps(adopted, pods(12))},
		"give one back that cannot be read":              {mergeMaps(adopted, pods(7), shrunk("x", "7")), workload.RestoreReplicas, mergeMaps(adopted, pods(7))},
		"resume leaves the canary the time":              {mergeMaps(adopted, inProgress, paused, pods(7), shrunk("10", "7")), resume, mergeMaps(adopted, pods(7), shrunk("10", "7"))},
		"disown gives back":                              {mergeMaps(adopted, inProgress, paused, pods(7), shrunk("10", "7")), workload.DisownDeployment, mergeMaps(pods(10))},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(c.to, patched(t, c.from, c.patch(c.from))); diff != "" {
				t.Errorf("the Deployment differs (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSeeReadsWhatTheOwnerWantsOfReplicas(t *testing.T) {
	t.Parallel()
	type view struct {
		Replicas, Told int32
		Shrunk         bool
	}
	for name, c := range map[string]struct {
		from *appsv1.Deployment
		want view
	}{
		"one that is whole":                  {mergeMaps(adopted, pods(10)), view{10, 10, false}},
		"one that gave way":                  {mergeMaps(adopted, pods(7), shrunk("10", "7")), view{10, 7, true}},
		"one that an autoscaler has scaled":  {workload.AcceptReplicas(mergeMaps(adopted, pods(5), shrunk("10", "1"))), view{10, 5, true}},
		"one that was scaled up":             {mergeMaps(adopted, pods(12), shrunk("10", "7")), view{12, 12, true}},
		"one that was scaled to nothing":     {mergeMaps(adopted, pods(0), shrunk("10", "7")), view{0, 0, true}},
		"one whose owner wants fewer":        {mergeMaps(adopted, pods(7), shrunk("4", "7")), view{4, 7, true}},
		"one that cannot be read":            {mergeMaps(adopted, pods(7), shrunk("many", "7")), view{7, 7, true}},
		"one that lost what was given to it": {mergeMaps(adopted, pods(7), annotated("sluice.dev/original.replicas", "10")), view{7, 7, true}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := workload.ObserveDeployment(c.from, nil, "web")
			if diff := cmp.Diff(c.want, view{w.DesiredReplicas, w.SpecReplicas, w.ScaledDown}); diff != "" {
				t.Errorf("it is seen as (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWhoHasScaledADeploymentThatGivesWay(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		d    *appsv1.Deployment
		want bool
	}{
		"one that is whole":          {mergeMaps(adopted, pods(10)), false},
		"the release":                {mergeMaps(adopted, pods(1), shrunk("10", "1")), false},
		"somebody else":              {mergeMaps(adopted, pods(5), shrunk("10", "1")), true},
		"its pods are all back":      {mergeMaps(adopted, pods(12), shrunk("10", "10")), false},
		"one that cannot be read":    {mergeMaps(adopted, pods(5), shrunk("many", "1")), false},
		"the release, by other word": {workload.AcceptReplicas(mergeMaps(adopted, pods(5), shrunk("10", "1"))), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := workload.ScaledByOthers(c.d); got != c.want {
				t.Errorf("somebody else has scaled it: %t, want %t", got, c.want)
			}
		})
	}
}
