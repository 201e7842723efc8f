package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"
	"sigs.k8s.io/yaml"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/queue"
)

// errorWidth is the width of an error in the narrow table.
const errorWidth = 60

func (c *cli) printLetters(letters []queue.DeadLetter, o *dlqOptions) error {
	switch o.output {
	case "name":
		var names []string
		for _, l := range letters {
			names = append(names, fmt.Sprintf("rollout.%s/%s", api.Group, l.Key.Name))
		}
		for _, name := range slices.Compact(names) { // a release and its measurements have one name
			fmt.Fprintln(c.out, name)
		}
		return nil
	case "json", "yaml":
		return c.printValue(o.output, letters)
	}
	header := []string{"NAME", "TASK", "REASON", "ATTEMPTS", "LAST", "ERROR"}
	if o.output == "wide" {
		header = []string{"NAME", "CLUSTER", "TASK", "REASON", "ATTEMPTS", "SINCE", "LAST", "PROCESS", "ERROR"}
	}
	if o.spaces {
		header = append([]string{"NAMESPACE"}, header...)
	}
	w := tabwriter.NewWriter(c.out, 6, 4, 3, ' ', 0)
	fmt.Fprintln(w, strings.Join(header, "\t"))
	for _, l := range letters {
		cells := letterCells(l, o.output == "wide", time.Now())
		var row []string
		for _, column := range header {
			row = append(row, cells[column])
		}
		fmt.Fprintln(w, strings.Join(row, "\t"))
	}
	return w.Flush()
}

func letterCells(l queue.DeadLetter, wide bool, now time.Time) map[string]string {
	text := strings.Join(strings.Fields(l.Error), " ")
	if runes := []rune(text); !wide && len(runes) > errorWidth {
		text = string(runes[:errorWidth-3]) + "..."
	}
	return map[string]string{
		"NAMESPACE": l.Key.Namespace, "NAME": l.Key.Name, "CLUSTER": l.Key.Cluster, "TASK": taskName(l.Key), "REASON": string(l.Reason),
		"ATTEMPTS": fmt.Sprint(l.Attempts), "SINCE": ageText(l.Since, now), "LAST": ageText(l.Time, now), "PROCESS": l.Process, "ERROR": text,
	}
}

// letterName returns the Rollout in the notation of kubectl, and the task unless it is the release.
func letterName(k queue.Key) string {
	name := fmt.Sprintf("rollout.%s/%s", api.Group, k.Name)
	if k.Task != queue.TaskRelease {
		name = "the " + k.Task + " of " + name
	}
	return name
}

func ageText(at, now time.Time) string { return duration.HumanDuration(now.Sub(at)) }

// printLetter prints all known facts about a letter, and the next command.
func (c *cli) printLetter(l queue.DeadLetter, output string) error {
	if output != "" {
		return c.printValue(output, l)
	}
	what, next := "Its runs fail, one after the other. A process retries it about every minute.", "When the cause is fixed it recovers by itself; to retry it at once, type:"
	if l.Reason == queue.Abandoned {
		what, next = "Each process that took it up died or lost NATS. No process takes it up again until something about it changes.", "When you have fixed the cause, type:"
	}
	w := tabwriter.NewWriter(c.out, 0, 0, 2, ' ', 0)
	for _, line := range [][2]string{
		{"Rollout", l.Key.Namespace + "/" + l.Key.Name}, {"Cluster", l.Key.Cluster}, {"Task", taskName(l.Key)}, {"Reason", string(l.Reason)},
		{"Attempts", fmt.Sprint(l.Attempts)}, {"Since", l.Since.UTC().Format(time.RFC3339)}, {"Written", l.Time.UTC().Format(time.RFC3339)},
		{"By", l.Process}, {"Error", strings.ReplaceAll(l.Error, "\n", "\n\t")},
	} {
		if line[1] != "" {
			fmt.Fprintf(w, "%s\t%s\n", line[0], line[1])
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	task := ""
	if l.Key.Task != queue.TaskRelease {
		task = " --task " + l.Key.Task
	}
	_, err := fmt.Fprintf(c.out, "\n%s\n%s\n  %s dlq retry %s -n %s%s\n", what, next, c.command, l.Key.Name, l.Key.Namespace, task)
	return err
}

func (c *cli) printValue(output string, value any) error {
	if output == "json" {
		encoder := json.NewEncoder(c.out)
		encoder.SetIndent("", "    ")
		return encoder.Encode(value)
	}
	text, err := yaml.Marshal(value)
	if err != nil {
		return fmt.Errorf("write yaml: %w", err)
	}
	_, err = c.out.Write(text)
	return err
}
