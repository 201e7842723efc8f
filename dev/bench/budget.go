package main

import (
	"fmt"
	"slices"
)

// Verdict is one budget with its measured value.
type Verdict struct {
	What     string  `json:"what"`
	Measured float64 `json:"measured"`
	Budget   float64 `json:"budget"`
	Unit     string  `json:"unit"`
	Met      bool    `json:"met"`
}

// judge compares the results with the budgets. They apply to two cores, two replicas, three steps and one VirtualService.
func (r *Report) judge() {
	r.Verdicts = []Verdict{}
	for _, run := range r.Runs {
		r.judgeRun(run)
	}
	if n := r.Noisy; n != nil && n.Alone.P99 > 0 {
		r.budget("quiet tenant with a noisy one: p99 of a step, times its own", n.Beside.P99/n.Alone.P99, 3, "times")
	}
	r.judgeIdle()
	r.judgeFleet()
	r.judgeAnalyses()
	for _, s := range r.Scripts {
		r.budget("script "+s.Name+": time", s.Sluice.Microseconds, 100, "µs")
		r.budget("script "+s.Name+": memory", s.Sluice.KB, 40, "kB")
	}
}

func (r *Report) judgeRun(run Run) {
	name := fmt.Sprintf("%s, %d at once, %d executors", run.Style, run.Releases, run.Executors)
	if run.Executors == 0 {
		name = fmt.Sprintf("%s, %d at once", run.Style, run.Releases)
	}
	if run.Releases == 1 {
		name = run.Style + ", alone"
		r.budget(name+": change to first pause, p50", run.ChangeToPause.P50, 120, "ms")
		r.budget(name+": approve to next pause, p50", run.ApproveToPause.P50, 100, "ms")
		r.budget(name+": last approve to healthy without grace, p50", run.ApproveToHealthy.P50-float64(1000*r.GraceSeconds), 150, "ms")
	}
	if budget := makespanBudget(run.Style, run.Releases); budget > 0 {
		r.budget(name+": makespan", run.Makespan, budget, "s")
	}
	r.budget(name+": approvals lost", float64(run.Lost), 0, "")
	if t := run.Traffic; t != nil && len(t.Requests) > 0 {
		releases := float64(run.Releases * run.Repeat)
		r.budget(name+": writes per release", float64(t.Writes)/releases, 15, "")
		if t.Reads > 0 { // the audit policy of an external cluster may omit reads
			r.budget(name+": reads per release", float64(t.Reads)/releases, 30, "")
		}
	}
	if slices.ContainsFunc(run.Processes, func(p Process) bool { return p.Ours }) {
		r.budget(name+": CPU per release", run.CPUPerRelease, 0.03, "s")
	}
}

// makespanBudget returns the budget for the sizes that have one, and 0 for others. Blue-green style has no budget of its own and uses the budget of partition
// style: in both, the one Deployment creates the pods.
func makespanBudget(style string, releases int) float64 {
	if style == styleBlueGreen {
		style = stylePartition
	}
	return map[int]map[string]float64{100: {stylePartition: 8, styleCanary: 12}, 300: {stylePartition: 24, styleCanary: 36}}[releases][style]
}

// An idle controller may send one request, and use a hundredth of a core, for each minute and thousand Rollouts.
func (r *Report) judgeIdle() {
	if r.Idle == nil {
		return
	}
	name := fmt.Sprintf("%d at rest", r.Idle.Rollouts)
	cpu := 0.0
	for _, p := range r.Idle.Processes {
		if !p.Ours {
			continue
		}
		cpu += p.CPUSeconds
		if p.Name == "watcher" {
			r.budget(name+": memory of the watcher, peak since its start", peakOf(r.Idle, p), 150, "MiB")
		}
	}
	if r.Idle.Seconds == 0 {
		return
	}
	if t := r.Idle.Traffic; t != nil {
		r.budget(name+": requests a second", float64(t.Reads+t.Writes+t.Events+t.PodLabels)/r.Idle.Seconds, 1, "/s")
	}
	r.budget(name+": CPU, all our processes", 100*cpu/r.Idle.Seconds, 2, "% of a core")
}

// One core measures 10,000 analyses, and almost no measurement is late by a tenth of its interval.
func (r *Report) judgeAnalyses() {
	a := r.Analyses
	if a == nil || a.Seconds == 0 {
		return
	}
	name := fmt.Sprintf("%d analyses", a.Running)
	due := float64(a.Running) / a.IntervalSeconds
	r.budget(name+": measurements missed, of those due", max(0, 100*(due-a.PerSecond)/due), 1, "%")
	r.budget(name+": lateness, p99", a.Late.P99, 100*a.IntervalSeconds, "ms")
	for _, p := range a.Processes {
		if p.Ours {
			r.budget(name+": CPU of the analyzer", 100*p.CPUSeconds/a.Seconds, 100, "% of a core")
		}
	}
}

func (r *Report) judgeFleet() {
	f := r.Fleet
	if f == nil {
		return
	}
	if f.FirstAction.N > 0 {
		r.budget("fleet: approval to first action in the next cluster, p99", f.FirstAction.P99, 2000, "ms")
	}
	if f.Governed != nil && f.Ungoverned != nil {
		r.budget("fleet: more requests per governed release", float64(f.Governed.requests()-f.Ungoverned.requests())/float64(f.Repeat), 3, "")
	}
}

func peakOf(i *Idle, now Process) float64 {
	peak := now.PeakMiB
	for _, p := range i.AtStart {
		if p.Name == now.Name {
			peak = max(peak, p.PeakMiB)
		}
	}
	return peak
}

func (r *Report) budget(what string, measured, budget float64, unit string) {
	r.Verdicts = append(r.Verdicts, Verdict{What: what, Measured: measured, Budget: budget, Unit: unit, Met: measured <= budget})
}
