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
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"k8s.io/component-base/version"
)

// options are the flags of `up`.
type options struct {
	dir           string
	nodes         int
	podsPerNode   int
	controllerQPS int
	audit         bool
	auditPolicy   string
	anonymous     bool
	typeChecks    bool
	verbose       bool
	withParent    bool
	kubernetes    string
	startTimeout  time.Duration
	crds          []string
}

// announcement is the one line of output of `up`, printed once the cluster is usable.
type announcement struct {
	Kubeconfig string `json:"kubeconfig"`
	Server     string `json:"server"`
	AuditLog   string `json:"auditLog,omitempty"`
	PID        int    `json:"pid"`
	StartedIn  string `json:"startedIn"`
}

func parseOptions(args []string) (options, error) {
	var opts options
	flags := flag.NewFlagSet("sluice-cluster up", flag.ContinueOnError)
	flags.StringVar(&opts.dir, "dir", "", "directory for keys, logs, data and the kubeconfig; made if it is missing")
	flags.IntVar(&opts.nodes, "nodes", 2, "how many nodes to have, kwok-node-0 and on")
	flags.IntVar(&opts.podsPerNode, "pods-per-node", 500, "how many pods fit on a node")
	flags.IntVar(&opts.controllerQPS, "kcm-qps", 1000, "requests a second the controller manager may make")
	flags.BoolVar(&opts.audit, "audit", false, "write every write of a user to DIR/audit.log before it is answered")
	flags.StringVar(&opts.auditPolicy, "audit-policy", "", "file with the audit policy to use with --audit instead of the built-in one")
	flags.BoolVar(&opts.anonymous, "anonymous", false, "let requests in that carry no identity")
	flags.BoolVar(&opts.typeChecks, "type-checks", false, "write the type errors of the expressions of each ValidatingAdmissionPolicy into its status")
	flags.BoolVar(&opts.verbose, "verbose", false, "let the components log more")
	flags.BoolVar(&opts.withParent, "with-parent", false, "end when standard input ends")
	flags.StringVar(&opts.kubernetes, "kubernetes", os.Getenv("SLUICE_KUBERNETES"),
		"program that runs kube-apiserver, kube-controller-manager and kube-scheduler of another version, see dev/cluster/oldest")
	flags.DurationVar(&opts.startTimeout, "start-timeout", 10*time.Minute, "give up when the cluster is not usable by then")
	flags.Func("crds", "file or directory of CustomResourceDefinitions to install; may be repeated, or a list with commas", func(value string) error {
		opts.crds = append(opts.crds, strings.Split(value, ",")...)
		return nil
	})
	if err := flags.Parse(args); err != nil {
		return opts, err
	}
	switch {
	case opts.dir == "":
		return opts, errors.New("name a directory with --dir")
	case flags.NArg() > 0:
		return opts, fmt.Errorf("%q is no flag; --crds takes one path and may be repeated", flags.Arg(0))
	}
	var err error
	opts.dir, err = filepath.Abs(opts.dir)
	return opts, err
}

func runUp(args []string) int {
	opts, err := parseOptions(args)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "sluice-cluster: %v.\n", err)
		return 2
	}
	// See startChild.
	runtime.LockOSThread()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if opts.withParent {
		go func() {
			_, _ = io.Copy(io.Discard, os.Stdin)
			stop()
		}()
	}
	if err := up(ctx, opts, os.Stdout); err != nil {
		fmt.Fprintf(os.Stderr, "sluice-cluster: %v\n", err)
		return 1
	}
	return 0
}

// up starts a cluster, prints the announcement, and returns when ctx ends (nil) or a part of the cluster ends. It stops everything before it returns.
func up(ctx context.Context, opts options, stdout io.Writer) error {
	started := time.Now()
	crds, err := readCRDs(opts.crds)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(opts.dir, 0o700); err != nil {
		return fmt.Errorf("make the directory: %w", err)
	}
	if err := os.RemoveAll(filepath.Join(opts.dir, "audit.log")); err != nil {
		return fmt.Errorf("remove the audit log of the cluster before: %w", err)
	}
	starting, cancel := context.WithTimeoutCause(ctx, opts.startTimeout, fmt.Errorf("it took longer than %s; see the logs in %s", opts.startTimeout, opts.dir))
	defer cancel()
	c, err := start(starting, opts)
	if c != nil {
		defer c.stop()
	}
	if err == nil {
		err = c.populate(starting, crds)
	}
	if ctx.Err() != nil {
		return nil // stopped while starting
	}
	if err != nil {
		return err
	}
	line := announcement{Kubeconfig: c.kubeconfig, Server: c.server, PID: os.Getpid()}
	if opts.audit {
		line.AuditLog = c.authority.path("audit.log")
	}
	line.StartedIn = fmt.Sprintf("%.1fs", time.Since(started).Seconds())
	if err := json.NewEncoder(stdout).Encode(line); err != nil {
		return fmt.Errorf("print where the cluster is: %w", err)
	}
	select {
	case <-ctx.Done():
		return nil
	case err := <-c.failed:
		return err
	}
}

func kubeVersion() string { return version.Get().GitVersion }
