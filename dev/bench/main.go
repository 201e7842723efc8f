// Command bench measures progressive delivery on a real control plane. It measures the duration of releases, their requests to the API server, and the resources
// of the processes. By default it starts everything itself, each part of Sluice as a separate process with the service account of an installation. With
// --external it drives any controller that serves the Rollouts of an existing cluster. It is no test: it prints numbers together with their budgets and judges
// nothing else. Its one invariant: it ends by itself, and then nothing is left that it started or created.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	if len(os.Args) >= 3 && os.Args[1] == natsCommand {
		os.Exit(runNATS(os.Args[2], os.Args[3:]))
	}
	opts, err := parse(os.Args[1:], os.Stderr)
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeoutCause(ctx, opts.limit, fmt.Errorf("it took longer than --limit %s", opts.limit))
	defer cancel()
	if err := run(ctx, opts, os.Stdout); err != nil {
		if cause := context.Cause(ctx); cause != nil && !errors.Is(err, cause) {
			err = fmt.Errorf("%w: %w", cause, err)
		}
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// run measures and prints. It also prints results from before an error.
func run(ctx context.Context, opts options, out io.Writer) error {
	report, err := measure(ctx, opts)
	if report != nil {
		if opts.output == "json" {
			encoder := json.NewEncoder(out)
			encoder.SetIndent("", "  ")
			err = errors.Join(err, encoder.Encode(report))
		} else {
			err = errors.Join(err, writeTable(out, report))
		}
	}
	return err
}
