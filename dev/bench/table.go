package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// writeTable prints a report for people.
func writeTable(out io.Writer, r *Report) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	line := func(format string, args ...any) { fmt.Fprintf(w, format+"\n", args...) }
	line("%s, %d cores, %s; %s, %.0f s in all", r.Machine, r.Cores, r.Go, r.Began.Format("2006-01-02 15:04 UTC"), r.Seconds)
	line("%s", r.Command)
	line("%d steps, %d replicas, one VirtualService each, grace period %d s, approved the moment they pause", r.Steps, r.Replicas, r.GraceSeconds)
	if f := r.Floor; f != nil {
		line("\nNATIVE FLOOR\tn\tp50\tp90\tp99\tmax")
		latencyLine(line, "a plain Deployment of one pod, created to available", f.CreateToAvailable)
		if f.Requests > 0 {
			line("requests of the cluster's own controllers for it: %.1f (load %.1f)", f.Requests, f.Load)
		}
	}
	for _, run := range r.FloorAtOnce {
		writeFloor(line, run, r.Cores)
	}
	for _, run := range r.Runs {
		writeRun(line, run, r.Cores)
	}
	if n := r.Noisy; n != nil {
		line("\nTWO TENANTS, every step of the quiet one's %d releases (load %.1f)\tn\tp50\tp90\tp99\tmax", n.Quiet, n.Load)
		latencyLine(line, "alone", n.Alone)
		latencyLine(line, fmt.Sprintf("with %d releases of a noisy one", n.Noisy), n.Beside)
	}
	if r.Idle != nil {
		writeIdle(line, r.Idle)
	}
	if r.Fleet != nil {
		writeFleet(line, r.Fleet)
	}
	if r.Analyses != nil {
		writeAnalyses(line, r.Analyses)
	}
	if len(r.Scripts) > 0 {
		line("\nSCRIPTS, one call\tµs\tkB\tallocations\tstock µs\tkB\tallocations")
		for _, s := range r.Scripts {
			line("%s\t%.0f\t%.0f\t%.0f\t%.0f\t%.0f\t%.0f", s.Name, s.Sluice.Microseconds, s.Sluice.KB, s.Sluice.Allocations,
				s.Stock.Microseconds, s.Stock.KB, s.Stock.Allocations)
		}
	}
	line("\nBUDGETS\tmeasured\tbudget\t")
	for _, v := range r.Verdicts {
		verdict := "met"
		if !v.Met {
			verdict = "NOT MET"
		}
		line("%s\t%s\t%s %s\t%s", v.What, short(v.Measured), short(v.Budget), v.Unit, verdict)
	}
	for _, run := range r.FloorAtOnce {
		if budget := makespanBudget(run.Style, run.Releases); budget > 0 {
			line("floor of %s, %d at once: %s s of the %s s budget", run.Style, run.Releases, short(run.Makespan), short(budget))
		}
	}
	return w.Flush()
}

type liner func(format string, args ...any)

func latencyLine(line liner, name string, l Latency) {
	line("%s\t%d\t%.0f ms\t%.0f ms\t%.0f ms\t%.0f ms", name, l.N, l.P50, l.P90, l.P99, l.Max)
}

func writeRun(line liner, r Run, cores int) {
	title := fmt.Sprintf("%s: %d RELEASES AT ONCE in %d namespaces", strings.ToUpper(r.Style), r.Releases, r.Namespaces)
	if r.Releases == 1 {
		title = fmt.Sprintf("%s: ONE RELEASE ALONE, %d times", strings.ToUpper(r.Style), r.Repeat)
	}
	if r.Executors > 0 {
		title += fmt.Sprintf(", executors: %d", r.Executors)
	}
	line("\n%s (load %.1f)\tn\tp50\tp90\tp99\tmax", title, r.Load)
	latencyLine(line, "change to first pause", r.ChangeToPause)
	latencyLine(line, "approve to next pause", r.ApproveToPause)
	latencyLine(line, "last approve to healthy, grace included", r.ApproveToHealthy)
	line("makespan %.2f s; %.0f %% of %d cores busy; approvals lost: %d, refused: %d", r.Makespan, 100*r.Busy, cores, r.Lost, r.Refused)
	if r.Traffic != nil {
		writeTraffic(line, r.Traffic, float64(r.Releases*r.Repeat))
	}
	writeProcesses(line, r.Processes, float64(r.Releases*r.Repeat), "release")
}

func writeFloor(line liner, r FloorRun, cores int) {
	line("\nNATIVE FLOOR OF %d AT ONCE, %s style, in %d namespaces: the least writes, no decisions (load %.1f)\tn\tp50\tp90\tp99\tmax", r.Releases, r.Style, r.Namespaces, r.Load)
	latencyLine(line, "change to end, no pauses and no grace", r.Release)
	line("makespan %.2f s; %.0f %% of %d cores busy", r.Makespan, 100*r.Busy, cores)
	if r.Traffic != nil {
		writeTraffic(line, r.Traffic, float64(r.Releases))
	}
	writeProcesses(line, r.Processes, float64(r.Releases), "release")
}

func writeTraffic(line liner, t *Traffic, releases float64) {
	each := func(n int) float64 { return float64(n) / releases }
	line("requests per release: %.1f reads, %.1f writes; apart: %.1f Events, %.1f pod labels, %.1f by the cluster's own controllers, %.1f by the driver",
		each(t.Reads), each(t.Writes), each(t.Events), each(t.PodLabels), each(t.Native), each(t.Driver))
	if len(t.Refused) > 0 {
		line("answered with an error, in all: %s", t.codes())
	}
	for _, q := range t.Requests {
		if each(q.Count) >= 0.05 {
			line("  %s\t%s\t%s\t%.1f", q.By, q.Verb, q.Resource, each(q.Count))
		}
	}
}

// writeProcesses prints the usage of processes, in total and for each of n.
func writeProcesses(line liner, processes []Process, n float64, each string) {
	if len(processes) == 0 {
		return
	}
	line("process\tCPU s\tper %s\tpeak MiB\tat the end", each)
	for _, p := range processes {
		line("  %s\t%.2f\t%.4f\t%.0f\t%.0f", p.Name, p.CPUSeconds, p.CPUSeconds/n, p.PeakMiB, p.MiB)
	}
}

func writeIdle(line liner, i *Idle) {
	line("\n%d ROLLOUTS AT REST, Deployments with %d pods (load %.1f)", i.Rollouts, i.Replicas, i.Load)
	line("created and healthy within %.0f s", i.Created)
	line("components started again: quiet after %.1f s", i.Start)
	if i.StartTraffic != nil {
		writeTraffic(line, i.StartTraffic, float64(i.Rollouts))
	}
	writeProcesses(line, i.AtStart, float64(i.Rollouts), "release")
	line("then, for %.0f s:", i.Seconds)
	if t := i.Traffic; t != nil {
		line("requests in all: %d reads, %d writes, %d Events, %d pod labels; %d by the cluster's own controllers", t.Reads, t.Writes, t.Events, t.PodLabels, t.Native)
		for _, q := range t.Requests {
			line("  %s\t%s\t%s\t%d", q.By, q.Verb, q.Resource, q.Count)
		}
	}
	writeProcesses(line, i.Processes, float64(i.Rollouts), "release")
}

func writeFleet(line liner, f *Fleet) {
	line("\nA FLEET OF TWO CLUSTERS, %d approvals at once (load %.1f)\tn\tp50\tp90\tp99\tmax", f.AtOnce, f.Load)
	latencyLine(line, "approval to first action in the next wave's cluster", f.FirstAction)
	for _, t := range []struct {
		what    string
		traffic *Traffic
	}{{"without the fleet", f.Ungoverned}, {"governed", f.Governed}} {
		if t.traffic != nil {
			line("one cluster, one release %d times, %s:", f.Repeat, t.what)
			writeTraffic(line, t.traffic, float64(f.Repeat))
		}
	}
}

func writeAnalyses(line liner, a *Analyses) {
	line("\n%d ANALYSES UNDER WAY, a metric each, every %.0f s; one analyzer with GOMAXPROCS=1 (load %.1f)\tn\tp50\tp90\tp99\tmax", a.Running, a.IntervalSeconds, a.Load)
	line("Rollouts written within %.0f s; each measured for the first time after %.1f s", a.Created, a.FirstSeconds)
	latencyLine(line, "query later than its time", a.Late)
	line("%.1f measurements a second for %.0f s", a.PerSecond, a.Seconds)
	if a.Odd > 0 {
		line("queries without a time: %d", a.Odd)
	}
	if t := a.Traffic; t != nil {
		line("requests in all: %d reads, %d writes, %d Events", t.Reads, t.Writes, t.Events)
	}
	writeProcesses(line, a.Processes, float64(max(1, a.Late.N)), "query")
}

// short formats a number with its significant digits.
func short(n float64) string {
	text := fmt.Sprintf("%.3f", n)
	if n >= 10 {
		text = fmt.Sprintf("%.1f", n)
	}
	return strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
}
