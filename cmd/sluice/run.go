package main

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"

	"sluice.dev/sluice/cmd/internal/component"
	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/health"
	"sluice.dev/sluice/pkg/preflight"
	"sluice.dev/sluice/pkg/queue"
	"sluice.dev/sluice/pkg/queue/embedded"
)

type runOptions struct {
	nats        component.NATS
	log         component.Log
	work        component.Work
	receiver    component.ReceiverFlags
	hook        component.WebhookFlags
	fleet       component.FleetFlags
	traces      component.TracingFlags
	natsDir     string
	external    bool
	impersonate bool
}

func (c *cli) runCommand() *cobra.Command {
	var o runOptions
	run := &cobra.Command{
		Use: "run", Short: "Run watcher, executor and analyzer in this process, for one cluster",
		Long: "Run all of Sluice in one process against the cluster of the kubeconfig, with a NATS server of its own that listens on this machine\n" +
			"only. Releases go on while it runs; when it stops they stand where they are.\n\n" +
			"Each part acts as its own service account, so that it has exactly the rights that an installation gives it, and so that the\n" +
			"admission policies know it. The CRDs, policies and roles must be installed:\n\n" +
			"  " + c.command + " install --print --part namespace,crds,policies,rbac | kubectl apply --server-side -f -",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.external = cmd.Flags().Changed("nats-url")
			return c.runAll(cmd.Context(), o)
		},
	}
	flags := run.Flags()
	o.nats.AddFlags(flags)
	o.log.AddFlags(flags)
	o.work.AddFlags(flags)
	o.receiver.AddFlags(flags)
	o.hook.AddFlags(flags)
	o.fleet.AddFlags(flags)
	o.traces.AddFlags(flags)
	flags.Lookup("nats-url").Usage = "use these NATS servers, separated by commas, instead of one in this process"
	flags.Lookup("nats-url").DefValue = ""
	flags.StringVar(&o.natsDir, "nats-dir", "", "where the NATS server in this process keeps its data (default: a directory of this cluster's in the user's cache)")
	flags.BoolVar(&o.impersonate, "impersonate", true, "act as the service accounts of an installation instead of as yourself")
	return run
}

func (c *cli) runAll(ctx context.Context, o runOptions) error {
	log, err := o.log.NewLogger(c.errors)
	if err != nil {
		return err
	}
	config, err := c.kube.RESTConfig()
	if err != nil {
		return err
	}
	in, err := mayRun(ctx, config, o.impersonate)
	if err != nil {
		return err
	}
	flush, err := o.traces.StartTracing(ctx, "sluice", log)
	if err != nil {
		return err
	}
	defer flush()
	q, where, stop, err := connectNATS(ctx, o, config, log)
	if err != nil {
		return err
	}
	defer stop()
	env := component.Env{Work: o.work, Installation: in, Queue: q, Logger: log, Registry: component.NewRegistry(), Ready: func(address string) {
		fmt.Fprintf(c.out, "sluice is ready: cluster %s, NATS %s, health and metrics http://%s\n", config.Host, where, address)
	}}
	as := func(name, account string, p component.Part) component.Start {
		env := env
		env.Logger = log.With("part", name)
		env.Config = config
		if o.impersonate {
			env.Config = component.ActingAs(config, in, account)
		}
		return func(checks map[string]health.Check) (func(context.Context) error, error) {
			run, err := p(ctx, env, checks)
			if err != nil {
				return nil, fmt.Errorf("start %s: %w", name, err)
			}
			return run, nil
		}
	}
	err = component.Run(ctx, env,
		as("executor", in.Executor, o.fleet.NewExecutor),
		as("watcher", in.Watcher, o.hook.WrapWatcher(o.receiver.NewWatcher)),
		as("analyzer", in.Analyzer, component.NewAnalyzer),
	)
	if ctx.Err() != nil && err != nil {
		log.Warn("stopped while busy", "error", err)
		return nil
	}
	return err
}

// mayRun returns the installation of the cluster. It checks conditions that would stop the parts later, with less clear errors.
func mayRun(ctx context.Context, config *rest.Config, impersonate bool) (in api.Installation, err error) {
	in, unknown := preflight.FindInstallation(ctx, config)
	look, err := preflight.New(config, in)
	if err != nil {
		return in, err
	}
	if _, err := look.CheckBeforeStart(ctx); err != nil { // it says more about a cluster that does not answer
		return in, err
	}
	if unknown != nil {
		return in, unknown
	}
	if !impersonate {
		return in, look.CheckKnownUser(ctx)
	}
	if err := look.CheckImpersonation(ctx, in.Watcher, in.Executor, in.Analyzer); err != nil {
		return in, err
	}
	executor, err := preflight.New(component.ActingAs(config, in, in.Executor), in)
	if err != nil {
		return in, err
	}
	return in, executor.CheckRoles(ctx)
}

// connectNATS connects to the given NATS server, or starts one in this process. stop closes the connection and stops the server.
func connectNATS(ctx context.Context, o runOptions, config *rest.Config, log *slog.Logger) (q *queue.Queue, where string, stop func(), err error) {
	log = log.With("part", "nats")
	options, err := o.nats.QueueOptions("sluice-run", log)
	if err != nil {
		return nil, "", nil, err
	}
	where, stopServer := options.URL, func() {}
	if !o.external {
		server, done, err := startNATS(o.natsDir, config.Host, log)
		if err != nil {
			return nil, "", nil, err
		}
		options.URL, options.User, options.Password, options.Replicas = server.URL(), server.User(), server.Password(), 1
		options.CredentialsFile, options.CAFile = "", ""
		where, stopServer = server.URL()+" (in this process)", done
	}
	if q, err = queue.Connect(ctx, options); err != nil {
		stopServer()
		return nil, "", nil, err
	}
	return q, where, func() {
		q.Close()
		stopServer()
	}, nil
}

// startNATS starts a NATS server in this process. A later run against the same cluster continues with the work of this one.
func startNATS(named, host string, log *slog.Logger) (server *embedded.Server, stop func(), err error) {
	dir := cmp.Or(named, component.NATSDir(host))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, nil, fmt.Errorf("make directory for NATS: %w; name another one with --nats-dir", err)
	}
	unlock, err := lock(dir)
	if err != nil {
		return nil, nil, err
	}
	server, err = embedded.Start(embedded.Options{Dir: dir, SaveCredentials: true, Logger: log})
	if err != nil {
		unlock()
		return nil, nil, err
	}
	return server, func() {
		server.Close()
		unlock()
	}, nil
}
