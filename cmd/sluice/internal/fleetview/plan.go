package fleetview

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"sluice.dev/sluice/cmd/internal/color"
	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/fleet"
)

// Plan is a forecast of a release.
type Plan struct {
	Namespace    string        `json:"namespace"`
	FleetRollout string        `json:"fleetRollout"`
	Version      string        `json:"version"`
	Waves        []PlannedWave `json:"waves"`
	Warnings     []string      `json:"warnings,omitempty"`
	// Truths are facts about every release that its users must know.
	Truths []string `json:"truths"`
}

// PlannedWave is a wave with the clusters that it would take now.
type PlannedWave struct {
	Name        string   `json:"name"`
	Does        string   `json:"does"`
	Clusters    []string `json:"clusters"`
	Concurrency int      `json:"concurrency"`
	// The wave stops when more clusters than these have failed, are deferred, or are lost under a permit.
	Failed      int `json:"failed"`
	Unreachable int `json:"unreachable"`
	Unknown     int `json:"unknown"`
}

// NewPlan returns the forecast of a release that would begin now.
func NewPlan(v View, waves []fleet.WaveForecast) Plan {
	r := v.Rollout
	p := Plan{Namespace: r.Namespace, FleetRollout: r.Name, Version: fleet.ReleaseText(r.Spec.Release), Truths: truths(r)}
	taken := map[string]bool{}
	for i, w := range waves {
		planned := PlannedWave{
			Name: w.Name, Does: WaveText(v.Strategy.Waves[i]), Clusters: append([]string{}, w.Clusters...), Concurrency: w.Concurrency,
			Failed: w.Failed, Unreachable: w.Unreachable, Unknown: w.Unknown,
		}
		p.Waves = append(p.Waves, planned)
		for _, name := range w.Clusters {
			taken[name] = true
		}
		if need := max(1, int(v.Strategy.Waves[i].MinCompleted)); len(w.Clusters) < need {
			p.Warnings = append(p.Warnings, fmt.Sprintf("wave %s takes %s and needs %d that complete: the release stands still there until a user passes over the wave (NothingProven)",
				w.Name, clustersText(len(w.Clusters)), need))
		}
	}
	switch release := r.Spec.Release; {
	case release == nil:
		p.Warnings = append(p.Warnings, "spec.release names no version, so no release begins")
	case slices.ContainsFunc(r.Status.Blocked, func(b api.FleetBlock) bool { return b.Version == release.Key() && !b.Unblocked }):
		p.Warnings = append(p.Warnings, p.Version+" was withdrawn before, so its release stands still (Blocked) until a user allows it again: "+
			fmt.Sprintf("sluice fleet unblock %s %s -n %s", r.Name, fleet.KeyText(release.Key()), r.Namespace))
	}
	for i := range v.Members {
		if m := &v.Members[i]; taken[m.Name] {
			if why := deferral(m, v.Now); why != "" {
				p.Warnings = append(p.Warnings, fmt.Sprintf("%s is deferred when its wave comes: %s", m.Name, why))
			}
		}
	}
	return p
}

// deferral returns why a cluster would get no permit now, "" if it would.
func deferral(m *api.FleetMember, now time.Time) string {
	switch cordon := cordonText(m.Spec.Cordoned, now); {
	case m.Status.Phase == "":
		return "the hub has never heard it"
	case m.Status.Phase != api.FleetMemberReady:
		return "its phase is " + string(m.Status.Phase)
	case cordon != "":
		return "it is cordoned (" + cordon + ")"
	case m.Status.Enforcement == api.FleetEnforcementNone:
		return "nothing holds changes there (enforcement None)"
	case m.Status.ClockSkew != nil && m.Status.ClockSkew.Duration.Abs() > fleet.MaxClockSkew:
		return fmt.Sprintf("its clock is %s apart from the hub's", m.Status.ClockSkew.Duration.Abs())
	}
	return ""
}

// clustersText returns a number of clusters in words.
func clustersText(n int) string {
	switch n {
	case 0:
		return "no cluster"
	case 1:
		return "1 cluster"
	}
	return fmt.Sprintf("%d clusters", n)
}

// truths are facts about GitOps tools and about the limits of a release.
func truths(r *api.FleetRollout) []string {
	return []string{
		fleet.TruthPodTemplate, fleet.TruthHeldDeployment, fleet.TruthPruning,
		fmt.Sprintf(fleet.TruthRepository, "FleetRollout "+r.Namespace+"/"+r.Name),
		"Clusters that join, leave or change their labels before a wave begins change the draw of that wave.",
	}
}

// PlanLines draws a forecast.
func PlanLines(p Plan, ink color.Ink) []string {
	lines := []string{ink.Bold(fmt.Sprintf("FleetRollout %s/%s, if the release of %s began now", p.Namespace, p.FleetRollout, p.Version))}
	for i, w := range p.Waves {
		lines = append(lines, "", ink.Bold(fmt.Sprintf("== wave %d, %s: %s", i+1, w.Name, w.Does)))
		if len(w.Clusters) == 0 {
			lines = append(lines, ink.Yellow("takes ")+"  no cluster")
			continue
		}
		lines = append(lines,
			ink.Green("takes ")+fmt.Sprintf("  %s, %d at once: %s", clustersText(len(w.Clusters)), w.Concurrency, strings.Join(w.Clusters, ", ")),
			ink.Yellow("stops ")+fmt.Sprintf("  when more than %d failed, more than %d are deferred, or more than %d are lost under a permit", w.Failed, w.Unreachable, w.Unknown))
	}
	lines = append(lines, "")
	for _, w := range p.Warnings {
		lines = append(lines, ink.Yellow("warning ")+" "+w)
	}
	for _, truth := range p.Truths {
		lines = append(lines, ink.Cyan("note    ")+" "+truth)
	}
	return lines
}
