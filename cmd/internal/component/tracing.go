package component

// This file sends the spans of a process to an OpenTelemetry collector. Packages create spans through OpenTelemetry's API, which costs next to nothing without
// an exporter. A slow or missing collector never slows down or fails the traced work: the exporter drops spans instead.

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"time"

	"github.com/spf13/pflag"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
)

// flushBound is the longest time that the end of a process waits for its last spans.
const flushBound = 3 * time.Second

// TracingFlags configure the export of spans.
type TracingFlags struct {
	// Endpoint is the base URL of a collector's OTLP/HTTP receiver; empty disables the export.
	Endpoint string
	// Ratio is the share of traces to send, from 0 to 1. A trace that arrives with a decision keeps the choice of its sender.
	Ratio float64
}

// AddFlags registers the flags.
func (f *TracingFlags) AddFlags(flags *pflag.FlagSet) {
	flags.StringVar(&f.Endpoint, "otlp-endpoint", os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT"),
		"send traces to the OpenTelemetry collector at this URL, as http://collector:4318 ($OTEL_EXPORTER_OTLP_ENDPOINT); empty sends none")
	flags.Float64Var(&f.Ratio, "otlp-ratio", 1, "share of the traces to send, from 0 to 1; a traceparent that came with an event decides for itself")
}

// StartTracing starts the export of the spans of this process, under the name of a service such as "sluice-executor". stop sends the remaining spans and waits
// at most three seconds. StartTracing fails for a malformed endpoint or ratio, but not for an endpoint that does not answer.
func (f *TracingFlags) StartTracing(ctx context.Context, service string, log *slog.Logger) (stop func(), err error) {
	if f.Endpoint == "" {
		return func() {}, nil
	}
	if err := f.checkFlags(); err != nil {
		return nil, err
	}
	exporter, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(f.Endpoint+"/v1/traces"))
	if err != nil {
		return nil, fmt.Errorf("send traces to %s: %w", f.Endpoint, err)
	}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { log.Warn("traces are lost", "collector", f.Endpoint, "error", err) }))
	host, _ := os.Hostname()
	provider := sdk.NewTracerProvider(
		sdk.WithBatcher(exporter),
		sdk.WithSampler(sdk.ParentBased(sdk.TraceIDRatioBased(f.Ratio))),
		sdk.WithResource(resource.NewSchemaless(attribute.String("service.name", service), attribute.String("host.name", host))),
	)
	otel.SetTracerProvider(provider)
	return func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushBound)
		defer cancel()
		if err := provider.Shutdown(ctx); err != nil {
			log.Warn("the last traces are lost", "collector", f.Endpoint, "error", err)
		}
	}, nil
}

func (f *TracingFlags) checkFlags() error {
	u, err := url.Parse(f.Endpoint)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return fmt.Errorf("--otlp-endpoint %q: give the URL of an OTLP/HTTP receiver, as http://collector:4318", f.Endpoint)
	}
	if !(f.Ratio >= 0 && f.Ratio <= 1) {
		return errors.New("--otlp-ratio: give a number from 0 to 1")
	}
	return nil
}
