// Command sluice-kruise is OpenKruise's controllers of CloneSet, Advanced StatefulSet and Advanced DaemonSet in one small binary for demos and tests on one
// machine. It is the code of OpenKruise's own Go module, with the webhooks that default and validate those kinds, because the controllers panic without them.
// It has no other controller of OpenKruise, no leader election, and nothing on the nodes. Its one invariant: those three kinds roll out with the same code as
// in a released OpenKruise.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

type options struct {
	kubeconfig          string
	withParent, verbose bool
}

// announcement is the one line of output, printed once the caches have synced and admission answers.
type announcement struct {
	PID       int    `json:"pid"`
	StartedIn string `json:"startedIn"`
	// Version is the version of OpenKruise's module.
	Version string `json:"version"`
}

func main() {
	opts, err := parseOptions(os.Args[1:])
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "sluice-kruise: %v.\n", err)
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
	if err := run(ctx, opts, os.Stdout); err != nil {
		fmt.Fprintf(os.Stderr, "sluice-kruise: %v\n", err)
		os.Exit(1)
	}
}

func parseOptions(args []string) (options, error) {
	var opts options
	// The module's packages register flags in the global set, so this command has its own set.
	flags := flag.NewFlagSet("sluice-kruise", flag.ContinueOnError)
	flags.StringVar(&opts.kubeconfig, "kubeconfig", "", "kubeconfig of the cluster, whose API server serves OpenKruise's definitions")
	flags.BoolVar(&opts.withParent, "with-parent", false, "end when standard input ends")
	flags.BoolVar(&opts.verbose, "verbose", false, "log each run of a controller")
	if err := flags.Parse(args); err != nil {
		return opts, err
	}
	switch {
	case flags.NArg() > 0:
		return opts, fmt.Errorf("%q is no flag", flags.Arg(0))
	case opts.kubeconfig == "":
		return opts, errors.New("name the cluster with --kubeconfig")
	}
	return opts, nil
}
