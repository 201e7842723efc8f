package workload

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"

	"sluice.dev/sluice/test/controlplane"
)

// patience bounds each wait. It is long because two cores may be busy with other tests; no test waits for it to pass.
const patience = 10 * time.Minute

// none stands for no limit.
const none = 1 << 20

// witness watches every pod of a shop, regardless of its creator, and counts the pods of each version. Only the first
// version may run before it is allowed. In a rollback in batches, a minimum must stay.
type witness struct {
	mu       sync.Mutex
	limits   map[string]int
	floors   map[string]int
	seen     map[types.UID]*corev1.Pod
	breaches []string
	// least is the smallest number of ready pods at any time.
	least int
	// taken has the resource versions at which pods of an image were deleted or changed to another image.
	taken map[string][]int64
	// changed is closed when a pod changes, and replaced by a new channel.
	changed chan struct{}
}

// watched starts a watch on a shop until its test ends.
func watched(s *shop) *witness {
	w := &witness{limits: map[string]int{image(1): none}, floors: map[string]int{}, seen: map[types.UID]*corev1.Pod{}, taken: map[string][]int64{}, changed: make(chan struct{})}
	client, err := kubernetes.NewForConfig(s.w.Config)
	if err != nil {
		s.Fatal(err)
	}
	ctx, cancel := context.WithCancel(s.Context())
	events, err := controlplane.Watch(ctx, client.CoreV1().Pods(s.ns), metav1.ListOptions{})
	if err != nil {
		s.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for e := range events.ResultChan() {
			if pod, ok := e.Object.(*corev1.Pod); ok {
				w.take(e.Type, pod)
			}
		}
	}()
	s.Cleanup(func() {
		cancel()
		<-done
		for _, breach := range w.breaches {
			s.Error(breach)
		}
	})
	return w
}

func (w *witness) take(event watch.EventType, pod *corev1.Pod) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if was := w.seen[pod.UID]; was != nil && (event == watch.Deleted || pod.DeletionTimestamp != nil || imageOf(pod) != imageOf(was)) {
		w.takes(imageOf(was), pod)
	}
	w.seen[pod.UID] = pod
	if event == watch.Deleted {
		delete(w.seen, pod.UID)
	}
	running, serving := map[string]int{}, 0
	for _, p := range w.seen {
		if p.DeletionTimestamp != nil {
			continue
		}
		running[imageOf(p)]++
		if ready(p) {
			serving++
		}
	}
	w.least = min(w.least, serving)
	for image, least := range w.floors {
		breach := fmt.Sprintf("%d pods ran %s when %d were to stay", running[image], image, least)
		if running[image] < least && !slices.Contains(w.breaches, breach) {
			w.breaches = append(w.breaches, breach)
		}
	}
	for image, n := range running {
		breach := fmt.Sprintf("%d pods ran %s when %d were approved", n, image, w.limits[image])
		if n > w.limits[image] && !slices.Contains(w.breaches, breach) {
			w.breaches = append(w.breaches, breach)
		}
	}
	close(w.changed)
	w.changed = make(chan struct{})
}

// takes records that a pod of an image goes.
func (w *witness) takes(image string, pod *corev1.Pod) {
	if version, err := strconv.ParseInt(pod.ResourceVersion, 10, 64); err == nil {
		w.taken[image] = append(w.taken[image], version)
	}
}

// takenSince returns the resource version at which the first pod of an image went after a write, 0 if none has.
func (w *witness) takenSince(version int64, image string) int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	i := slices.IndexFunc(w.taken[image], func(taken int64) bool { return taken > version })
	if i < 0 {
		return 0
	}
	return w.taken[image][i]
}

// allow raises the number of pods that may run an image.
func (w *witness) allow(image string, n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.limits[image] = max(w.limits[image], n)
}

// keep sets the minimum number of pods that run an image from now on.
func (w *witness) keep(image string, n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.floors[image] = n
}

// now returns the pods that are not being deleted, by name.
func (w *witness) now() map[string]*corev1.Pod {
	w.mu.Lock()
	defer w.mu.Unlock()
	found := map[string]*corev1.Pod{}
	for _, pod := range w.seen {
		if pod.DeletionTimestamp == nil {
			found[pod.Name] = pod
		}
	}
	return found
}

// images counts pods by image. Unready pods count under the image with a "?".
func images(pods map[string]*corev1.Pod) map[string]int {
	found := map[string]int{}
	for _, pod := range pods {
		image := imageOf(pod)
		if !ready(pod) {
			image += "?"
		}
		found[image]++
	}
	return found
}

// of returns the pods of an image, by name.
func of(pods map[string]*corev1.Pod, image string) map[string]*corev1.Pod {
	found := map[string]*corev1.Pod{}
	for name, pod := range pods {
		if imageOf(pod) == image {
			found[name] = pod
		}
	}
	return found
}

func imageOf(pod *corev1.Pod) string { return pod.Spec.Containers[0].Image }

func ready(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// runs waits until exactly these numbers of pods run each image.
func (s *shop) runs(want map[string]int) {
	s.Helper()
	s.until(fmt.Sprint(want), func(pods map[string]*corev1.Pod) bool { return maps.Equal(want, images(pods)) })
}

// until waits until the pods are as wanted.
func (s *shop) until(want string, reached func(map[string]*corev1.Pod) bool) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), patience)
	defer cancel()
	for {
		s.pods.mu.Lock()
		changed := s.pods.changed
		s.pods.mu.Unlock()
		now := s.pods.now()
		if reached(now) {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			s.Fatalf("the pods did not get there in time: wanted %s, they are %v\n%s", want, images(now), s.shown(s.kind.Resource))
		}
	}
}
