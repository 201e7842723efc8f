package metric_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"sluice.dev/sluice/pkg/metric"
)

// one is an answer of Prometheus.
const one = `{"status":"success","data":{"resultType":"scalar","result":[1,"1"]}}`

// client calls servers of this machine, and registers its metrics with registry.
func client(t *testing.T, change func(*metric.Options)) (*metric.Client, *prometheus.Registry) {
	t.Helper()
	registry := prometheus.NewRegistry()
	options := metric.Options{Hosts: hosts(t, "127.0.0.1"), Metrics: metric.NewMetrics(registry)}
	if change != nil {
		change(&options)
	}
	c := metric.New(options)
	t.Cleanup(c.Close)
	return c, registry
}

func hosts(t *testing.T, entries ...string) metric.Hosts {
	t.Helper()
	parsed, err := metric.ParseHosts(entries)
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

func serve(t *testing.T, handler http.HandlerFunc) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server
}

func at(address string) metric.Request {
	return metric.Request{Namespace: "shop", Query: "up", Provider: metric.Provider{Address: address}}
}

func says(status int, kind, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}
}

// dialer connects to one address for every request.
func dialer(address string) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, _ string) (net.Conn, error) {
		var way net.Dialer
		return way.DialContext(ctx, network, address)
	}
}

// series returns the number of series of a family of metrics.
func series(t *testing.T, registry *prometheus.Registry, name string) int {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() == name {
			return len(family.Metric)
		}
	}
	return 0
}
