package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"

	"sluice.dev/sluice/cmd/internal/view"
	"sluice.dev/sluice/cmd/sluice/internal/fleetview"
	"sluice.dev/sluice/pkg/api"
)

const (
	// watchAgain is the delay before a broken watch is opened again.
	watchAgain = time.Second
	// lookAgain is how often a FleetRollout that does not change is looked at, because time passes.
	lookAgain = 5 * time.Second
	// drawAfter is the time that changes are collected before one drawing.
	drawAfter = 50 * time.Millisecond
)

// followFleet calls look with a FleetRollout, then with each later version of it, and again when time has passed, until look is done, an error occurs, or ctx
// ends. The end of ctx is no error. While a watch lasts, look sees every version, so that it misses no answer of the hub.
func (h hub) followFleet(ctx context.Context, r *api.FleetRollout, look func(*api.FleetRollout) (done bool, err error)) error {
	for {
		if done, err := look(r); done || err != nil {
			return err
		}
		w, err := h.objects.Resource(api.FleetRolloutResource()).Namespace(r.Namespace).Watch(ctx, metav1.ListOptions{
			FieldSelector: "metadata.name=" + r.Name, ResourceVersion: r.ResourceVersion})
		if err == nil {
			done, err := watchFleet(ctx, w, r, look)
			if done || err != nil {
				return err
			}
		}
		for {
			if !view.SleepContext(ctx, watchAgain) {
				return nil
			}
			next, err := h.readFleetRollout(ctx, r.Name)
			if err == nil {
				r = next
				break
			}
			if ctx.Err() != nil {
				return nil
			}
			var status apierrors.APIStatus
			if errors.As(err, &status) && !apierrors.IsTimeout(err) && !apierrors.IsTooManyRequests(err) && !apierrors.IsInternalError(err) {
				return err
			}
		}
	}
}

// watchFleet calls look with each version that a watch reports. It returns without an error when the watch breaks.
func watchFleet(ctx context.Context, w watch.Interface, r *api.FleetRollout, look func(*api.FleetRollout) (bool, error)) (done bool, err error) {
	defer w.Stop()
	tick := time.NewTicker(lookAgain)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return true, nil
		case <-tick.C:
			if done, err := look(r); done || err != nil {
				return true, err
			}
		case event, open := <-w.ResultChan():
			object, is := event.Object.(*unstructured.Unstructured)
			switch {
			case !open || event.Type == watch.Error || !is:
				return false, nil
			case event.Type == watch.Deleted:
				return true, apierrors.NewNotFound(api.FleetRolloutResource().GroupResource(), object.GetName())
			}
			if r, err = typed[api.FleetRollout](object); err != nil {
				return true, err
			}
			if done, err := look(r); done || err != nil {
				return true, err
			}
		}
	}
}

// showFleetProgress follows the text of look about a FleetRollout until look is done. It writes each new sentence to standard error, and the last one to
// standard output. After the timeout it returns a [late]; 0 means no timeout.
func (c *cli) showFleetProgress(ctx context.Context, h hub, r *api.FleetRollout, timeout time.Duration, what string, look func(*api.FleetRollout) (string, bool, error)) error {
	bound := ctx
	if timeout > 0 {
		var cancel context.CancelFunc
		bound, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	last, finished := "", false
	err := h.followFleet(bound, r, func(now *api.FleetRollout) (bool, error) {
		text, done, err := look(now)
		switch {
		case err != nil:
		case done:
			finished = true
			fmt.Fprintln(c.out, text)
		case text != last && text != "":
			fmt.Fprintln(c.errors, text)
		}
		last = text
		return done, err
	})
	switch {
	case err != nil:
		return c.fleetProblem(ctx, h, r.Name, err)
	case finished:
		return nil
	case ctx.Err() != nil:
		return context.Canceled
	}
	return late{what: what, after: timeout, last: last}
}

// source is what a watch reports: the objects of a kind in a namespace, or in all.
type source struct {
	resource  schema.GroupVersionResource
	namespace string
	options   metav1.ListOptions
}

// sources are the objects that a view of a FleetRollout shows.
func sources(r *api.FleetRollout) []source {
	return []source{
		{api.FleetRolloutResource(), r.Namespace, metav1.ListOptions{FieldSelector: "metadata.name=" + r.Name}}, {api.FleetTargetResource(), r.Namespace, metav1.ListOptions{}},
		{api.FleetMemberResource(), "", metav1.ListOptions{}},
	}
}

// followView calls draw with the view of a FleetRollout, and again after each change of its objects, until ctx ends or an error occurs.
func (h hub) followView(ctx context.Context, r *api.FleetRollout, draw func(fleetview.View) error) error {
	return h.followChanges(ctx, sources(r), func() error {
		now, err := h.readFleetRollout(ctx, r.Name)
		if err != nil {
			return err
		}
		return draw(h.readFleetView(ctx, now))
	})
}

// followChanges calls draw, and again after each change of the objects, until ctx ends or an error occurs. The end of ctx is no error.
func (h hub) followChanges(ctx context.Context, of []source, draw func() error) error {
	inner, cancel := context.WithCancel(ctx)
	changed := make(chan struct{}, 1)
	changed <- struct{}{}
	var watched []<-chan struct{}
	defer func() {
		cancel()
		for _, ended := range watched {
			<-ended
		}
	}()
	for _, s := range of {
		ended := make(chan struct{})
		watched = append(watched, ended)
		go func() {
			defer close(ended)
			view.ReportChanges(inner, func() (watch.Interface, error) {
				return h.objects.Resource(s.resource).Namespace(s.namespace).Watch(inner, s.options)
			}, changed)
		}()
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		}
		if !view.SleepContext(ctx, drawAfter) {
			return nil
		}
		if err := draw(); err != nil && ctx.Err() == nil {
			return err
		}
	}
}
