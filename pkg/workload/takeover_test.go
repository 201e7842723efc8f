package workload_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"sluice.dev/sluice/pkg/rollout"
	"sluice.dev/sluice/pkg/workload"
)

// rollingUpdateStrategy gives a Deployment a rolling update.
func rollingUpdateStrategy(surge, unavailable string) func(*appsv1.Deployment) {
	return func(d *appsv1.Deployment) {
		s, u := intstr.Parse(surge), intstr.Parse(unavailable)
		d.Spec.Strategy = appsv1.DeploymentStrategy{
			Type: appsv1.RollingUpdateDeploymentStrategyType, RollingUpdate: &appsv1.RollingUpdateDeployment{MaxSurge: &s, MaxUnavailable: &u},
		}
	}
}

func seconds(ready, deadline int32) func(*appsv1.Deployment) {
	return func(d *appsv1.Deployment) { d.Spec.MinReadySeconds, d.Spec.ProgressDeadlineSeconds = ready, &deadline }
}

func recreateStrategy(d *appsv1.Deployment) {
	d.Spec.Strategy = appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType}
}

// hasOriginals are the annotations that keep what an owner wants.
func hasOriginals(ready, deadline, surge, unavailable string) func(*appsv1.Deployment) {
	return func(d *appsv1.Deployment) {
		annotated("sluice.dev/original.minReadySeconds", ready)(d)
		annotated("sluice.dev/original.progressDeadlineSeconds", deadline)(d)
		annotated("sluice.dev/original.maxSurge", surge)(d)
		annotated("sluice.dev/original.maxUnavailable", unavailable)(d)
	}
}

// taken is what parking makes of the fields.
func taken(d *appsv1.Deployment) { seconds(2147483646, 2147483647)(d) }

func TestParkingTakesFieldsOverAndLettingGoGivesThemBack(t *testing.T) {
	t.Parallel()
	park := func(d *appsv1.Deployment) workload.Patch {
		return workload.TakeOverDeployment(d, "web", rollout.Budget{Unavailable: 1})
	}
	advance := func(d *appsv1.Deployment) workload.Patch {
		return workload.ResumeRollingUpdate(d, "web", rollout.Budget{Unavailable: 40, Surge: 2})
	}
	leave := func(d *appsv1.Deployment) workload.Patch { return workload.ResumePaused(d, 2) }
	resume := func(d *appsv1.Deployment) workload.Patch { return workload.ResumeDeployment(d, rollout.StableIDKept) }
	disown := func(d *appsv1.Deployment) workload.Patch { return workload.DisownDeployment(d) }
	still := func(d *appsv1.Deployment) { rollingUpdateStrategy("0", "1%")(d); paused(d); inProgress(d); taken(d) }
	own := hasOriginals("5", "60", "1", "30%")
	standard := hasOriginals("0", "600", "25%", "25%")
	for name, c := range map[string]struct {
		from  *appsv1.Deployment
		patch func(*appsv1.Deployment) workload.Patch
		to    *appsv1.Deployment
	}{
		"park one that is held":               {mergeMaps(adopted, inProgress, paused, seconds(5, 60), rollingUpdateStrategy("1", "30%")), park, mergeMaps(adopted, still, own)},
		"park one that runs free":             {mergeMaps(adopted, seconds(0, 600), rollingUpdateStrategy("25%", "25%")), park, mergeMaps(adopted, still, standard)},
		"park one that its owner has paused":  {mergeMaps(adopted, paused, seconds(0, 600), rollingUpdateStrategy("25%", "25%")), park, mergeMaps(adopted, pausedByOwner, still, standard)},
		"park again keeps what is remembered": {mergeMaps(adopted, still, own, seconds(0, 600), rollingUpdateStrategy("7", "7")), park, mergeMaps(adopted, still, own)},
		"advance":                             {mergeMaps(adopted, still, own), advance, mergeMaps(adopted, inProgress, own, taken, rollingUpdateStrategy("2", "40%"))},
		"advance parks one that is held":      {mergeMaps(adopted, inProgress, paused, seconds(5, 60), rollingUpdateStrategy("1", "30%")), advance, mergeMaps(adopted, inProgress, own, taken, rollingUpdateStrategy("2", "40%"))},
		"rest": {mergeMaps(adopted, inProgress, own, taken, rollingUpdateStrategy("2", "40%")), func(d *appsv1.Deployment) workload.Patch {
			return workload.PauseDeployment(d, rollout.Budget{Unavailable: 40})
		}, mergeMaps(adopted, still, own, rollingUpdateStrategy("0", "40%"))},
		"retreat":                                                {mergeMaps(adopted, still, own), workload.FreezeDeployment, mergeMaps(adopted, still, own, recreateStrategy)},
		"resume gives back what its owner wants":                 {mergeMaps(adopted, still, own), resume, mergeMaps(adopted, seconds(5, 60), rollingUpdateStrategy("1", "30%"))},
		"resume leaves what the API sets by itself":              {mergeMaps(adopted, still, standard), resume, mergeMaps(adopted)},
		"leave one that runs two versions with no room for more": {mergeMaps(adopted, still, own), leave, mergeMaps(adopted, paused, seconds(5, 60), rollingUpdateStrategy("2", "30%"))},
		"leave one whose owner lets no pod be missing":           {mergeMaps(adopted, still, hasOriginals("0", "600", "1", "0")), leave, mergeMaps(adopted, paused, rollingUpdateStrategy("2", "1"))},
		"resume one that has retreated":                          {mergeMaps(adopted, still, own, recreateStrategy), resume, mergeMaps(adopted, seconds(5, 60), rollingUpdateStrategy("1", "30%"))},
		"resume one whose owner wants Recreate now":              {mergeMaps(adopted, still, own, annotated("sluice.dev/original.type", "Recreate")), resume, mergeMaps(adopted, seconds(5, 60), recreateStrategy)},
		"resume one that remembers what cannot be read":          {mergeMaps(adopted, still, hasOriginals("x", "-1", "200%", "")), resume, mergeMaps(adopted)},
		"resume one that remembers what the API refuses":         {mergeMaps(adopted, still, hasOriginals("0", "600", "0", "0%")), resume, mergeMaps(adopted)},
		"disown one that is parked":                              {mergeMaps(adopted, still, own), disown, mergeMaps(seconds(5, 60), rollingUpdateStrategy("1", "30%"))},
		"resume one that lost its mark but is parked yet":        {mergeMaps(adopted, taken, paused, rollingUpdateStrategy("0", "1%"), own), resume, mergeMaps(adopted, paused, seconds(5, 60), rollingUpdateStrategy("1", "30%"))},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := patched(t, c.from, c.patch(c.from))
			if got.Spec.ProgressDeadlineSeconds != nil && c.to.Spec.ProgressDeadlineSeconds == nil {
				t.Errorf("progressDeadlineSeconds is %d", *got.Spec.ProgressDeadlineSeconds)
			}
			if diff := cmp.Diff(c.to, got); diff != "" {
				t.Errorf("the Deployment differs (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSeeReadsHowADeploymentIsParked(t *testing.T) {
	t.Parallel()
	own := hasOriginals("0", "600", "1", "0")
	type view struct {
		Parked, Backwards, Recreate bool
		Budget                      rollout.Budget
		MaxUnavailable, MaxSurge    int32
	}
	for name, c := range map[string]struct {
		from *appsv1.Deployment
		want view
	}{
		"one that runs free":                         {mergeMaps(adopted, seconds(0, 600), rollingUpdateStrategy("1", "0")), view{MaxSurge: 1}},
		"one that is parked":                         {mergeMaps(adopted, own, taken, rollingUpdateStrategy("2", "40%")), view{Parked: true, Budget: rollout.Budget{Unavailable: 40, Surge: 2}, MaxSurge: 1}},
		"one with a budget that is not ours":         {mergeMaps(adopted, own, taken, rollingUpdateStrategy("25%", "4")), view{Parked: true, Budget: rollout.Budget{Unavailable: -1, Surge: -1}, MaxSurge: 1}},
		"one with a surge in percent":                {mergeMaps(adopted, own, taken, rollingUpdateStrategy("25%", "0%")), view{Parked: true, Budget: rollout.Budget{SurgePercent: 25}, MaxSurge: 1}},
		"one that has retreated":                     {mergeMaps(adopted, own, taken, recreateStrategy), view{Parked: true, Backwards: true, Budget: rollout.Budget{Unavailable: -1, Surge: -1}, MaxSurge: 1}},
		"one that somebody took the seconds off":     {mergeMaps(adopted, own, seconds(0, 600), rollingUpdateStrategy("2", "40%")), view{MaxSurge: 1}},
		"one that is remembered to be Recreate":      {mergeMaps(adopted, own, taken, rollingUpdateStrategy("2", "40%"), annotated("sluice.dev/original.type", "Recreate")), view{Parked: true, Recreate: true, Budget: rollout.Budget{Unavailable: 40, Surge: 2}}},
		"one that is Recreate":                       {mergeMaps(adopted, recreateStrategy), view{Recreate: true}},
		"one that remembers what nobody can read":    {mergeMaps(adopted, taken, rollingUpdateStrategy("0", "1%"), hasOriginals("", "", "x", "y")), view{Parked: true, Budget: rollout.Budget{Unavailable: 1}, MaxSurge: 1}},
		"one that says what it never had remembered": {mergeMaps(adopted, taken, rollingUpdateStrategy("0", "1%")), view{MaxUnavailable: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			two := int32(2)
			c.from.Spec.Replicas = &two
			w := workload.ObserveDeployment(c.from, nil, "web")
			got := view{w.TakenOver, w.ReplicaSetsFrozen, w.Recreate, w.Budget, w.MaxUnavailable, w.MaxSurge}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("it is seen as (-want +got):\n%s", diff)
			}
		})
	}
}
