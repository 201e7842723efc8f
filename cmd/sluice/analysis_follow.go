package main

import (
	"context"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"sluice.dev/sluice/cmd/sluice/internal/chart"
	"sluice.dev/sluice/cmd/sluice/internal/report"
	"sluice.dev/sluice/cmd/sluice/internal/terminal"
	"sluice.dev/sluice/pkg/analysis"
	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/event"
	"sluice.dev/sluice/pkg/queue"
	"sluice.dev/sluice/pkg/rollout"
)

// gatherTime is the time that changes are collected before one drawing.
const gatherTime = 50 * time.Millisecond

// followAnalysis draws the view after each change of the Rollout and after each measurement, until ctx ends.
func (s *showing) followAnalysis(ctx context.Context, live *terminal.Screen) error {
	ctx, cancel := context.WithCancel(ctx)
	var readers sync.WaitGroup
	defer readers.Wait()
	defer cancel()
	rollouts, measured, notes := make(chan *api.Rollout), make(chan event.Event), make(chan string)
	ended := make(chan error, 1)
	readers.Go(func() {
		ended <- s.reader.FollowRollout(ctx, s.view.Rollout.Namespace, s.view.Rollout.Name, func(r *api.Rollout) (bool, error) {
			select {
			case rollouts <- r:
			case <-ctx.Done():
			}
			return false, nil
		})
	})
	read := s.readOptions(true)
	readers.Go(func() { s.listenMeasurements(ctx, read, measured, notes) })
	for {
		select {
		case err := <-ended:
			return err
		case r := <-rollouts:
			s.view.Rollout = r
			s.readLimits(ctx)
		case e := <-measured:
			s.gatherMeasurements(e, measured)
		case s.view.Note = <-notes:
		}
		lines := report.Render(s.view, s.chartStyle())
		if err := live.DrawLines(lines, lines); err != nil {
			return err
		}
	}
}

// gatherMeasurements adds a measurement, and those that follow at once: at the beginning there are many.
func (s *showing) gatherMeasurements(e event.Event, more <-chan event.Event) {
	timer := time.NewTimer(gatherTime)
	defer timer.Stop()
	s.addMeasurement(e)
	for {
		select {
		case e := <-more:
			s.addMeasurement(e)
		case <-timer.C:
			return
		}
	}
}

// listenMeasurements sends the measurements from NATS to measured, and errors to notes.
func (s *showing) listenMeasurements(ctx context.Context, o queue.ReadOptions, measured chan<- event.Event, notes chan<- string) {
	tell := func(note string) {
		select {
		case notes <- note:
		case <-ctx.Done():
		}
	}
	q, err := s.nats.ConnectQueue(ctx)
	if err != nil {
		tell(measurementsMissing(err))
		return
	}
	defer q.Close()
	o.OnInterruption = func(err error) {
		if err != nil {
			tell(measurementsMissing(err))
			return
		}
		tell("")
	}
	for e, err := range q.ReadEvents(ctx, o) {
		if err != nil {
			tell(measurementsMissing(err))
			return
		}
		if e.Type() != event.TypeMeasured {
			continue
		}
		select {
		case measured <- e:
		case <-ctx.Done():
			return
		}
	}
}

// readLimits reads the limits of the metrics from their templates. A user without access to the templates gets charts without limits.
func (s *showing) readLimits(ctx context.Context) {
	spec, err := rollout.Parse(s.view.Rollout)
	if err != nil {
		return
	}
	s.view.Limits = map[report.Key][]chart.Limit{}
	standard := rollout.TemplateArguments(spec, s.view.Rollout)
	for _, scope := range []string{report.ScopeStep, report.ScopeRelease} {
		run, of := report.RunOf(s.view.Rollout, scope), spec.ReleaseAnalysis
		if scope == report.ScopeStep && run != nil {
			of = spec.StepAnalysis(run.Step)
		}
		if run == nil || of == nil {
			continue
		}
		for _, ref := range of.Templates {
			template, err := s.readTemplate(ctx, ref)
			if err != nil {
				continue
			}
			args, err := analysis.ResolveArguments(template.Args, of.Args, standard)
			if err != nil {
				continue
			}
			for _, m := range template.Metrics {
				s.view.Limits[report.Key{Scope: scope, Template: ref.String(), Metric: m.Name}] = report.LimitsOf(m, args)
			}
		}
	}
}

func (s *showing) readTemplate(ctx context.Context, ref rollout.TemplateRef) (api.AnalysisTemplateSpec, error) {
	ctx, cancel := context.WithTimeout(ctx, templateDeadline)
	defer cancel()
	var typed api.AnalysisTemplate
	client := s.client.Resource(api.AnalysisTemplateResource()).Namespace(s.view.Rollout.Namespace)
	if ref.ClusterScope {
		client = s.client.Resource(api.ClusterAnalysisTemplateResource())
	}
	obj, err := client.Get(ctx, ref.Name, metav1.GetOptions{})
	if err == nil {
		err = runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, &typed)
	}
	return typed.Spec, err
}

// templateDeadline bounds the reading of a template.
const templateDeadline = 15 * time.Second
