package scenario

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/test/world"
)

var errCrashed = errors.New("the executor has crashed")

// crashing runs executors one after another, each until a planned crash. After the crash, the executor reaches no
// object of that namespace any more, and a successor takes over.
type crashing struct {
	mu      sync.Mutex
	planned map[string]plannedCrash // by namespace
	writes  map[string][]string     // by namespace: the kinds of the writes so far
	deaths  chan struct{}
}

// plannedCrash is the write after which an executor crashes: the first, second ... of a kind.
type plannedCrash struct {
	kind  string
	times int
}

// startCrashing runs executors in a world until the test ends.
func startCrashing(t *testing.T, w *world.World) *crashing {
	t.Helper()
	c := &crashing{planned: map[string]plannedCrash{}, writes: map[string][]string{}, deaths: make(chan struct{}, 1)}
	stop, err := c.run(t.Context(), w)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var supervisor sync.WaitGroup
	supervisor.Go(func() {
		defer func() { stop() }()
		for {
			select {
			case <-ctx.Done():
				return
			case <-c.deaths:
			}
			next, err := c.run(ctx, w)
			if err != nil {
				if ctx.Err() == nil {
					t.Error(err)
				}
				return
			}
			stop()
			stop = next
		}
	})
	t.Cleanup(func() { cancel(); supervisor.Wait() })
	return c
}

func (c *crashing) run(ctx context.Context, w *world.World) (stop func(), err error) {
	config := w.As(api.DefaultExecutor)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return &mortal{crashing: c, next: next, dead: map[string]bool{}}
	})
	return w.RunExecutorAs(context.WithoutCancel(ctx), config, "")
}

func (c *crashing) crashAfter(namespace, kind string, times int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.planned[namespace] = plannedCrash{kind, times}
}

func (c *crashing) writesOf(namespace string) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.writes[namespace])
}

// mortal is the transport of one executor to the API server.
type mortal struct {
	*crashing
	next http.RoundTripper
	dead map[string]bool // by namespace, guarded by mu
}

func (m *mortal) RoundTrip(r *http.Request) (*http.Response, error) {
	namespace := namespaceOf(r.URL.Path)
	m.mu.Lock()
	dead := m.dead[namespace]
	m.mu.Unlock()
	if dead {
		return nil, errCrashed
	}
	response, err := m.next.RoundTrip(r)
	if err != nil || response.StatusCode >= 300 || !counts(r) || !m.dies(namespace, kindOf(r)) {
		return response, err
	}
	_ = response.Body.Close()
	select {
	case m.deaths <- struct{}{}:
	default:
	}
	return nil, errCrashed
}

// dies counts a write and reports whether the executor crashes after it.
func (m *mortal) dies(namespace, kind string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.writes[namespace] = append(m.writes[namespace], kind)
	if (plannedCrash{kind, count(m.writes[namespace], kind)}) != m.planned[namespace] {
		return false
	}
	m.dead[namespace] = true
	return true
}

// counts reports whether a request is a write to an object of a release. It leaves out Events, because a failed run for
// an Event proves nothing.
func counts(r *http.Request) bool {
	return r.Method != http.MethodGet && namespaceOf(r.URL.Path) != "" && r.URL.Query().Get("dryRun") == "" && !strings.Contains(r.URL.Path, "/events")
}

func namespaceOf(path string) string {
	_, rest, _ := strings.Cut(path, "/namespaces/")
	namespace, _, _ := strings.Cut(rest, "/")
	return namespace
}

// kindOf returns the method and the path of a request without its namespace. It replaces the names of pods, which
// differ each time.
func kindOf(r *http.Request) string {
	_, rest, _ := strings.Cut(r.URL.Path, "/namespaces/"+namespaceOf(r.URL.Path)+"/")
	if strings.HasPrefix(rest, "pods/") {
		rest = "pods/any"
	}
	return r.Method + " " + rest
}

func count(list []string, want string) int {
	n := 0
	for _, s := range list {
		if s == want {
			n++
		}
	}
	return n
}

// creates counts for each object how often any client created it. A request of a killed client may have created it.
func creates(t *testing.T, d *demo) map[string]int {
	t.Helper()
	writes, err := d.w.Writes(d.ns)
	if err != nil {
		t.Fatal(err)
	}
	count, doubtful := map[string]int{}, map[string]bool{}
	for _, w := range writes {
		switch object := w.Resource + "/" + w.Name; {
		case w.Verb != "create" || w.Resource == "namespaces" || w.Resource == "endpointslices":
		case w.Code < 300:
			count[object]++
		case w.Unanswered():
			doubtful[object] = true
		}
	}
	for object := range doubtful {
		count[object] = max(count[object], 1)
	}
	return count
}

// bareWorld returns a world for one test, with a watcher and no executor.
func bareWorld(t *testing.T) *world.World {
	t.Helper()
	w := world.Bare(t, world.Options{})
	w.Begin(t, w.RunWatcher)
	return w
}
