// Package component holds the common parts of Sluice's processes: flags, connections, logs, traces, health and metrics. It turns flags into options, and runs a
// watcher, an executor or an analyzer with them. It contains none of their work.
//
// Its one invariant: a component is ready when all its checks have passed once.
package component

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"sluice.dev/sluice/pkg/analyzer"
	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/executor"
	"sluice.dev/sluice/pkg/metric"
	"sluice.dev/sluice/pkg/queue"
)

// Kube holds the flags that select the cluster.
type Kube struct{ Kubeconfig, Context string }

// AddFlags registers the flags.
func (k *Kube) AddFlags(f *pflag.FlagSet) {
	f.StringVar(&k.Kubeconfig, "kubeconfig", "", "path of the kubeconfig file (default: $KUBECONFIG, ~/.kube/config, or the pod's service account)")
	f.StringVar(&k.Context, "context", "", "context of the kubeconfig file to use")
}

// KubeconfigLoader returns the loader of the kubeconfig that the flags select.
func (k *Kube) KubeconfigLoader() clientcmd.ClientConfig {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = k.Kubeconfig
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: k.Context})
}

// RESTConfig returns the connection to the cluster. The client does not limit its request rate, because the API server has its own fairness.
func (k *Kube) RESTConfig() (*rest.Config, error) {
	loader := k.KubeconfigLoader()
	config, err := loader.ClientConfig()
	if clientcmd.IsEmptyConfig(err) {
		return nil, errors.New("no cluster is configured; name a kubeconfig file with --kubeconfig or $KUBECONFIG")
	}
	if err != nil {
		if raw, problem := loader.RawConfig(); problem == nil && k.Context != "" && raw.Contexts[k.Context] == nil {
			return nil, fmt.Errorf("the kubeconfig has no context %q; it has: %s", k.Context, strings.Join(slices.Sorted(maps.Keys(raw.Contexts)), ", "))
		}
		return nil, fmt.Errorf("read kubeconfig: %w; choose with --kubeconfig and --context", err)
	}
	config.QPS = -1
	return config, nil
}

// NATS holds the flags that select the NATS server.
type NATS struct {
	URL, User, PasswordFile, CredentialsFile, CAFile string
	Replicas                                         int
}

// AddFlags registers the flags of processes that create the streams.
func (n *NATS) AddFlags(f *pflag.FlagSet) {
	n.AddConnectionFlags(f)
	f.IntVar(&n.Replicas, "nats-replicas", 1, "copies of each stream: 1 for one server, 3 for a cluster")
}

// AddConnectionFlags registers the flags of commands that connect to NATS and create nothing there.
func (n *NATS) AddConnectionFlags(f *pflag.FlagSet) {
	url := os.Getenv("NATS_URL")
	if url == "" {
		url = "nats://127.0.0.1:4222"
	}
	f.StringVar(&n.URL, "nats-url", url, "NATS servers, separated by commas ($NATS_URL)")
	f.StringVar(&n.User, "nats-user", os.Getenv("NATS_USER"), "user at NATS ($NATS_USER); the password is read from --nats-password-file or $NATS_PASSWORD")
	f.StringVar(&n.PasswordFile, "nats-password-file", "", "file with the password of --nats-user")
	f.StringVar(&n.CredentialsFile, "nats-creds", "", "NATS credentials file, instead of user and password")
	f.StringVar(&n.CAFile, "nats-ca", "", "file with the certificates that sign the NATS servers' (default: the system's)")
}

// QueueOptions returns the flags as options of the queue.
func (n *NATS) QueueOptions(name string, log *slog.Logger) (queue.Options, error) {
	o := queue.Options{
		URL: n.URL, User: n.User, CredentialsFile: n.CredentialsFile, CAFile: n.CAFile, Replicas: n.Replicas, Name: name, Logger: log,
	}
	if n.User != "" {
		o.Password = os.Getenv("NATS_PASSWORD")
	}
	if n.PasswordFile != "" {
		body, err := os.ReadFile(n.PasswordFile)
		if err != nil {
			return o, fmt.Errorf("read --nats-password-file: %w", err)
		}
		o.Password = strings.TrimSpace(string(body))
	}
	return o, nil
}

// Log holds the flags of the logs.
type Log struct{ Level, Format string }

// AddFlags registers the flags.
func (l *Log) AddFlags(f *pflag.FlagSet) {
	f.StringVar(&l.Level, "log-level", "info", "least severe log lines to write: debug, info, warn or error")
	f.StringVar(&l.Format, "log-format", "text", "form of log lines: text or json")
}

// NewLogger returns a logger for out, as the flags configure it.
func (l *Log) NewLogger(out io.Writer) (*slog.Logger, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(l.Level)); err != nil {
		return nil, fmt.Errorf("--log-level %q: use debug, info, warn or error", l.Level)
	}
	options := &slog.HandlerOptions{Level: level}
	switch l.Format {
	case "text":
		return slog.New(slog.NewTextHandler(out, options)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(out, options)), nil
	}
	return nil, fmt.Errorf("--log-format %q: use text or json", l.Format)
}

// Work holds the flags about the work of the components.
type Work struct {
	ClusterName     string
	ScriptConfigMap string
	LuaDir          string
	Workers         int
	HistoryLimit    int
	// MetricHosts and AnalyzerWorkers configure the analyzer.
	MetricHosts     []string
	AnalyzerWorkers int
	Resync          time.Duration
	HealthAddress   string
	Profile         bool
}

// AddFlags registers the flags.
func (w *Work) AddFlags(f *pflag.FlagSet) {
	f.StringVar(&w.ClusterName, "cluster", "default", "name of this cluster on NATS; parts that share a NATS and a name share their work")
	f.StringVar(&w.ScriptConfigMap, "script-configmap", api.ScriptNamespace+"/"+api.ScriptConfigMap, "ConfigMap with Lua scripts, as namespace/name; it may be absent")
	f.StringVar(&w.LuaDir, "lua-dir", "", "directory with further Lua scripts, laid out as <group>/<Kind>/trafficRouting.lua")
	f.IntVar(&w.Workers, "workers", 16, "rollouts that an executor works on at once")
	f.IntVar(&w.HistoryLimit, "history-limit", executor.DefaultHistoryLimit, "releases of each Rollout that an executor keeps on record as RolloutHistory objects; 0 records none")
	f.IntVar(&w.AnalyzerWorkers, "analyzer-workers", analyzer.DefaultWorkers, "rollouts that an analyzer works on at once")
	f.StringSliceVar(&w.MetricHosts, "metric-hosts", []string{metric.Services},
		"hosts that metrics may be read from, separated by commas: HOST, HOST:PORT, *.SUFFIX, or services, which means the Services of the cluster")
	f.DurationVar(&w.Resync, "resync", 10*time.Minute, "how often Sluice reconciles every Rollout, even without a change")
	f.StringVar(&w.HealthAddress, "health-address", "127.0.0.1:0", "where to serve /healthz, /readyz and /metrics; port 0 takes a free one")
	f.BoolVar(&w.Profile, "pprof", false, "serve Go profiles as well, at /debug/pprof of --health-address")
}

// ScriptConfigMapName parses --script-configmap.
func (w *Work) ScriptConfigMapName() (types.NamespacedName, error) {
	namespace, name, ok := strings.Cut(w.ScriptConfigMap, "/")
	if !ok || namespace == "" || name == "" {
		return types.NamespacedName{}, fmt.Errorf("--script-configmap %q: give namespace/name", w.ScriptConfigMap)
	}
	return types.NamespacedName{Namespace: namespace, Name: name}, nil
}
