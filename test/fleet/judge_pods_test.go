package fleet

import (
	"context"
	"strconv"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/test/controlplane"
	"sluice.dev/sluice/test/world"
)

// This file watches pods, because audit logs do not have the writes of the controllers of Kubernetes.

const (
	// toldWithin is how soon a cluster tells its hub of pods that no permit has let through. The promise is 5 s on a machine that is not busy.
	toldWithin = 30 * time.Second
	// goneWithin is how late the watch of a busy machine may show that a pod is gone.
	goneWithin = 30 * time.Second
	// controllerLag is how late a controller of Kubernetes may create a pod that a commit before the last one allows.
	controllerLag = 30 * time.Second
)

// podEvent is what a watch has shown of one pod.
type podEvent struct {
	at      time.Time
	version int64
	name    string
	tag     string
	// gone: it was deleted, or it is being deleted.
	gone bool
}

// watchPods records the pods of a namespace until the test ends. The returned function returns what it has seen so far.
func watchPods(t testing.TB, w *world.World, namespace string) func() []podEvent {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	events, err := controlplane.Watch(ctx, w.Client(t, namespace, "pod"), metav1.ListOptions{})
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	t.Cleanup(cancel)
	var mu sync.Mutex
	var list []podEvent
	go func() {
		for e := range events.ResultChan() {
			pod, is := e.Object.(*unstructured.Unstructured)
			if !is {
				continue
			}
			version, _ := strconv.ParseInt(pod.GetResourceVersion(), 10, 64)
			mu.Lock()
			list = append(list, podEvent{time.Now(), version, pod.GetName(), imageTag(pod), e.Type == watch.Deleted || pod.GetDeletionTimestamp() != nil})
			mu.Unlock()
		}
	}()
	return func() []podEvent {
		mu.Lock()
		defer mu.Unlock()
		return list
	}
}

// judgePods judges each new pod by the last commit of its cluster before it was created, and each pod that is left by the answers to the hub.
func (j *judge) judgePods(m *memberState, events []podEvent) {
	first, gone := map[string]podEvent{}, map[string]time.Time{}
	for _, e := range events {
		if _, known := first[e.name]; !known {
			first[e.name] = e
			j.judgeNewPod(m, e)
		}
		if _, known := gone[e.name]; e.gone && !known {
			gone[e.name] = e.at
		}
	}
	for version, answered := range j.withdrawn[m.cluster] {
		for name, pod := range first {
			late := answered.Add(goneWithin)
			if "version/"+pod.tag != version || pod.at.After(answered) {
				continue // judgeNewPod judges a later one
			}
			if at, deleted := gone[name]; !deleted || at.After(late) {
				j.breachAt(answered, "WithdrawnMeansGone", "%s has answered the withdrawal of %s, and its pod %s runs", m.cluster, version, name)
			}
		}
	}
}

// judgeNewPod judges a pod that was created.
func (j *judge) judgeNewPod(m *memberState, pod podEvent) {
	version := "version/" + pod.tag
	var last *commit
	for i, c := range m.commits {
		if c.version > pod.version {
			break
		}
		if last != nil && allows(last.status, version) && pod.at.Sub(c.received) < controllerLag {
			return
		}
		last = &m.commits[i]
	}
	if last == nil || last.status.Fleet == nil || len(last.status.Fleet.Served) == 0 || allows(last.status, version) {
		return
	}
	for _, c := range m.commits {
		if f := c.status.Fleet; f != nil && f.Unpermitted != "" && c.version >= pod.version && c.received.Before(pod.at.Add(toldWithin)) {
			return
		}
	}
	j.breachAt(pod.at, "NothingBeyondThePermit", "%s has a new pod %s of %s, which its last commit does not allow: %+v", m.cluster, pod.name, version, *last.status.Fleet)
}

// allows reports whether a commit of a cluster allows new pods of a version.
func allows(s api.RolloutStatus, version string) bool {
	f := s.Fleet
	if f == nil {
		return true
	}
	for i, served := range f.Served {
		if served.Named(version) && (i == 0 || !blocks(f.Blocked, version)) {
			return true
		}
	}
	if f.Override != nil && f.Override.Release == s.Sluice.Epoch {
		return true
	}
	return f.Releasing.Named(version) && !blocks(f.Blocked, version) && f.Used != nil && f.Used.Release == s.Sluice.Epoch && f.Used.Failure == ""
}
