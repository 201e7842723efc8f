package watcher

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	luaconfiguration "sluice.dev/sluice/lua_configuration"
	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/queue"
	"sluice.dev/sluice/pkg/script"
)

// BenchmarkTenThousandIdle measures the memory of a watcher for 10,000 idle Rollouts, and the number of hints that its
// start sends.
func BenchmarkTenThousandIdle(b *testing.B) {
	if testing.Short() {
		b.Skip("it needs a control plane, which -short leaves out")
	}
	const rollouts = 10_000
	client, err := dynamic.NewForConfig(plane.Config)
	if err != nil {
		b.Fatal(err)
	}
	var creating errgroup.Group
	creating.SetLimit(32)
	for i := range rollouts {
		creating.Go(func() error {
			u := &unstructured.Unstructured{}
			name := fmt.Sprint("idle-", i)
			manifest := strings.ReplaceAll(webRollout(name), "finalizers: [rollouts.kruise.io/rollout]", "annotations: {a: b}")
			if err := yaml.Unmarshal([]byte(manifest), &u.Object); err != nil {
				return err
			}
			_, err := client.Resource(api.RolloutResource()).Namespace("default").Create(b.Context(), u, metav1.CreateOptions{})
			return err
		})
	}
	if err := creating.Wait(); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		before := heap()
		w, err := New(Options{ClusterName: "c", Config: plane.Config, Queue: new(queue.Queue), Logger: slog.New(slog.DiscardHandler),
			Scripts: script.NewLibrary(luaconfiguration.FS, ""), ScriptConfigMap: types.NamespacedName{Namespace: "default", Name: api.ScriptConfigMap}})
		if err != nil {
			b.Fatal(err)
		}
		var hints atomic.Int64
		all := make(chan struct{}, 1)
		w.send = func(queue.Key) {
			if hints.Add(1) == rollouts {
				all <- struct{}{}
			}
		}
		w.workStreamCreated = func(context.Context) (time.Time, error) { return time.Time{}, nil }
		ctx, cancel := context.WithCancel(b.Context())
		done := make(chan error, 1)
		begun := time.Now()
		go func() { done <- w.Run(ctx) }()
		<-all
		b.ReportMetric(time.Since(begun).Seconds(), "s/start")
		b.ReportMetric(float64(heap()-before)/(1<<20), "MiB/kept")
		b.ReportMetric(float64(hints.Load()), "hints")
		runtime.KeepAlive(w)
		cancel()
		if err := <-done; err != nil {
			b.Fatal(err)
		}
	}
}

func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
