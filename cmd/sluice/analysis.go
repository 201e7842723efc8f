package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"
	"k8s.io/client-go/dynamic"

	"sluice.dev/sluice/cmd/internal/component"
	"sluice.dev/sluice/cmd/internal/view"
	"sluice.dev/sluice/cmd/sluice/internal/chart"
	"sluice.dev/sluice/cmd/sluice/internal/report"
	"sluice.dev/sluice/cmd/sluice/internal/terminal"
	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/event"
	"sluice.dev/sluice/pkg/queue"
	"sluice.dev/sluice/pkg/release"
)

func (c *cli) analysisCommand() *cobra.Command {
	analysis := asParent(&cobra.Command{
		Use: "analysis", Short: "Show what metrics say about a release, try analysis templates, and estimate comparisons",
	})
	analysis.AddCommand(c.analysisGetCommand(), c.analysisTryCommand(), c.analysisEstimateCommand())
	return analysis
}

type analysisOptions struct {
	output  string
	watch   bool
	cluster string
	nats    *component.NATSFlags
}

func (c *cli) analysisGetCommand() *cobra.Command {
	var o analysisOptions
	get := &cobra.Command{
		Use: "get ROLLOUT", Short: "Show why metrics let a release go on, or stopped it",
		Long: "Show the analyses of a release: of the step it is at, and of the whole release. The verdicts are those in the Rollout's status, the\n" +
			"charts are drawn from the measurements, which are CloudEvents of the stream SLUICE_EVENTS. Without NATS the verdicts are shown alone.",
		Example: fmt.Sprintf("  %[1]s analysis get checkout -n shop\n  %[1]s analysis get checkout -w", c.command),
		Args:    cobra.RangeArgs(1, 2), ValidArgsFunction: c.completeRollouts,
		RunE: func(cmd *cobra.Command, args []string) error {
			name, err := rolloutName(args)
			if err != nil {
				return err
			}
			switch {
			case o.output != "" && o.output != "json" && o.output != "yaml":
				return fmt.Errorf("--output %q: use json or yaml", o.output)
			case o.output != "" && o.watch:
				return errors.New("--watch shows charts only; leave out -o, or use: " + c.command + " events " + name + " -w --type analysis -o json")
			}
			return c.showAnalysis(cmd.Context(), name, o)
		},
	}
	get.Flags().StringVarP(&o.output, "output", "o", "", "json or yaml: the analyses of the status, and the data of the measurements")
	get.Flags().BoolVarP(&o.watch, "watch", "w", false, "go on showing what changes until interrupted")
	get.Flags().StringVar(&o.cluster, "cluster", "", "read the measurements of this cluster only, by its name on NATS")
	o.nats = component.AddNATSFlags(get.Flags(), &c.kube)
	_ = get.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"json", "yaml"}, cobra.ShellCompDirectiveNoFileComp))
	return get
}

func (c *cli) showAnalysis(ctx context.Context, name string, o analysisOptions) error {
	a, err := c.newAccess()
	if err != nil {
		return err
	}
	rollout, err := a.read.ReadRollout(ctx, a.namespace, name)
	if err != nil {
		return c.notFound(ctx, a.namespace, name, err)
	}
	s := &showing{cli: c, analysisOptions: o, reader: a.read, client: a.write, view: report.View{Rollout: rollout}}
	if o.watch {
		live := terminal.New(c.out, c.terminalHeight())
		defer live.Close()
		return c.notFound(ctx, a.namespace, name, s.followAnalysis(ctx, live))
	}
	if report.RunOf(rollout, report.ScopeStep) == nil && report.RunOf(rollout, report.ScopeRelease) == nil && o.output == "" {
		fmt.Fprintln(c.errors, nothingMeasured(rollout, c.command))
		return nil
	}
	s.readMeasurements(ctx)
	s.readLimits(ctx)
	if o.output != "" {
		return c.printAnalysis(s.view, o.output)
	}
	for _, line := range report.Render(s.view, c.chartStyle()) {
		fmt.Fprintln(c.out, line)
	}
	return nil
}

// nothingMeasured explains why there are no metrics to show.
func nothingMeasured(r *api.Rollout, command string) string {
	asks := r.Spec.Strategy.Analysis != nil
	for _, s := range release.Steps(r) {
		asks = asks || s.Analysis != nil
	}
	name := r.Namespace + "/" + r.Name
	if !asks {
		return fmt.Sprintf("Rollout %s has no analysis: name templates under strategy.analysis, or under analysis of a step.", name)
	}
	return fmt.Sprintf("The analyzer measures nothing for Rollout %s now, which is %s: %s. To see earlier measurements, type: %s events %s -n %s --type analysis",
		name, r.Status.Phase, r.Status.Message, command, r.Name, r.Namespace)
}

// showing is the state of one analysis get.
type showing struct {
	*cli
	analysisOptions
	reader *view.Reader
	client dynamic.Interface
	view   report.View
}

// readMeasurements adds the stored events of the runs. If it cannot read NATS, the view has a note about it.
func (s *showing) readMeasurements(ctx context.Context) {
	q, err := s.nats.ConnectQueue(ctx)
	if err == nil {
		defer q.Close()
		for e, failed := range q.ReadEvents(ctx, s.readOptions(false)) {
			if failed != nil {
				err = failed
				break
			}
			s.addMeasurement(e)
		}
	}
	if err != nil {
		s.view.Note = measurementsMissing(err)
	}
}

func measurementsMissing(err error) string {
	return fmt.Sprintf("The measurements cannot be shown, and the verdicts stand alone: %v", err)
}

// readOptions selects the events since the begin of the oldest run, with some margin for clocks that differ.
func (s *showing) readOptions(follow bool) queue.ReadOptions {
	r := s.view.Rollout
	o := queue.ReadOptions{Cluster: s.cluster, Namespace: r.Namespace, Name: r.Name, Follow: follow}
	for _, scope := range []string{report.ScopeStep, report.ScopeRelease} {
		if run := report.RunOf(r, scope); run != nil && run.StartedAt != nil && (o.Since.IsZero() || run.StartedAt.Time.Before(o.Since)) {
			o.Since = run.StartedAt.Time
		}
	}
	if !o.Since.IsZero() {
		o.Since = o.Since.Add(-time.Minute)
	}
	return o
}

// addMeasurement keeps an event if it is a measurement.
func (s *showing) addMeasurement(e event.Event) bool {
	if e.Type() != event.TypeMeasured {
		return false
	}
	m, err := event.ParseMeasured(e)
	if err != nil {
		return false
	}
	s.view.Measured = append(s.view.Measured, m)
	return true
}

// chartStyle returns the chart style for the standard output.
func (c *cli) chartStyle() chart.Style {
	style := c.viewStyle()
	return chart.Style{Color: style.Color, Unicode: style.Unicode, Width: c.terminalWidth()}
}

// terminalWidth returns the width of the terminal; 80 if the output is no terminal.
func (c *cli) terminalWidth() int {
	if file, ok := c.out.(*os.File); ok && c.isTerminal() {
		if width, _, err := term.GetSize(int(file.Fd())); err == nil && width > 0 {
			return width
		}
	}
	return 80
}

// printAnalysis writes the report in a format for programs.
func (c *cli) printAnalysis(v report.View, output string) error {
	value := map[string]any{
		"namespace": v.Rollout.Namespace, "name": v.Rollout.Name, "uid": v.Rollout.UID,
		"analysis": v.Rollout.Status.Analysis, "measurements": v.RunMeasurements(),
	}
	if v.Note != "" {
		fmt.Fprintln(c.errors, "warning: "+v.Note)
	}
	return c.printValues(output, value)
}
