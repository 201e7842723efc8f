package workload_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"sluice.dev/sluice/pkg/rollout"
	"sluice.dev/sluice/pkg/workload"
)

// rolling gives a Deployment a rolling update.
func rolling(surge, unavailable string) func(*appsv1.Deployment) {
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

func recreate(d *appsv1.Deployment) {
	d.Spec.Strategy = appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType}
}

// remembered are the annotations that keep what an owner wants.
func remembered(ready, deadline, surge, unavailable string) func(*appsv1.Deployment) {
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
		return workload.Park(d, "web", rollout.Budget{Unavailable: 1})
	}
	advance := func(d *appsv1.Deployment) workload.Patch {
		return workload.Advance(d, "web", rollout.Budget{Unavailable: 40, Surge: 2})
	}
	leave := func(d *appsv1.Deployment) workload.Patch { return workload.Leave(d, 2) }
	resume := func(d *appsv1.Deployment) workload.Patch { return workload.Resume(d, rollout.StableIDKept) }
	disown := func(d *appsv1.Deployment) workload.Patch { return workload.Disown(d) }
	still := func(d *appsv1.Deployment) { rolling("0", "1%")(d); paused(d); inProgress(d); taken(d) }
	own := remembered("5", "60", "1", "30%")
	standard := remembered("0", "600", "25%", "25%")
	for name, c := range map[string]struct {
		from  *appsv1.Deployment
		patch func(*appsv1.Deployment) workload.Patch
		to    *appsv1.Deployment
	}{
		"park one that is held":                     {with(adopted, inProgress, paused, seconds(5, 60), rolling("1", "30%")), park, with(adopted, still, own)},
		"park one that runs free":                   {with(adopted, seconds(0, 600), rolling("25%", "25%")), park, with(adopted, still, standard)},
		"park one that its owner has paused":        {with(adopted, paused, seconds(0, 600), rolling("25%", "25%")), park, with(adopted, pausedByOwner, still, standard)},
		"park again keeps what is remembered":       {with(adopted, still, own, seconds(0, 600), rolling("7", "7")), park, with(adopted, still, own)},
		"advance":                                   {with(adopted, still, own), advance, with(adopted, inProgress, own, taken, rolling("2", "40%"))},
		"advance parks one that is held":            {with(adopted, inProgress, paused, seconds(5, 60), rolling("1", "30%")), advance, with(adopted, inProgress, own, taken, rolling("2", "40%"))},
		"rest":                                      {with(adopted, inProgress, own, taken, rolling("2", "40%")), func(d *appsv1.Deployment) workload.Patch { return workload.Rest(d, rollout.Budget{Unavailable: 40}) }, with(adopted, still, own, rolling("0", "40%"))},
		"retreat":                                   {with(adopted, still, own), workload.Retreat, with(adopted, still, own, recreate)},
		"resume gives back what its owner wants":    {with(adopted, still, own), resume, with(adopted, seconds(5, 60), rolling("1", "30%"))},
		"resume leaves what the API sets by itself": {with(adopted, still, standard), resume, with(adopted)},
		"leave one that runs two versions with no room for more": {with(adopted, still, own), leave, with(adopted, paused, seconds(5, 60), rolling("2", "30%"))},
		"leave one whose owner lets no pod be missing":           {with(adopted, still, remembered("0", "600", "1", "0")), leave, with(adopted, paused, rolling("2", "1"))},
		"resume one that has retreated":                          {with(adopted, still, own, recreate), resume, with(adopted, seconds(5, 60), rolling("1", "30%"))},
		"resume one whose owner wants Recreate now":              {with(adopted, still, own, annotated("sluice.dev/original.type", "Recreate")), resume, with(adopted, seconds(5, 60), recreate)},
		"resume one that remembers what cannot be read":          {with(adopted, still, remembered("x", "-1", "200%", "")), resume, with(adopted)},
		"resume one that remembers what the API refuses":         {with(adopted, still, remembered("0", "600", "0", "0%")), resume, with(adopted)},
		"disown one that is parked":                              {with(adopted, still, own), disown, with(seconds(5, 60), rolling("1", "30%"))},
		"resume one that lost its mark but is parked yet":        {with(adopted, taken, paused, rolling("0", "1%"), own), resume, with(adopted, paused, seconds(5, 60), rolling("1", "30%"))},
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
	own := remembered("0", "600", "1", "0")
	type view struct {
		Parked, Backwards, Recreate bool
		Budget                      rollout.Budget
		MaxUnavailable, MaxSurge    int32
	}
	for name, c := range map[string]struct {
		from *appsv1.Deployment
		want view
	}{
		"one that runs free":                         {with(adopted, seconds(0, 600), rolling("1", "0")), view{MaxSurge: 1}},
		"one that is parked":                         {with(adopted, own, taken, rolling("2", "40%")), view{Parked: true, Budget: rollout.Budget{Unavailable: 40, Surge: 2}, MaxSurge: 1}},
		"one with a budget that is not ours":         {with(adopted, own, taken, rolling("25%", "4")), view{Parked: true, Budget: rollout.Budget{Unavailable: -1, Surge: -1}, MaxSurge: 1}},
		"one with a surge in percent":                {with(adopted, own, taken, rolling("25%", "0%")), view{Parked: true, Budget: rollout.Budget{SurgePercent: 25}, MaxSurge: 1}},
		"one that has retreated":                     {with(adopted, own, taken, recreate), view{Parked: true, Backwards: true, Budget: rollout.Budget{Unavailable: -1, Surge: -1}, MaxSurge: 1}},
		"one that somebody took the seconds off":     {with(adopted, own, seconds(0, 600), rolling("2", "40%")), view{MaxSurge: 1}},
		"one that is remembered to be Recreate":      {with(adopted, own, taken, rolling("2", "40%"), annotated("sluice.dev/original.type", "Recreate")), view{Parked: true, Recreate: true, Budget: rollout.Budget{Unavailable: 40, Surge: 2}}},
		"one that is Recreate":                       {with(adopted, recreate), view{Recreate: true}},
		"one that remembers what nobody can read":    {with(adopted, taken, rolling("0", "1%"), remembered("", "", "x", "y")), view{Parked: true, Budget: rollout.Budget{Unavailable: 1}, MaxSurge: 1}},
		"one that says what it never had remembered": {with(adopted, taken, rolling("0", "1%")), view{MaxUnavailable: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			two := int32(2)
			c.from.Spec.Replicas = &two
			w := workload.See(c.from, nil, "web")
			got := view{w.Parked, w.Backwards, w.Recreate, w.Budget, w.MaxUnavailable, w.MaxSurge}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("it is seen as (-want +got):\n%s", diff)
			}
		})
	}
}
