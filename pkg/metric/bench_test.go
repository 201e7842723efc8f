package metric_test

import (
	"net/http/httptest"
	"testing"

	"sluice.dev/sluice/pkg/metric"
)

// BenchmarkQuery measures one query and its answer over a kept connection, with a server in the same process.
func BenchmarkQuery(b *testing.B) {
	server := httptest.NewServer(says(200, "application/json",
		`{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[1435781451.781,"0.999"]}]}}`))
	defer server.Close()
	hosts, err := metric.ParseHosts([]string{"127.0.0.1"})
	if err != nil {
		b.Fatal(err)
	}
	c := metric.New(metric.Options{Hosts: hosts})
	defer c.Close()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.Query(b.Context(), at(server.URL)); err != nil {
			b.Fatal(err)
		}
	}
}
