package matrix

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/yaml"

	"sluice.dev/sluice/test/controlplane"
)

// limit is the highest allowed exposure of a version at the moment: its pods, and its share of the traffic in percent.
type limit struct{ pods, weight int }

// none stands for no limit.
const none = 1 << 20

// witness watches every pod and every route of a cell, regardless of the writer. The audit log does not have the writes
// of the cluster's own controllers. A version without a limit may have any exposure.
type witness struct {
	ctx    context.Context
	pods   podWriter
	mu     sync.Mutex
	limits map[string]limit
	latest string // the image of the version that is being released
	// before is the image of the previous version. Routes up to the resource version since are about it, and the watch
	// may deliver them later.
	before string
	since  int64
	// version returns the current resource version of the API server. It is nil in a column without routes.
	version  func() int64
	cures    int // the number of sick pods to make ready in all, in the order in which they come
	cured    map[string]bool
	seen     map[string]*unstructured.Unstructured
	breaches []string
	// changed is closed when a pod changes, and replaced by a new channel.
	changed chan struct{}
}

type podWriter interface {
	Patch(ctx context.Context, name string, pt types.PatchType, data []byte, o metav1.PatchOptions, sub ...string) (*unstructured.Unstructured, error)
}

func pods() schema.GroupVersionResource {
	return schema.GroupVersionResource{Version: "v1", Resource: "pods"}
}

func services() schema.GroupVersionResource {
	return schema.GroupVersionResource{Version: "v1", Resource: "services"}
}

func virtualServices() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "networking.istio.io", Version: "v1", Resource: "virtualservices"}
}

// watched starts a watch on a cell until the cell ends.
func watched(c *cell) *witness {
	ctx, cancel := context.WithCancel(c.Context())
	w := &witness{ctx: ctx, pods: c.client(pods()), limits: map[string]limit{}, cured: map[string]bool{},
		seen: map[string]*unstructured.Unstructured{}, changed: make(chan struct{})}
	var watching sync.WaitGroup
	follow := func(kind schema.GroupVersionResource, take func(watch.Event)) {
		client := c.client(kind)
		events, err := controlplane.Watch(ctx, client, metav1.ListOptions{})
		if err != nil {
			c.Fatal(err)
		}
		watching.Go(func() {
			for e := range events.ResultChan() {
				take(e)
			}
		})
	}
	follow(pods(), w.pod)
	if c.col.routed {
		follow(virtualServices(), w.route)
		w.version = func() int64 {
			list, err := c.client(virtualServices()).List(ctx, metav1.ListOptions{})
			if err != nil {
				c.Fatal(err)
			}
			version, err := strconv.ParseInt(list.GetResourceVersion(), 10, 64)
			if err != nil {
				c.Fatal(err)
			}
			return version
		}
	}
	c.Cleanup(func() {
		cancel()
		watching.Wait()
		for _, breach := range w.breaches {
			c.Error(breach)
		}
	})
	return w
}

// allow raises the limit of a version's exposure. For a further version, call it before the release of that version
// begins.
func (w *witness) allow(image string, l limit) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if image != w.latest && w.version != nil {
		w.before, w.since = w.latest, w.version()
	}
	w.latest = image
	had, ok := w.limits[image]
	if !ok {
		had = limit{}
	}
	w.limits[image] = limit{max(had.pods, l.pods), max(had.weight, l.weight)}
}

// cure makes n sick pods ready in all: existing ones at once, others when they come.
func (w *witness) cure(n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cures = n
	for _, p := range w.seen {
		w.heal(p)
	}
}

func (w *witness) heal(p *unstructured.Unstructured) {
	if p.GetAnnotations()[controlplane.NeverReady] != "true" || p.GetDeletionTimestamp() != nil || len(w.cured) >= w.cures || w.cured[string(p.GetUID())] {
		return
	}
	patch := fmt.Sprintf(`{"metadata":{"uid":%q,"annotations":{%q:null}}}`, p.GetUID(), controlplane.NeverReady)
	if _, err := w.pods.Patch(w.ctx, p.GetName(), types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err == nil {
		w.cured[string(p.GetUID())] = true
	}
}

func (w *witness) pod(e watch.Event) {
	p, ok := e.Object.(*unstructured.Unstructured)
	if !ok || p.GetKind() != "Pod" {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen[string(p.GetUID())] = p
	if e.Type == watch.Deleted {
		delete(w.seen, string(p.GetUID()))
		delete(w.cured, string(p.GetUID())) // controllers that go by names may delete the same pod twice
	}
	w.heal(p)
	counts := map[string]int{}
	for _, p := range w.seen {
		if p.GetDeletionTimestamp() == nil {
			counts[imageOf(p)]++
		}
	}
	for image, n := range counts {
		if l, ok := w.limits[image]; ok && n > l.pods {
			w.breach("%d pods ran %s when %d were approved", n, image, l.pods)
		}
	}
	close(w.changed)
	w.changed = make(chan struct{})
}

func (w *witness) route(e watch.Event) {
	u, ok := e.Object.(*unstructured.Unstructured)
	if !ok || e.Type == watch.Deleted || u.GetKind() != "VirtualService" {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	weight := weightOf(u)
	image := w.latest
	if version, err := strconv.ParseInt(u.GetResourceVersion(), 10, 64); err == nil && version <= w.since {
		image = w.before
	}
	if l, ok := w.limits[image]; ok && weight > l.weight {
		w.breach("%d%% of the traffic went to %s when %d%% were approved", weight, image, l.weight)
	}
}

func (w *witness) breach(format string, args ...any) {
	if text := "exposure above the approved step: " + fmt.Sprintf(format, args...); !slices.Contains(w.breaches, text) {
		w.breaches = append(w.breaches, text)
	}
}

// await waits until the pods are as wanted. The predicate gets the UIDs of all pods, by image, in order.
func (w *witness) await(c *cell, want string, reached func(map[string][]string) bool) {
	c.Helper()
	for {
		w.mu.Lock()
		byImage := map[string][]string{}
		for _, p := range w.seen {
			byImage[imageOf(p)] = append(byImage[imageOf(p)], string(p.GetUID()))
		}
		changed := w.changed
		w.mu.Unlock()
		for _, uids := range byImage {
			slices.Sort(uids)
		}
		if reached(byImage) {
			return
		}
		select {
		case <-changed:
		case <-c.patience().Done():
			c.Fatalf("the pods did not get there in time: wanted %s, they are %v", want, byImage)
		}
	}
}

// routes waits until the share of the new version on the route is as wanted.
func (c *cell) routes(want string, reached func(int) bool) {
	c.Helper()
	c.object(virtualServices(), "app", want, func(u *unstructured.Unstructured) bool { return u != nil && reached(weightOf(u)) })
}

// podsOf returns the pods of a version that are not being deleted, by name.
func (w *witness) podsOf(image string) []*unstructured.Unstructured {
	w.mu.Lock()
	defer w.mu.Unlock()
	var list []*unstructured.Unstructured
	for _, p := range w.seen {
		if imageOf(p) == image && p.GetDeletionTimestamp() == nil {
			list = append(list, p)
		}
	}
	slices.SortFunc(list, func(a, b *unstructured.Unstructured) int { return strings.Compare(a.GetName(), b.GetName()) })
	return list
}

// running returns the names of these pods.
func (w *witness) running(image string) []string {
	var names []string
	for _, p := range w.podsOf(image) {
		names = append(names, p.GetName())
	}
	return names
}

// ids returns their UIDs. A replaced pod of a StatefulSet has the name of the pod before it, and another UID.
func (w *witness) ids(image string) []string {
	var uids []string
	for _, p := range w.podsOf(image) {
		uids = append(uids, string(p.GetUID()))
	}
	return uids
}

// imageOf returns the image of a pod's first container.
func imageOf(p *unstructured.Unstructured) string { return containerImage(p, "spec", "containers") }

func containerImage(u *unstructured.Unstructured, fields ...string) string {
	list, _, _ := unstructured.NestedSlice(u.Object, fields...)
	for _, c := range list {
		if m, ok := c.(map[string]any); ok {
			image, _ := m["image"].(string)
			return image
		}
	}
	return ""
}

// weightOf returns the share of the new version on a VirtualService. That is the weight of the canary Service, or of
// the subset canary of a Service that both versions share. In a rule without a weight, it is the value of the
// header, or 100 without one.
func weightOf(u *unstructured.Unstructured) int {
	share := 0
	rules, _, _ := unstructured.NestedSlice(u.Object, "spec", "http")
	for _, rule := range rules {
		routes, _, _ := unstructured.NestedSlice(rule.(map[string]any), "route")
		for _, r := range routes {
			host, _, _ := unstructured.NestedString(r.(map[string]any), "destination", "host")
			subset, _, _ := unstructured.NestedString(r.(map[string]any), "destination", "subset")
			if strings.HasSuffix(host, "-canary") || subset == "canary" {
				weight, set, _ := unstructured.NestedInt64(r.(map[string]any), "weight")
				if !set {
					weight = matchedBy(rule.(map[string]any))
				}
				share = max(share, int(weight))
			}
		}
	}
	return share
}

func TestWhatARouteSendsToTheNewVersion(t *testing.T) {
	t.Parallel()
	for sentence, c := range map[string]struct {
		rule string
		want int
	}{
		"the share of a canary Service": {`{route: [{destination: {host: app}, weight: 80}, {destination: {host: app-canary}, weight: 20}]}`, 20},
		"that of a subset":              {`{route: [{destination: {host: app, subset: base}, weight: 70}, {destination: {host: app, subset: canary}, weight: 30}]}`, 30},
		"all, where there is no share":  {`{route: [{destination: {host: app, subset: canary}}]}`, 100},
		"nothing":                       {`{route: [{destination: {host: app, subset: base}}]}`, 0},
	} {
		body, err := yaml.YAMLToJSON([]byte(`{kind: VirtualService, spec: {http: [` + c.rule + `]}}`))
		if err != nil {
			t.Fatal(err)
		}
		u := &unstructured.Unstructured{}
		if err := u.UnmarshalJSON(body); err != nil {
			t.Fatal(err)
		}
		if got := weightOf(u); got != c.want {
			t.Errorf("%s: %d%%, not %d%%", sentence, got, c.want)
		}
	}
}

func TestARouteIsAboutTheVersionOfItsTime(t *testing.T) {
	t.Parallel()
	route := func(version string) watch.Event {
		u := &unstructured.Unstructured{}
		body, err := yaml.YAMLToJSON([]byte(`{kind: VirtualService, metadata: {resourceVersion: "` + version + `"}, spec: {http: [{route: [{destination: {host: app-canary}, weight: 50}]}]}}`))
		if err != nil {
			t.Fatal(err)
		}
		if err := u.UnmarshalJSON(body); err != nil {
			t.Fatal(err)
		}
		return watch.Event{Type: watch.Modified, Object: u}
	}
	w := &witness{limits: map[string]limit{}, version: func() int64 { return 10 }}
	w.allow("app:2", limit{none, 50})
	w.allow("app:3", limit{none, 20})
	w.route(route("10"))
	if len(w.breaches) > 0 {
		t.Errorf("what was routed before app:3 came: %v", w.breaches)
	}
	w.route(route("11"))
	if len(w.breaches) != 1 {
		t.Errorf("what was routed after app:3 came: %v", w.breaches)
	}
}

// matchedBy returns the value of a rule's header, and 100 for a rule without one, which covers all requests.
func matchedBy(rule map[string]any) int64 {
	share := int64(100)
	matches, _, _ := unstructured.NestedSlice(rule, "match")
	for _, m := range matches {
		value, _, _ := unstructured.NestedString(m.(map[string]any), "headers", shareHeader, "exact")
		_, _ = fmt.Sscan(value, &share)
	}
	return share
}
