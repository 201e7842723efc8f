package fleet

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"sluice.dev/sluice/pkg/api"
)

// Defaults of a plan.
const (
	defaultProgressDeadline = 45 * time.Minute
	defaultDeliveryDeadline = time.Hour
)

// defaultUnreachable lets one cluster of a small wave be offline. A percentage of the plan itself is rounded down to 0 there.
var defaultUnreachable = Amount{Value: 10, Percent: true, Least: 1}

// Parse returns the valid form of a plan. The error is a sentence that names the field.
func Parse(p api.FleetStrategy) (Spec, error) {
	failure := api.FleetOnFailure{}
	if p.OnFailure != nil {
		failure = *p.OnFailure
	}
	s := Spec{
		Written: p, MaxFailed: -1, AllowNoWayBack: p.AllowNoWayBack,
		OnMetrics:        cmp.Or(failure.Metrics, api.FleetFailureWithdraw),
		OnRejection:      cmp.Or(failure.Rejection, api.FleetFailurePause),
		OnBudget:         cmp.Or(failure.Budget, api.FleetFailurePause),
		ProgressDeadline: durationOr(p.ProgressDeadline, defaultProgressDeadline),
		DeliveryDeadline: durationOr(p.DeliveryDeadline, defaultDeliveryDeadline),
	}
	if p.MaxFailed != nil {
		s.MaxFailed = int(*p.MaxFailed)
	}
	if s.ProgressDeadline <= 0 || s.DeliveryDeadline <= 0 {
		return Spec{}, fmt.Errorf("progressDeadline and deliveryDeadline must be longer than 0s")
	}
	var err error
	if s.Clusters, err = metav1.LabelSelectorAsSelector(&p.Clusters); err != nil {
		return Spec{}, fmt.Errorf("clusters: %w", err)
	}
	if len(p.Waves) == 0 {
		return Spec{}, fmt.Errorf("waves must have at least one wave")
	}
	names := map[string]bool{}
	for i, w := range p.Waves {
		wave, err := parseWave(w, p.Budgets)
		if err != nil {
			return Spec{}, fmt.Errorf("wave %d (%s): %w", i+1, w.Name, err)
		}
		if names[w.Name] {
			return Spec{}, fmt.Errorf("wave %d has the name %s of an earlier wave: give it another name", i+1, w.Name)
		}
		names[w.Name] = true
		if i > 0 && s.Waves[i-1].takesAll() {
			return Spec{}, fmt.Errorf("wave %d (%s) gets no cluster, because wave %d takes all that are left: give wave %d clusters or percent", i+1, w.Name, i, i)
		}
		s.Waves = append(s.Waves, wave)
	}
	return s, nil
}

// takesAll reports whether the wave leaves no cluster to later waves.
func (w Wave) takesAll() bool { return w.Clusters == nil && (w.Percent == 0 || w.Percent == 100) }

func parseWave(w api.FleetWave, common *api.FleetBudgets) (Wave, error) {
	wave := Wave{
		Name: w.Name, Percent: int(w.Percent), Soak: durationOr(w.Soak, 0), Pause: parsePause(w.Pause),
		MinCompleted: max(1, int(w.MinCompleted)), MaxConcurrency: Amount{Value: 1},
		Unreachable: defaultUnreachable, Unknown: Amount{Value: 1},
	}
	if w.Percent < 0 || w.Percent > 100 {
		return Wave{}, fmt.Errorf("percent must be between 1 and 100")
	}
	if w.Clusters != nil {
		selector, err := metav1.LabelSelectorAsSelector(w.Clusters)
		if err != nil {
			return Wave{}, fmt.Errorf("clusters: %w", err)
		}
		wave.Clusters = selector
	}
	if w.HoldAt != nil {
		if w.HoldAt.Step < 1 {
			return Wave{}, fmt.Errorf("holdAt.step must be the number of a step, counted from 1")
		}
		wave.HoldAt, wave.HoldSoak, wave.HoldPause = w.HoldAt.Step, durationOr(w.HoldAt.Soak, 0), parsePause(w.HoldAt.Pause)
	}
	if wave.Soak < 0 || wave.HoldSoak < 0 {
		return Wave{}, fmt.Errorf("soak must not be below 0s")
	}
	type field struct {
		name string
		of   *intstr.IntOrString
		to   *Amount
	}
	amounts := []field{{"maxConcurrency", w.MaxConcurrency, &wave.MaxConcurrency}}
	for _, b := range []*api.FleetBudgets{common, w.Budgets} { // the wave's own budgets count
		if b != nil {
			amounts = append(amounts, field{"budgets.failed", b.Failed, &wave.Failed}, field{"budgets.unreachable", b.Unreachable, &wave.Unreachable},
				field{"budgets.unknown", b.Unknown, &wave.Unknown})
		}
	}
	for _, a := range amounts {
		if a.of == nil {
			continue
		}
		amount, err := parseAmount(*a.of)
		if err != nil {
			return Wave{}, fmt.Errorf("%s %w", a.name, err)
		}
		*a.to = amount
	}
	return wave, nil
}

func parseAmount(v intstr.IntOrString) (Amount, error) {
	if v.Type == intstr.Int {
		if v.IntVal < 0 {
			return Amount{}, fmt.Errorf("must not be below 0")
		}
		return Amount{Value: int(v.IntVal)}, nil
	}
	digits, percent := strings.CutSuffix(v.StrVal, "%")
	n, err := strconv.Atoi(digits)
	if err != nil || !percent || n < 0 || n > 100 {
		return Amount{}, fmt.Errorf("must be a number, or a percentage from 0%% to 100%%, and not %q", v.StrVal)
	}
	return Amount{Value: n, Percent: true}, nil
}

func parsePause(p *api.Pause) Pause {
	switch {
	case p == nil:
		return Pause{}
	case p.Duration == nil:
		return Pause{Manual: true}
	}
	return Pause{Duration: time.Duration(*p.Duration) * time.Second}
}

func durationOr(d *metav1.Duration, standard time.Duration) time.Duration {
	if d == nil {
		return standard
	}
	return d.Duration
}
