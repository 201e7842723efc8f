package fleetview

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"sluice.dev/sluice/pkg/api"
)

func labelSet(of map[string]string) labels.Set { return labels.Set(of) }

func number(n int32) string { return strconv.Itoa(int(n)) }

// WaveText describes which clusters a wave takes, and how.
func WaveText(w api.FleetWave) string {
	parts := []string{takesText(w), "1 at once"}
	if w.MaxConcurrency != nil {
		parts[1] = w.MaxConcurrency.String() + " at once"
	}
	if h := w.HoldAt; h != nil {
		parts = append(parts, fmt.Sprintf("hold at step %d%s", h.Step, waitsText(" for ", h.Soak, h.Pause)))
	}
	return strings.Join(parts, ", ") + waitsText(", soak ", w.Soak, w.Pause)
}

func takesText(w api.FleetWave) string {
	which := "all that are left"
	if w.Clusters != nil {
		which = metav1.FormatLabelSelector(w.Clusters)
	}
	if w.Percent == 0 {
		return which
	}
	if w.Clusters == nil {
		which = "those that are left"
	}
	return fmt.Sprintf("%d%% of %s", w.Percent, which)
}

// waitsText describes a soak with a phrase before it, and a pause.
func waitsText(before string, soak *metav1.Duration, pause *api.Pause) string {
	text := ""
	if soak != nil && soak.Duration > 0 {
		text = before + shortDuration(soak.Duration)
	}
	switch {
	case pause == nil:
	case pause.Duration == nil:
		text += ", until approved"
	default:
		text += ", pause " + shortDuration(time.Duration(*pause.Duration)*time.Second)
	}
	return text
}

// shortDuration writes a duration without zero minutes and seconds: 30m, and not 30m0s.
func shortDuration(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// strategyOf returns the strategy of the present release. Without a release it returns the one of the next.
func (v View) strategyOf() api.FleetStrategy {
	switch {
	case v.Rollout.Status.Plan != nil:
		return *v.Rollout.Status.Plan
	case v.Strategy != nil:
		return *v.Strategy
	}
	return v.Rollout.Spec.FleetStrategy
}

// WaveName returns the name of a wave of the present release by its number, "" if there is no such wave.
func WaveName(r *api.FleetRollout, wave int32) string {
	if p := r.Status.Plan; p != nil && wave > 0 && int(wave) <= len(p.Waves) {
		return p.Waves[wave-1].Name
	}
	return ""
}
