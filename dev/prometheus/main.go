// Command sluice-prometheus is Prometheus in one small binary for demos and tests on one machine. It has the scrape manager, time series database, query
// engine and HTTP API of Prometheus' own Go module. It has no pages, rules, alerts or remote storage, and finds targets in one file only. Its one invariant: a query is
// answered by the same code as in a released Prometheus.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
)

type options struct {
	dir, listen, targets string
	interval             time.Duration
	withParent, verbose  bool
}

// announcement is the one line of output, printed once the server answers queries.
type announcement struct {
	// Address is the base of the HTTP API.
	Address string `json:"address"`
	// Targets is the file with the targets, which the caller writes.
	Targets   string `json:"targets"`
	PID       int    `json:"pid"`
	StartedIn string `json:"startedIn"`
}

func main() {
	opts, err := parseOptions(os.Args[1:])
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "sluice-prometheus: %v.\n", err)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if opts.withParent {
		go func() {
			_, _ = io.Copy(io.Discard, os.Stdin)
			stop()
		}()
	}
	level := slog.LevelWarn
	if opts.verbose {
		level = slog.LevelDebug
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level}))
	if err := run(ctx, opts, log, os.Stdout); err != nil {
		fmt.Fprintf(os.Stderr, "sluice-prometheus: %v\n", err)
		os.Exit(1)
	}
}

func parseOptions(args []string) (options, error) {
	var opts options
	flags := flag.NewFlagSet("sluice-prometheus", flag.ContinueOnError)
	flags.StringVar(&opts.dir, "dir", "", "directory for the data; made if it is missing")
	flags.StringVar(&opts.listen, "listen", "127.0.0.1:0", "address of the HTTP API; port 0 takes a free one")
	flags.StringVar(&opts.targets, "targets", "", "file of targets in the form of file_sd, a .json, .yml or .yaml, read again when it changes (default DIR/targets.json)")
	flags.DurationVar(&opts.interval, "interval", time.Second, "how often to scrape, in whole milliseconds")
	flags.BoolVar(&opts.withParent, "with-parent", false, "end when standard input ends")
	flags.BoolVar(&opts.verbose, "verbose", false, "log more")
	if err := flags.Parse(args); err != nil {
		return opts, err
	}
	switch {
	case flags.NArg() > 0:
		return opts, fmt.Errorf("%q is no flag", flags.Arg(0))
	case opts.dir == "":
		return opts, errors.New("name a directory with --dir")
	case opts.interval < time.Millisecond || opts.interval%time.Millisecond != 0:
		return opts, fmt.Errorf("--interval %s is not a whole number of milliseconds", opts.interval)
	}
	var err error
	if opts.dir, err = filepath.Abs(opts.dir); err != nil {
		return opts, fmt.Errorf("find the directory: %w", err)
	}
	if opts.targets == "" {
		opts.targets = filepath.Join(opts.dir, "targets.json")
	}
	if opts.targets, err = filepath.Abs(opts.targets); err != nil {
		return opts, fmt.Errorf("find the file of targets: %w", err)
	}
	return opts, nil
}
