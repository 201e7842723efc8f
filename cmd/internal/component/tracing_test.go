package component

import (
	"bytes"
	"compress/gzip"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"

	"sluice.dev/sluice/test/ports"
)

// received lists the spans of a request to a collector, as service/span.
func received(t *testing.T, r *http.Request) (list []string) {
	t.Helper()
	var body io.Reader = r.Body
	if r.Header.Get("Content-Encoding") == "gzip" {
		unzipped, err := gzip.NewReader(r.Body)
		if err != nil {
			t.Error(err)
			return nil
		}
		body = unzipped
	}
	raw, err := io.ReadAll(body)
	if err != nil {
		t.Error(err)
	}
	var request collector.ExportTraceServiceRequest
	if err := proto.Unmarshal(raw, &request); err != nil {
		t.Error(err)
	}
	for _, of := range request.ResourceSpans {
		service := ""
		for _, a := range of.Resource.Attributes {
			if a.Key == "service.name" {
				service = a.Value.GetStringValue()
			}
		}
		for _, scope := range of.ScopeSpans {
			for _, span := range scope.Spans {
				list = append(list, service+"/"+span.Name)
			}
		}
	}
	return list
}

// The tracer provider is global to the process, so these tests do not run in parallel.
func TestSpansReachTheCollectorBeforeTheEnd(t *testing.T) {
	var got []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/traces" {
			t.Errorf("path = %s", r.URL.Path)
		}
		got = append(got, received(t, r)...)
	}))
	f := TracingFlags{Endpoint: server.URL, Ratio: 1}
	stop, err := f.StartTracing(t.Context(), "sluice-executor", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	_, span := otel.Tracer("test").Start(t.Context(), "run")
	span.End()
	stop()
	server.Close()
	if diff := cmp.Diff([]string{"sluice-executor/run"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestACollectorThatIsAwayIsToldOfAndNothingElse(t *testing.T) {
	var log bytes.Buffer
	f := TracingFlags{Endpoint: "http://" + ports.Address(t), Ratio: 1}
	stop, err := f.StartTracing(t.Context(), "sluice-executor", slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	_, span := otel.Tracer("test").Start(t.Context(), "run")
	span.End()
	stop()
	if !strings.Contains(log.String(), "traces are lost") {
		t.Errorf("the log says %q", log.String())
	}
}

func TestFlagsThatMakeNoSense(t *testing.T) {
	for name, c := range map[string]struct {
		flags TracingFlags
		want  string
	}{
		"no scheme":          {TracingFlags{Endpoint: "collector:4318", Ratio: 1}, "--otlp-endpoint"},
		"no host":            {TracingFlags{Endpoint: "http://", Ratio: 1}, "--otlp-endpoint"},
		"another protocol":   {TracingFlags{Endpoint: "grpc://collector:4317", Ratio: 1}, "--otlp-endpoint"},
		"more than all":      {TracingFlags{Endpoint: "http://collector:4318", Ratio: 1.5}, "--otlp-ratio"},
		"less than nothing":  {TracingFlags{Endpoint: "http://collector:4318", Ratio: -1}, "--otlp-ratio"},
		"a URL that is none": {TracingFlags{Endpoint: "http://[::1", Ratio: 1}, "--otlp-endpoint"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := c.flags.StartTracing(t.Context(), "sluice", slog.New(slog.DiscardHandler))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error = %v, want one about %s", err, c.want)
			}
		})
	}
}

func TestWithoutAnEndpointNothingIsSet(t *testing.T) {
	before := otel.GetTracerProvider()
	stop, err := (&TracingFlags{}).StartTracing(t.Context(), "sluice", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	stop()
	if otel.GetTracerProvider() != before {
		t.Error("a provider was set")
	}
}
