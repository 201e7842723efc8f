package planner

import (
	"sluice.dev/sluice/pkg/rollout"
	"testing"
)

func TestBudget(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		replicas, unavailable, surge int32
		want, ready, taken           int32
		budget                       rollout.Budget
	}{
		"at first as many as the owner allows":             {10, 2, 3, 10, 0, 0, rollout.Budget{Unavailable: 20, Surge: 3}},
		"each pod that is ready lets another one go":       {10, 2, 3, 10, 4, 0, rollout.Budget{Unavailable: 60, Surge: 3}},
		"never beyond the step":                            {10, 2, 3, 4, 0, 0, rollout.Budget{Unavailable: 20, Surge: 2}},
		"in the end all new pods are in place of old ones": {10, 2, 3, 4, 4, 0, rollout.Budget{Unavailable: 40, Surge: 0}},
		"all of them":                             {10, 2, 3, 10, 10, 0, rollout.Budget{Unavailable: 100, Surge: 0}},
		"none may be missing":                     {10, 0, 3, 10, 0, 0, rollout.Budget{Unavailable: 0, Surge: 3}},
		"none may be missing, and some are ready": {10, 0, 3, 10, 2, 0, rollout.Budget{Unavailable: 20, Surge: 3}},
		"none too many":                           {10, 2, 0, 10, 1, 0, rollout.Budget{Unavailable: 30, Surge: 0}},
		"three pods, one of them new":             {3, 0, 1, 1, 1, 0, rollout.Budget{Unavailable: 34, Surge: 0}},
		"seven pods, three of them new":           {7, 1, 1, 3, 3, 0, rollout.Budget{Unavailable: 43, Surge: 0}},
		"one of 250 comes on top":                 {250, 62, 63, 1, 1, 0, rollout.Budget{Unavailable: 0, Surge: 1}},
		"of 250 as near as a percentage comes":    {250, 62, 63, 6, 6, 0, rollout.Budget{Unavailable: 2, Surge: 1}},
		"more missing than there are":             {4, 9, 0, 4, 0, 0, rollout.Budget{Unavailable: 100, Surge: 0}},
		"new pods fail after old ones were taken": {4, 1, 1, 2, 0, 2, rollout.Budget{Unavailable: 50, Surge: 0}},
		"and the next step goes on from there":    {4, 1, 1, 4, 0, 2, rollout.Budget{Unavailable: 50, Surge: 1}},
	} {
		w := &rollout.Workload{DesiredReplicas: c.replicas, MaxUnavailable: c.unavailable, MaxSurge: c.surge}
		if got := rollingUpdateBudget(w, c.want, c.ready, c.taken); got != c.budget {
			t.Errorf("%s: %s, want %s", name, got, c.budget)
		}
	}
}

// podsOfBudget returns the number of new pods that the budget allows with so many replicas.
func podsOfBudget(b rollout.Budget, replicas int32) int32 {
	return percentOf(b.Unavailable, replicas) + int32(surgeOfBudget(b, replicas))
}

// surgeOfBudget returns the surge of the budget with so many replicas.
func surgeOfBudget(b rollout.Budget, replicas int32) int8 {
	return int8(min(b.Surge, 100) + rollout.Amount{Value: b.SurgePercent, Percent: true}.Of(replicas))
}

// For all numbers, a budget allows the new pods of the step and no more, respects the owner's limits, and ends at the step.
func TestBudgetsKeepWhatTheyPromise(t *testing.T) {
	t.Parallel()
	for replicas := int32(1); replicas <= 300; replicas += 1 + replicas/40 {
		for _, own := range []struct{ unavailable, surge int32 }{{1, 0}, {0, 1}, {(replicas + 3) / 4, (replicas + 3) / 4}, {replicas, 0}} {
			for want := int32(1); want <= replicas; want += 1 + replicas/25 {
				for ready := int32(0); ready <= want; ready += 1 + want/20 {
					checkBudget(t, &rollout.Workload{DesiredReplicas: replicas, MaxUnavailable: own.unavailable, MaxSurge: own.surge}, want, ready)
				}
				checkBudget(t, &rollout.Workload{DesiredReplicas: replicas, MaxUnavailable: own.unavailable, MaxSurge: own.surge}, want, want)
			}
		}
	}
}

func checkBudget(t *testing.T, w *rollout.Workload, want, ready int32) {
	t.Helper()
	b := rollingUpdateBudget(w, want, ready, 0)
	gone := percentOf(b.Unavailable, w.DesiredReplicas)
	coarse := w.DesiredReplicas / 100 // the resolution of a percentage
	switch {
	case podsOfBudget(b, w.DesiredReplicas) > want:
		t.Fatalf("of %+v, %d wanted and %d ready: %s is more than the step", w, want, ready, b)
	case gone-ready > w.MaxUnavailable:
		t.Fatalf("of %+v, %d wanted and %d ready: %s lets too many be missing", w, want, ready, b)
	case b.Surge > w.MaxSurge+coarse:
		t.Fatalf("of %+v, %d wanted and %d ready: %s lets too many run", w, want, ready, b)
	case ready < want && podsOfBudget(b, w.DesiredReplicas) <= ready:
		t.Fatalf("of %+v, %d wanted and %d ready: %s never gets there", w, want, ready, b)
	case ready == want && (podsOfBudget(b, w.DesiredReplicas) != want || b.Surge > coarse):
		t.Fatalf("of %+v, %d wanted and %d ready: %s is not the step", w, want, ready, b)
	case b == rollout.Budget{}:
		t.Fatalf("of %+v, %d wanted and %d ready: nothing is allowed, which the API refuses", w, want, ready)
	}
}
