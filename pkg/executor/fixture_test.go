package executor_test

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"
	"time"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/test/natsdir"
	"sluice.dev/sluice/test/world"
)

// shared is the world of all tests of the package; nil with -short. Its executor counts its requests to the API server.
var shared struct {
	*world.World
	requests *requests
	dir      string
}

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(run(m))
}

func run(m *testing.M) int {
	if testing.Short() {
		return m.Run()
	}
	dir, err := os.MkdirTemp("", "sluice-executor-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = natsdir.Remove(dir) }()
	shared.dir = dir
	defer func() {
		if idle.World != nil {
			idle.NATS.Close()
			_ = idle.Stop() // the tests have ended
		}
	}()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	stop, err := start(ctx, dir)
	for i := len(stop) - 1; i >= 0; i-- {
		defer stop[len(stop)-1-i]()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// start creates the shared world. The caller runs the returned functions in reverse order to stop it.
func start(ctx context.Context, dir string) (stop []func(), err error) {
	if shared.World, err = world.Start(ctx, filepath.Join(dir, "shared"), world.Options{}); err != nil {
		return nil, err
	}
	stop = append(stop, func() { shared.NATS.Close(); _ = shared.Stop() })
	shared.requests = &requests{counts: map[request]int{}}
	config := shared.As(api.DefaultExecutor)
	config.Wrap(shared.requests.wrap)
	for _, begin := range []func() (func(), error){
		func() (func(), error) { return shared.RunWatcher(context.Background()) },
		func() (func(), error) { return shared.RunExecutorAs(context.Background(), config, "") },
	} {
		end, err := begin()
		if err != nil {
			return stop, err
		}
		stop = append(stop, end)
	}
	return stop, nil
}

// idle is a world in which only the test starts components of Sluice. One test uses it at a time.
var idle struct {
	mu sync.Mutex
	*world.World
}

func idleWorld(t *testing.T) *world.World {
	t.Helper()
	if testing.Short() {
		t.Skip("it needs a control plane, which -short leaves out")
	}
	idle.mu.Lock()
	t.Cleanup(idle.mu.Unlock)
	if idle.World == nil {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		w, err := world.Start(ctx, filepath.Join(shared.dir, "idle"), world.Options{})
		if err != nil {
			t.Fatal(err)
		}
		idle.World = w
	}
	return idle.World
}

func theWorld(t testing.TB) *world.World {
	t.Helper()
	if testing.Short() {
		t.Skip("it needs a control plane, which -short leaves out")
	}
	return shared.World
}

// request is a kind of request, by namespace. met means that the API server refused the request with a conflict; the number of conflicts depends on the load of
// the machine.
type request struct {
	namespace, verb, resource string
	met                       bool
}

func (r request) reads() bool { return r.verb == http.MethodGet }

// aside reports whether a request is outside of the bounds: it concerns Events or labels of pods, met a conflict, or discovers kinds. Rollouts of other tests
// name kinds that no API server serves.
func (r request) aside() bool {
	discovery := strings.HasPrefix(r.resource, "/apis/") && strings.Count(r.resource, "/") == 3 // and no resource after group and version
	return r.met || r.resource == "events" || r.resource == "pods" || discovery
}

// requests counts the requests to the API server.
type requests struct {
	mu     sync.Mutex
	counts map[request]int
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func (q *requests) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		what := describe(r)
		response, err := next.RoundTrip(r)
		what.met = err == nil && response.StatusCode == http.StatusConflict
		q.mu.Lock()
		q.counts[what]++
		q.mu.Unlock()
		return response, err
	})
}

// describe reads /api/v1/namespaces/<namespace>[/<resource>[/<name>[/<subresource>]]] and the matching paths under /apis/<group>.
func describe(r *http.Request) request {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	at := slices.Index(parts, "namespaces")
	switch {
	case at < 0 || len(parts) < at+2:
		return request{verb: r.Method, resource: r.URL.Path}
	case len(parts) == at+2:
		return request{namespace: parts[at+1], verb: r.Method, resource: parts[at]}
	}
	what := request{namespace: parts[at+1], verb: r.Method, resource: parts[at+2]}
	if len(parts) > at+4 {
		what.resource += "/" + parts[at+4]
	}
	if r.URL.Query().Get("dryRun") != "" {
		what.resource += " (dry run)"
	}
	return what
}

// of returns the requests for a namespace so far, and the requests outside of namespaces. The executor reads the ConfigMap with scripts for the Rollouts of all
// tests.
func (q *requests) of(namespace string) map[request]int {
	q.mu.Lock()
	defer q.mu.Unlock()
	counts := map[request]int{}
	for r, n := range q.counts {
		if r.namespace == namespace || r.namespace == "" {
			counts[r] = n
		}
	}
	return counts
}

// table returns a text with the requests between two counts, and the numbers of reads and writes without Events and pods.
func table(before, after map[request]int) (text string, reads, writes int) {
	var kinds []request
	for r, n := range after {
		if n > before[r] {
			kinds = append(kinds, r)
		}
	}
	slices.SortFunc(kinds, func(a, b request) int { return strings.Compare(a.verb+a.resource, b.verb+b.resource) })
	var b strings.Builder
	tab := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, r := range kinds {
		n := after[r] - before[r]
		fmt.Fprintf(tab, "%s\t%s\t%d\n", r.verb, r.resource, n)
		switch {
		case r.aside():
		case r.reads():
			reads += n
		default:
			writes += n
		}
	}
	fmt.Fprintf(tab, "reads\tEvents and pods apart\t%d\nwrites\tEvents and pods apart\t%d\n", reads, writes)
	tab.Flush()
	return b.String(), reads, writes
}
