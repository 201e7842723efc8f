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

// settle is how long changes are collected before they are drawn together; retry is how long a broken watch rests.
const (
	settle = 50 * time.Millisecond
	retry  = time.Second
)

// Follow calls draw with the view, and again whenever something of it may have changed, until ctx ends or draw returns an error.
// An end of ctx is no error.
func (r *Reader) Follow(ctx context.Context, namespace, name string, draw func(View) error) error {
	view, err := r.View(ctx, namespace, name)
	if err != nil {
		return err
	}
	if err := draw(view); err != nil {
		return err
	}
	return again(ctx, func(ctx context.Context) []source { return r.sources(ctx, view) }, func() (bool, error) {
		view, err := r.View(ctx, namespace, name)
		if err != nil {
			return false, err
		}
		return false, draw(view)
	})
}

// Until calls look with the Rollout, and again whenever it may have changed, until look is done, ctx ends or there is an error.
// An end of ctx is no error, and neither is an API server that is slow once it has answered.
func (r *Reader) Until(ctx context.Context, namespace, name string, look func(*api.Rollout) (done bool, err error)) error {
	answered := false
	return again(ctx, func(ctx context.Context) []source { return []source{r.rollout(ctx, namespace, name)} }, func() (bool, error) {
		for {
			rollout, err := r.Rollout(ctx, namespace, name)
			if answered && errors.Is(err, context.DeadlineExceeded) && pause(ctx, retry) {
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

// Changed calls look at first and whenever a Rollout of the namespace, of all namespaces if it is empty, may have changed.
func (r *Reader) Changed(ctx context.Context, namespace string, look func() error) error {
	return again(ctx, func(ctx context.Context) []source {
		return []source{func() (watch.Interface, error) {
			return r.objects.Resource(api.RolloutResource()).Namespace(namespace).Watch(ctx, metav1.ListOptions{})
		}}
	}, func() (bool, error) { return false, look() })
}

// again calls look after each change, the first of which is the start of the watches: what happened before they were open is
// seen as well.
func again(ctx context.Context, sources func(context.Context) []source, look func() (done bool, err error)) error {
	inner, cancel := context.WithCancel(ctx)
	changed := make(chan struct{}, 1)
	changed <- struct{}{}
	watched := watches(inner, sources(inner), changed)
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
		if !pause(ctx, settle) {
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

// source opens a watch.
type source func() (watch.Interface, error)

func named(name string) metav1.ListOptions {
	return metav1.ListOptions{FieldSelector: "metadata.name=" + name}
}

func (r *Reader) rollout(ctx context.Context, namespace, name string) source {
	return func() (watch.Interface, error) {
		return r.objects.Resource(api.RolloutResource()).Namespace(namespace).Watch(ctx, named(name))
	}
}

// sources are the watches on all that a view is made of.
func (r *Reader) sources(ctx context.Context, v View) []source {
	namespace := v.Rollout.Namespace
	list := []source{r.rollout(ctx, namespace, v.Rollout.Name)}
	if len(v.Deployments) > 0 {
		pods := metav1.ListOptions{LabelSelector: metav1.FormatLabelSelector(v.Deployments[0].Spec.Selector)}
		_, name := release.WorkloadOf(v.Rollout)
		list = append(list,
			func() (watch.Interface, error) { return r.kube.CoreV1().Pods(namespace).Watch(ctx, pods) },
			func() (watch.Interface, error) { return r.kube.AppsV1().ReplicaSets(namespace).Watch(ctx, pods) },
			func() (watch.Interface, error) { return r.kube.AppsV1().Deployments(namespace).Watch(ctx, named(name)) },
		)
	}
	if ref := v.Rollout.Spec.Workload(); v.Workload != nil && ref != nil {
		list = append(list, r.workloadSources(ctx, v.Workload, *ref)...)
	}
	for _, ref := range Gateways(v.Rollout) {
		if resource, err := r.Resource(ref); err == nil {
			objects := r.objects.Resource(resource).Namespace(namespace)
			list = append(list, func() (watch.Interface, error) { return objects.Watch(ctx, named(ref.Name)) })
		}
	}
	return list
}

// watches starts them all; each channel is closed when its watch has ended.
func watches(ctx context.Context, sources []source, changed chan<- struct{}) []<-chan struct{} {
	var watched []<-chan struct{}
	for _, open := range sources {
		done := make(chan struct{})
		watched = append(watched, done)
		go func() {
			defer close(done)
			tell(ctx, open, changed)
		}()
	}
	return watched
}

// tell keeps a watch open and reports its events. What happened is read anew, so that nothing is lost when a watch breaks.
func tell(ctx context.Context, open source, changed chan<- struct{}) {
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
		pause(ctx, retry)
	}
}

// pause reports whether ctx outlived it.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
