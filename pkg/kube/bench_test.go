package kube_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	luaconfiguration "sluice.dev/sluice/lua_configuration"
	"sluice.dev/sluice/pkg/kube"
	"sluice.dev/sluice/pkg/planner"
	"sluice.dev/sluice/pkg/script"
)

// requests counts requests by method.
type requests struct {
	next http.RoundTripper
	mu   sync.Mutex
	by   map[string]int
}

func (r *requests) RoundTrip(q *http.Request) (*http.Response, error) {
	r.mu.Lock()
	r.by[q.Method]++
	r.mu.Unlock()
	return r.next.RoundTrip(q)
}

func BenchmarkObserve(b *testing.B) {
	if testing.Short() {
		b.Skip("it needs a control plane, which -short leaves out")
	}
	const namespace = "benchmark"
	_, _ = plane.Kubectl(b.Context(), "create", "namespace", namespace)
	all := strings.Join([]string{deployment, service, virtualService, canaryRollout}, "\n---\n")
	if _, err := plane.KubectlStdin(b.Context(), all, "-n", namespace, "apply", "-f", "-"); err != nil {
		b.Fatal(err)
	}
	counted := &requests{by: map[string]int{}}
	cfg := rest.CopyConfig(plane.Config)
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper { counted.next = next; return counted })
	client, err := kube.New(cfg, kube.Options{
		Scripts: script.NewLibrary(luaconfiguration.FS, ""), Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
		ScriptConfigMap: types.NamespacedName{Namespace: namespace, Name: "scripts"},
	})
	if err != nil {
		b.Fatal(err)
	}
	var last *kube.Snapshot
	b.ReportAllocs()
	for b.Loop() {
		if last, err = client.Observe(context.Background(), types.NamespacedName{Namespace: namespace, Name: "web"}); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(counted.by[http.MethodGet])/float64(b.N), "reads/op")
	if d := planner.Plan(last.Seen, time.Now()); d.Status.Sluice == nil {
		b.Error(fmt.Sprint("the snapshot leads to no plan: ", d))
	}
}
