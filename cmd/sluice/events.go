package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"sluice.dev/sluice/cmd/internal/component"
	"sluice.dev/sluice/pkg/event"
	"sluice.dev/sluice/pkg/queue"
)

type eventsOptions struct {
	output        string
	watch, spaces bool
	fleet         bool
	since         string
	types         []string
	cluster       string
	nats          *component.NATSFlags
}

func (c *cli) eventsCommand() *cobra.Command {
	var o eventsOptions
	events := &cobra.Command{
		Use:   "events [NAME]",
		Short: "Show what happened to Rollouts, from the CloudEvents on NATS",
		Long: "Show the events of the Rollouts of a namespace, or of one of them: each change of a release, who or what caused it, and what holds it.\n" +
			"They are the CloudEvents of the stream SLUICE_EVENTS, which keeps them for seven days. Each is shown once, however often it was sent.\n" +
			"Measurements of metrics are many, and shown with --type analysis or --type analysis.measured only.",
		Example: fmt.Sprintf("  %[1]s events checkout -n shop\n  %[1]s events -A -w --type failure,step.paused\n  %[1]s events checkout --since 1h -o json", c.command),
		Args:    cobra.MaximumNArgs(2), ValidArgsFunction: c.completeRollouts,
		RunE: func(cmd *cobra.Command, args []string) error {
			name := ""
			if len(args) > 0 {
				var err error
				if name, err = rolloutName(args); err != nil {
					return err
				}
			}
			return c.showEvents(cmd.Context(), name, o)
		},
	}
	flags := events.Flags()
	flags.StringVarP(&o.output, "output", "o", "", "wide for more columns, json for one CloudEvent per line, or yaml")
	flags.BoolVarP(&o.watch, "watch", "w", false, "go on showing what happens until interrupted")
	flags.BoolVarP(&o.spaces, "all-namespaces", "A", false, "show the events of all namespaces")
	flags.BoolVar(&o.fleet, "fleet", false, "show the events of FleetRollouts, at the hub of a fleet, instead of those of Rollouts")
	flags.StringVar(&o.since, "since", "", "leave out earlier events: a duration such as 90m, or a time such as 2026-11-20T10:00:00Z")
	flags.StringSliceVar(&o.types, "type", nil, "show these types only: a noun such as failure, noun.verb such as step.paused, or whole types")
	flags.StringVar(&o.cluster, "cluster", "", "show the events of this cluster only, by its name on NATS")
	o.nats = component.AddNATSFlags(flags, &c.kube)
	_ = events.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"wide", "json", "yaml"}, cobra.ShellCompDirectiveNoFileComp))
	_ = events.RegisterFlagCompletionFunc("type", cobra.FixedCompletions(eventTypeNames(), cobra.ShellCompDirectiveNoFileComp))
	events.AddCommand(c.eventsSchemaCommand())
	return events
}

func (c *cli) eventsSchemaCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "schema [TYPE]",
		Short: "Print the JSON Schema of a type of event, or list the types",
		Long: "Print the JSON Schema (2020-12) of the data of an event of this type. Without a type, list all of them with when they are sent.\n" +
			"It needs neither a cluster nor NATS.",
		Example: fmt.Sprintf("  %[1]s events schema\n  %[1]s events schema step.paused", c.command),
		Args:    cobra.MaximumNArgs(1), ValidArgsFunction: cobra.FixedCompletions(eventTypeNames(), cobra.ShellCompDirectiveNoFileComp),
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				rows := eventTable{out: c.out, header: []string{"TYPE", "WHEN"}}
				for _, k := range event.Vocabulary() {
					rows.addRow(k.Type(), k.When)
				}
				return rows.flushRows()
			}
			kind := args[0]
			if slices.Contains(eventTypeNames(), kind) {
				kind = "dev.sluice." + kind + ".v1"
			}
			text, err := event.SchemaOf(kind)
			if err != nil {
				return fmt.Errorf("%w; list them with: %s events schema", err, c.command)
			}
			_, err = c.out.Write(text)
			return err
		},
	}
}

// eventTypeNames returns the event types as noun.verb.
func eventTypeNames() (list []string) {
	for _, k := range event.Vocabulary() {
		list = append(list, k.Noun+"."+k.Verb)
	}
	return list
}

func (c *cli) showEvents(ctx context.Context, name string, o eventsOptions) error {
	read, err := o.readOptions(name, time.Now())
	if err != nil {
		return err
	}
	wanted, err := wantedTypes(o.types, o.fleet)
	if err != nil {
		return fmt.Errorf("%w; list them with: %s events schema", err, c.command)
	}
	if !o.spaces {
		if read.Namespace, err = c.workingNamespace(); err != nil {
			return err
		}
	}
	show, err := c.eventPrinter(o)
	if err != nil {
		return err
	}
	q, err := o.nats.ConnectQueue(ctx)
	if err != nil {
		return err
	}
	defer q.Close()
	read.OnInterruption = c.interruptionNotice(o)
	shown := map[string]bool{}
	for e, err := range q.ReadEvents(ctx, read) {
		if err != nil {
			return err
		}
		id := e.Source() + " " + e.ID()
		if shown[id] || !wanted(e.Type()) {
			continue
		}
		shown[id] = true
		if err := show.event(e); err != nil {
			return err
		}
	}
	if err := show.end(); err != nil {
		return err
	}
	if len(shown) == 0 && !o.watch {
		fmt.Fprintln(c.errors, noEventsIn(read.Namespace))
	}
	if !o.watch {
		return ctx.Err()
	}
	return nil
}

// interruptionNotice reports to the user of a watch that NATS is gone, and later that it is back.
func (c *cli) interruptionNotice(o eventsOptions) func(error) {
	next := "If it lasts, find out more with: " + c.command + " check."
	if _, note, err := o.nats.QueueOptions(); err == nil && note != "" {
		next = "If sluice run was started again, start this command again too: its NATS has another address now."
	}
	var since time.Time
	return func(err error) {
		if err == nil {
			fmt.Fprintf(c.errors, "NATS is back after %s; what happened meanwhile follows.\n", time.Since(since).Round(100*time.Millisecond))
			return
		}
		since = time.Now()
		fmt.Fprintf(c.errors, "warning: %v. This command retries until it is back, and misses no event. %s\n", err, next)
	}
}

func noEventsIn(namespace string) string {
	if namespace == "" {
		return "No events found."
	}
	return fmt.Sprintf("No events found in namespace %s; -A looks in all.", namespace)
}

// readOptions returns the options of a read, except for the namespace.
func (o eventsOptions) readOptions(name string, now time.Time) (queue.ReadOptions, error) {
	r := queue.ReadOptions{Cluster: o.cluster, Name: name, Fleet: o.fleet, Follow: o.watch}
	switch o.output {
	case "", "wide", "json", "yaml":
	default:
		return r, fmt.Errorf("--output %q: use wide, json or yaml", o.output)
	}
	if o.spaces && name != "" {
		return r, errors.New("a name and --all-namespaces do not go together; give the namespace with -n")
	}
	if o.since == "" {
		return r, nil
	}
	if ago, err := time.ParseDuration(o.since); err == nil && ago > 0 {
		r.Since = now.Add(-ago)
		return r, nil
	}
	at, err := time.Parse(time.RFC3339, o.since)
	if err != nil {
		return r, fmt.Errorf("--since %q: give a duration such as 90m, or a time such as 2026-11-20T10:00:00Z", o.since)
	}
	r.Since = at
	return r, nil
}

// wantedTypes parses --type. The default excludes measurements, because they would hide the other events.
func wantedTypes(list []string, fleet bool) (func(string) bool, error) {
	kinds, other := event.RolloutVocabulary(), event.FleetVocabulary()
	if fleet {
		kinds, other = append(other, event.DecidedKind()), event.RolloutVocabulary()
	}
	named := func(word string) func(event.Kind) bool {
		return func(k event.Kind) bool { return word == k.Type() || word == k.Noun || word == k.Noun+"."+k.Verb }
	}
	wanted := map[string]bool{}
	for _, word := range list {
		found := false
		for _, k := range kinds {
			if named(word)(k) {
				wanted[k.Type()], found = true, true
			}
		}
		switch {
		case found:
		case slices.ContainsFunc(other, named(word)) && fleet:
			return nil, fmt.Errorf("--type %q: such events are about Rollouts; leave out --fleet", word)
		case slices.ContainsFunc(other, named(word)):
			return nil, fmt.Errorf("--type %q: such events are about FleetRollouts; add --fleet", word)
		case !strings.HasPrefix(word, "dev.sluice."):
			return nil, fmt.Errorf("--type %q: there are no such events", word)
		}
		wanted[word] = true // a type that only a later version knows
	}
	return func(kind string) bool { return wanted[kind] || len(list) == 0 && kind != event.TypeMeasured }, nil
}
