package view

import (
	"context"
	"errors"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/release"
)

// drawDelay is the time that changes are collected before one drawing. watchRetry is the delay before a broken watch is opened again.
const (
	drawDelay  = 50 * time.Millisecond
	watchRetry = time.Second
)

// FollowView calls draw with the view, and again after each possible change, until ctx ends or draw returns an error. The end of ctx is no error.
func (r *Reader) FollowView(ctx context.Context, namespace, name string, draw func(View) error) error {
	view, err := r.ReadView(ctx, namespace, name)
	if err != nil {
		return err
	}
	if err := draw(view); err != nil {
		return err
	}
	return callOnChange(ctx, func(ctx context.Context) []watchSource { return r.viewSources(ctx, view) }, func() (bool, error) {
		view, err := r.ReadView(ctx, namespace, name)
		if err != nil {
			return false, err
		}
		return false, draw(view)
	})
}

// FollowRollout calls look with the Rollout, and again after each possible change, until look is done, ctx ends or an error occurs. The end of ctx is no error.
// A slow API server is no error either, once it has answered.
func (r *Reader) FollowRollout(ctx context.Context, namespace, name string, look func(*api.Rollout) (done bool, err error)) error {
	answered := false
	return callOnChange(ctx, func(ctx context.Context) []watchSource { return []watchSource{r.rolloutSource(ctx, namespace, name)} }, func() (bool, error) {
		for {
			rollout, err := r.ReadRollout(ctx, namespace, name)
			if answered && errors.Is(err, context.DeadlineExceeded) && SleepContext(ctx, watchRetry) {
				continue
			}
			if err != nil {
				return false, err
			}
			answered = true
			return look(rollout)
		}
	})
}

// FollowNamespace calls look at first, and again when a Rollout of the namespace may have changed. An empty namespace means all namespaces.
func (r *Reader) FollowNamespace(ctx context.Context, namespace string, look func() error) error {
	return callOnChange(ctx, func(ctx context.Context) []watchSource {
		return []watchSource{func() (watch.Interface, error) {
			return r.objects.Resource(api.RolloutResource()).Namespace(namespace).Watch(ctx, metav1.ListOptions{})
		}}
	}, func() (bool, error) { return false, look() })
}

// callOnChange calls look after each change. The start of the watches counts as the first change, so that look also sees earlier changes.
func callOnChange(ctx context.Context, sources func(context.Context) []watchSource, look func() (done bool, err error)) error {
	inner, cancel := context.WithCancel(ctx)
	changed := make(chan struct{}, 1)
	changed <- struct{}{}
	watched := startWatches(inner, sources(inner), changed)
	defer func() {
		cancel()
		for _, done := range watched {
			<-done
		}
	}()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		}
		if !SleepContext(ctx, drawDelay) {
			return nil
		}
		done, err := look()
		if ctx.Err() != nil {
			return nil
		}
		if done || err != nil {
			return err
		}
	}
}

// watchSource opens a watch.
type watchSource func() (watch.Interface, error)

func nameSelector(name string) metav1.ListOptions {
	return metav1.ListOptions{FieldSelector: "metadata.name=" + name}
}

func (r *Reader) rolloutSource(ctx context.Context, namespace, name string) watchSource {
	return func() (watch.Interface, error) {
		return r.objects.Resource(api.RolloutResource()).Namespace(namespace).Watch(ctx, nameSelector(name))
	}
}

// viewSources returns the watches on all objects of a view.
func (r *Reader) viewSources(ctx context.Context, v View) []watchSource {
	namespace := v.Rollout.Namespace
	list := []watchSource{r.rolloutSource(ctx, namespace, v.Rollout.Name)}
	if len(v.Deployments) > 0 {
		pods := metav1.ListOptions{LabelSelector: metav1.FormatLabelSelector(v.Deployments[0].Spec.Selector)}
		_, name := release.WorkloadOf(v.Rollout)
		list = append(list,
			func() (watch.Interface, error) { return r.kube.CoreV1().Pods(namespace).Watch(ctx, pods) },
			func() (watch.Interface, error) { return r.kube.AppsV1().ReplicaSets(namespace).Watch(ctx, pods) },
			func() (watch.Interface, error) {
				return r.kube.AppsV1().Deployments(namespace).Watch(ctx, nameSelector(name))
			},
		)
	}
	if ref := v.Rollout.Spec.Workload(); v.Workload != nil && ref != nil {
		list = append(list, r.workloadSources(ctx, v.Workload, *ref)...)
	}
	for _, ref := range GatewayRefs(v.Rollout) {
		if resource, err := r.ResourceOf(ref); err == nil {
			objects := r.objects.Resource(resource).Namespace(namespace)
			list = append(list, func() (watch.Interface, error) { return objects.Watch(ctx, nameSelector(ref.Name)) })
		}
	}
	return list
}

// startWatches starts all watches; each channel is closed when its watch has ended.
func startWatches(ctx context.Context, sources []watchSource, changed chan<- struct{}) []<-chan struct{} {
	var watched []<-chan struct{}
	for _, open := range sources {
		done := make(chan struct{})
		watched = append(watched, done)
		go func() {
			defer close(done)
			ReportChanges(ctx, open, changed)
		}()
	}
	return watched
}

// ReportChanges keeps a watch open and reports its events. The caller reads the objects again after each report, so a broken watch loses no change.
func ReportChanges(ctx context.Context, open func() (watch.Interface, error), changed chan<- struct{}) {
	for ctx.Err() == nil {
		w, err := open()
		if err == nil {
			for range w.ResultChan() {
				select {
				case changed <- struct{}{}:
				default:
				}
			}
			w.Stop()
		}
		SleepContext(ctx, watchRetry)
	}
}

// SleepContext sleeps for d and reports whether ctx is still valid.
func SleepContext(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
