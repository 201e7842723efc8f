package scenario

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/test/world"
)

// forgetting has answers that replace, once, the next answer to a read of a namespace's workload.
type forgetting struct {
	mu      sync.Mutex
	answers map[string]string // by namespace
}

func (f *forgetting) forget(namespace, answer string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.answers[namespace] = answer
}

// forgot reports whether the answer was given.
func (f *forgetting) forgot(namespace string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.answers[namespace] == ""
}

// forgetful is a transport to the API server that gives these answers.
type forgetful struct {
	*forgetting
	next http.RoundTripper
}

func (f forgetful) RoundTrip(r *http.Request) (*http.Response, error) {
	f.mu.Lock()
	answer := f.answers[namespaceOf(r.URL.Path)]
	if r.Method != http.MethodGet || !strings.HasSuffix(r.URL.Path, "/deployments/workload-demo") {
		answer = ""
	}
	if answer != "" {
		delete(f.answers, namespaceOf(r.URL.Path))
	}
	f.mu.Unlock()
	if answer == "" {
		return f.next.RoundTrip(r)
	}
	kind := "text/plain"
	if strings.HasPrefix(answer, "{") {
		kind = "application/json"
	}
	return &http.Response{
		StatusCode: http.StatusNotFound, Status: "404 Not Found", Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: r,
		Header: http.Header{"Content-Type": {kind}}, Body: io.NopCloser(strings.NewReader(answer)), ContentLength: int64(len(answer)),
	}, nil
}

// The API server does not find a workload for a moment, just after step 2 was approved. The release waits and goes on
// from there. The API server may not know Deployments at all, for example during its start. Or it says that no
// Deployment has the name, which contradicts its watch.
func TestAWorkloadThatIsNotFoundForAMoment(t *testing.T) {
	const none = `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"deployments.apps \"workload-demo\" not found","reason":"NotFound","details":{"name":"workload-demo","group":"apps","kind":"deployments"},"code":404}`
	t.Parallel()
	w := bareWorld(t)
	config, way := w.As(api.DefaultExecutor), &forgetting{answers: map[string]string{}}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return forgetful{way, next} })
	w.Begin(t, func(ctx context.Context) (func(), error) { return w.RunExecutorAs(ctx, config, "") })
	for name, c := range map[string]struct {
		answer string
		inside bool
	}{
		"Deployments are not served":                     {"404 page not found\n", false},
		"Deployments are not served, partition":          {"404 page not found\n", true},
		"there is no Deployment of that name":            {none, false},
		"there is no Deployment of that name, partition": {none, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			manifest := shortGrace(t)
			if c.inside {
				manifest = inPlace(manifest)
			}
			d := aDemo(t, w, manifest)
			d.release(t, version("new"))
			d.at(t, 1)
			way.forget(d.ns, c.answer)
			d.approve(t)
			if r := d.await(t, world.PausedAt(2)); r.Status.Sluice.Epoch != 1 {
				t.Errorf("the release began again: epoch %d", r.Status.Sluice.Epoch)
			}
			if !way.forgot(d.ns) {
				t.Error("nobody asked for the workload, so this proves nothing")
			}
			d.finish(t, 2)
			d.w.Available(t, d.ns, "workload-demo")
			d.wantRestored(t)
		})
	}
}
