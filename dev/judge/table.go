package main

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"
)

// printTable prints one line for each row, and returns the number of broken promises.
func printTable(w io.Writer, outcomes []outcome) int {
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprint(t, "true change\tpromised")
	for _, name := range judgeNames() {
		fmt.Fprint(t, "\t", name)
	}
	fmt.Fprintln(t)
	missed := 0
	for _, o := range outcomes {
		fmt.Fprintf(t, "%s\t%s", o.row.name, promise(o.row))
		for i := range o.times {
			fmt.Fprint(t, "\t", cell(o, i))
		}
		if !o.kept() {
			missed++
			fmt.Fprint(t, "\tMISSED")
		}
		fmt.Fprintln(t)
	}
	_ = t.Flush() // writes to the same terminal as everything else
	return missed
}

func promise(r row) string {
	switch {
	case r.waits:
		return "waits"
	case r.within > 0 && r.caught > 0:
		return fmt.Sprintf("median <= %s, failed >= %.0f %%", seconds(r.within), r.caught*100)
	case r.within > 0:
		return fmt.Sprintf("median <= %s", seconds(r.within))
	}
	return fmt.Sprintf("failed <= %g %%", alpha*100)
}

// cell returns the share of releases that a judge failed, and the median time if it should fail them.
func cell(o outcome, judge int) string {
	if judge > 1 && !o.row.classical {
		return "-"
	}
	text := fmt.Sprintf("%.2f %%", o.failed(judge)*100)
	if o.row.worse == 1 {
		return text
	}
	if at := o.median(judge); at > 0 {
		return fmt.Sprintf("%s (%s)", seconds(at), text)
	}
	return "mostly never (" + text + ")"
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.0f s", d.Seconds()) }

// mistakes is the highest share of canaries with twice the ratio of passAfter that may pass.
const mistakes = 0.02

// printPasses prints one line for each kind of canary, and returns the number of broken promises.
func printPasses(w io.Writer, list []pass) (missed int) {
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "passAfter\ttrue change\tpromised\tpassed\tfailed\tundecided\tmedian time to pass")
	for _, p := range list {
		at, promised := "-", "-"
		if p.median > 0 {
			at = seconds(p.median)
		}
		if p.worse >= 2*p.maxRatio {
			promised = fmt.Sprintf("passed <= %g %%", mistakes*100)
		}
		fmt.Fprintf(t, "%.0f requests, ratio %g\tx%g\t%s\t%.1f %%\t%.1f %%\t%.1f %%\t%s",
			p.samples, p.maxRatio, p.worse, promised, p.passed*100, p.failed*100, max(0, 1-p.passed-p.failed)*100, at)
		if p.worse >= 2*p.maxRatio && p.passed > mistakes {
			missed++
			fmt.Fprint(t, "\tMISSED")
		}
		fmt.Fprintln(t)
	}
	_ = t.Flush() // writes to the same terminal as everything else
	return missed
}
