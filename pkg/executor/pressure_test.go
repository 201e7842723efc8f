package executor_test

import (
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/rest"

	"sluice.dev/sluice/pkg/executor"
	"sluice.dev/sluice/pkg/kube"
	"sluice.dev/sluice/pkg/queue"
)

// The first request reports the busy API server to the queue, before the ten retries of the client library.
func TestABusyAPIServerSlowsTheExecutorDown(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	kube, err := kube.New(&rest.Config{Host: "http://127.0.0.1:1", Transport: roundTripper(func(*http.Request) (*http.Response, error) {
		asked.Add(1)
		return &http.Response{
			StatusCode: http.StatusTooManyRequests, Header: http.Header{"Retry-After": {"3"}},
			Body: io.NopCloser(strings.NewReader("Too many requests, please try again later.")),
		}, nil
	})}, kube.Options{Cluster: "c"})
	if err != nil {
		t.Fatal(err)
	}
	r := executor.New(executor.Options{ClusterName: "c", Kube: kube}).Handle(t.Context(), queue.Key{Cluster: "c", Namespace: "shop", Name: "web"})
	if r.Err == nil {
		t.Fatal("the run succeeded")
	}
	r.Err = nil
	if diff := cmp.Diff(queue.Result{RetryAfter: 3 * time.Second}, r); diff != "" {
		t.Errorf("the result differs (-want +got):\n%s", diff)
	}
	if n := asked.Load(); n != 1 {
		t.Errorf("the API server was asked %d times", n)
	}
}
