package component

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"

	luaconfiguration "sluice.dev/sluice/lua_configuration"
	"sluice.dev/sluice/pkg/analyzer"
	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/health"
	"sluice.dev/sluice/pkg/kube"
	"sluice.dev/sluice/pkg/metric"
	"sluice.dev/sluice/pkg/preflight"
	"sluice.dev/sluice/pkg/queue"
	"sluice.dev/sluice/pkg/script"
	"sluice.dev/sluice/pkg/watcher"
)

// Env is the environment of a part. Config has the part's own identity at the API server.
type Env struct {
	Work
	// Installation is where Sluice is installed.
	Installation api.Installation
	Config       *rest.Config
	Queue        *queue.Queue
	Logger       *slog.Logger
	Registry     *prometheus.Registry
	// Ready, if not nil, is called once, when all checks have passed. Its argument is the address of health and metrics.
	Ready func(address string)
}

// Part creates a watcher, an executor or an analyzer, whose run function returns when its context ends. The process is ready when the checks that the part adds
// have passed.
type Part func(ctx context.Context, env Env, checks map[string]health.Check) (run func(context.Context) error, err error)

// NewWatcher creates the part that turns changes into hints.
func NewWatcher(_ context.Context, env Env, checks map[string]health.Check) (func(context.Context) error, error) {
	configMap, err := env.ScriptConfigMapName()
	if err != nil {
		return nil, err
	}
	w, err := watcher.New(watcher.Options{
		ClusterName: env.ClusterName, Config: env.Config, Queue: env.Queue, ScriptConfigMap: configMap,
		Scripts: script.NewLibrary(luaconfiguration.FS, env.LuaDir), Resync: env.Resync, Logger: env.Logger, Registerer: env.Registry,
	})
	if err != nil {
		return nil, err
	}
	checks["watches"] = w.Ready
	return w.Run, nil
}

// preflightOf returns an error for a cluster in which an executor would do harm, and logs lesser problems.
func preflightOf(ctx context.Context, env Env) error {
	look, err := preflight.New(env.Config, env.Installation)
	if err != nil {
		return err
	}
	findings, err := look.CheckBeforeStart(ctx)
	for _, f := range preflight.Warnings(findings) {
		env.Logger.Warn(f.Message, "check", f.Check, "remedy", f.Remedy)
	}
	if err != nil {
		return err
	}
	return look.CheckKnownUser(ctx)
}

// NewAnalyzer creates the part that measures metrics.
func NewAnalyzer(_ context.Context, env Env, _ map[string]health.Check) (func(context.Context) error, error) {
	hosts, err := metric.ParseHosts(env.MetricHosts)
	if err != nil {
		return nil, fmt.Errorf("--metric-hosts: %w", err)
	}
	kube, err := kube.NewAnalysisClient(env.Config, kube.AnalysisOptions{Cluster: env.ClusterName, Installation: env.Installation, Logger: env.Logger})
	if err != nil {
		return nil, fmt.Errorf("make client of analyzer: %w", err)
	}
	client := metric.New(metric.Options{Hosts: hosts, Metrics: metric.NewMetrics(env.Registry), Logger: env.Logger})
	measure := analyzer.New(analyzer.Options{
		ClusterName: env.ClusterName, Kube: kube, Queue: env.Queue, Metrics: client, Workers: env.AnalyzerWorkers, Logger: env.Logger, Registerer: env.Registry,
	})
	return func(ctx context.Context) error {
		defer client.Close()
		return measure.Run(ctx)
	}, nil
}

// ActingAs returns a config that impersonates a service account of an installation. RBAC and admission policies then see that account.
func ActingAs(config *rest.Config, in api.Installation, account string) *rest.Config {
	config = rest.CopyConfig(config)
	config.Impersonate = rest.ImpersonationConfig{UserName: in.User(account)}
	return config
}

// NewRegistry returns a registry with the metrics of every Go process.
func NewRegistry() *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return r
}

// Start prepares a part to run, and adds the checks that decide whether it is ready.
type Start func(checks map[string]health.Check) (run func(context.Context) error, err error)

// Run runs parts in parallel, and serves health and metrics, until ctx ends or a part fails.
func Run(ctx context.Context, env Env, parts ...Start) error {
	checks := map[string]health.Check{}
	if env.Queue != nil {
		checks["nats"] = func() error {
			if !env.Queue.IsConnected() {
				return errors.New("not connected")
			}
			return nil
		}
	}
	var runs []func(context.Context) error
	for _, part := range parts {
		run, err := part(checks)
		if err != nil {
			return err
		}
		runs = append(runs, run)
	}
	server, err := health.Listen(env.HealthAddress, env.Registry, checks, env.Logger)
	if err != nil {
		return err
	}
	if env.Profile {
		server.EnableProfiling()
	}
	group, ctx := errgroup.WithContext(ctx)
	for _, run := range append(runs, server.Run) {
		group.Go(func() error { return run(ctx) })
	}
	if env.Ready != nil {
		group.Go(func() error {
			if waitForChecks(ctx, checks) {
				env.Ready(server.Address())
			}
			return nil
		})
	}
	return group.Wait()
}

// checkInterval is the interval between retries of failed checks; checks have no events.
const checkInterval = 20 * time.Millisecond

// waitForChecks waits for all checks and reports whether they passed before ctx ended.
func waitForChecks(ctx context.Context, checks map[string]health.Check) bool {
	ticker := time.NewTicker(checkInterval)
	defer ticker.Stop()
	for {
		open := false
		for _, check := range checks {
			open = open || check() != nil
		}
		if !open {
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-ticker.C:
		}
	}
}

// NewCommand returns the command line of a process with one part.
func NewCommand(name, short string, part Part) *cobra.Command {
	var kube Kube
	var nats NATS
	var log Log
	var work Work
	var traces TracingFlags
	var installation InstallationFlags
	var impersonate bool
	c := &cobra.Command{
		Use: name, Short: short, Args: cobra.NoArgs, SilenceUsage: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			logger, err := log.NewLogger(cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			config, err := kube.RESTConfig()
			if err != nil {
				return err
			}
			flush, err := traces.StartTracing(cmd.Context(), "sluice-"+name, logger)
			if err != nil {
				return err
			}
			defer flush()
			options, err := nats.QueueOptions("sluice-"+name, logger)
			if err != nil {
				return err
			}
			q, err := queue.Connect(cmd.Context(), options)
			if err != nil {
				return err
			}
			defer q.Close()
			if impersonate {
				config = ActingAs(config, installation.Installation, *installation.Accounts()[name])
			}
			env := Env{Work: work, Installation: installation.Installation, Config: config, Queue: q, Logger: logger, Registry: NewRegistry()}
			return Run(cmd.Context(), env, func(checks map[string]health.Check) (func(context.Context) error, error) {
				return part(cmd.Context(), env, checks)
			})
		},
	}
	kube.AddFlags(c.Flags())
	nats.AddFlags(c.Flags())
	log.AddFlags(c.Flags())
	work.AddFlags(c.Flags())
	traces.AddFlags(c.Flags())
	installation.AddFlags(c.Flags())
	c.Flags().BoolVar(&impersonate, "as-service-account", false,
		"act as the service account of an installation instead of as the kubeconfig's user, who must be allowed to impersonate it")
	return c
}

// Main runs a command until it is done or the process receives a signal; the second signal ends it at once.
func Main(c *cobra.Command) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	if err := c.ExecuteContext(ctx); err != nil {
		os.Exit(1)
	}
}
