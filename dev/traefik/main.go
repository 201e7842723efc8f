// Command sluice-traefik is Traefik for tests on one machine: its Kubernetes providers, routers and proxy, from its own Go module. It has no certificates,
// metrics, plugins or dashboard. Its one invariant: a request is routed by the same code as in a released Traefik, with the default intervals.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/rs/zerolog"
	"github.com/rs/zerolog/log"
)

type options struct {
	kubeconfig, listen, namespace string
	providers                     []string
	experimental                  bool
	withParent, verbose           bool
}

func main() {
	opts, err := parseOptions(os.Args[1:])
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "sluice-traefik: %v.\n", err)
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
	level := zerolog.WarnLevel
	if opts.verbose {
		level = zerolog.DebugLevel
	}
	log.Logger = zerolog.New(os.Stderr).Level(level).With().Timestamp().Logger()
	if err := run(ctx, opts); err != nil {
		fmt.Fprintf(os.Stderr, "sluice-traefik: %v\n", err)
		os.Exit(1)
	}
}

func parseOptions(args []string) (options, error) {
	var opts options
	flags := flag.NewFlagSet("sluice-traefik", flag.ContinueOnError)
	flags.StringVar(&opts.kubeconfig, "kubeconfig", "", "file that says how to reach the API server")
	flags.StringVar(&opts.listen, "listen", "", "address that requests are sent to")
	flags.StringVar(&opts.namespace, "namespace", "", "the namespace to look at")
	providers := flags.String("providers", "gateway", "kinds to route by, separated by commas: gateway, crd, ingress-nginx")
	flags.BoolVar(&opts.experimental, "experimental", false, "route by kinds of the experimental channel of the Gateway API as well")
	flags.BoolVar(&opts.withParent, "with-parent", false, "end when standard input ends")
	flags.BoolVar(&opts.verbose, "verbose", false, "log more")
	if err := flags.Parse(args); err != nil {
		return opts, err
	}
	opts.providers = strings.Split(*providers, ",")
	switch {
	case flags.NArg() > 0:
		return opts, fmt.Errorf("%q is no flag", flags.Arg(0))
	case opts.kubeconfig == "":
		return opts, errors.New("name a file with --kubeconfig")
	case opts.listen == "":
		return opts, errors.New("name an address with --listen")
	case opts.namespace == "":
		return opts, errors.New("name a namespace with --namespace")
	}
	return opts, nil
}
