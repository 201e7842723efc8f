package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/test/controlplane"
)

//go:embed audit.yaml
var auditPolicy []byte

// site is the place of the releases: a cluster and, unless the cluster is external, the processes around it.
type site struct {
	opts   options
	dir    string
	client *client
	audit  string
	// cluster is nil for an external cluster.
	cluster     *controlplane.Cluster
	kubeconfigs map[string]string
	// natsMembers are the members of a fleet that use the NATS of the site, and executorFlags more flags of its executors.
	natsMembers, executorFlags []string
	nats                       *part
	natsAt                     natsAddress
	parts                      []*part
	temporary                  bool
}

// openSite returns a site without any part of Sluice running. The caller must close it, also after an error.
func openSite(ctx context.Context, opts options) (*site, error) {
	s := &site{opts: opts, dir: opts.dir, audit: opts.auditLog}
	var err error
	if s.dir == "" {
		s.temporary = true
		if s.dir, err = os.MkdirTemp("", "sluice-bench-"); err != nil {
			return s, fmt.Errorf("make a directory for the bench: %w", err)
		}
	} else if s.dir, err = filepath.Abs(s.dir); err != nil {
		return s, err
	}
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return s, fmt.Errorf("make the directory of the bench: %w", err)
	}
	if opts.external {
		config, err := clientcmd.BuildConfigFromFlags("", opts.kubeconfig)
		if err != nil {
			return s, fmt.Errorf("read --kubeconfig: %w", err)
		}
		s.client, err = newClient(config, userAgent)
		return s, err
	}
	return s, s.build(ctx)
}

// build starts a control plane and NATS, installs Sluice's CRDs, policies and rights, and builds the programs.
func (s *site) build(ctx context.Context) error {
	say("starting the control plane")
	crds, err := controlplane.IstioCRDs()
	if err != nil {
		return err
	}
	policy := filepath.Join(s.dir, "audit.yaml")
	if err := os.WriteFile(policy, auditPolicy, 0o600); err != nil {
		return fmt.Errorf("write the audit policy: %w", err)
	}
	s.cluster, err = controlplane.Start(ctx, controlplane.Options{
		Dir: filepath.Join(s.dir, "cluster"), Audit: true, AuditPolicy: policy, CRDs: []string{crds}, Nodes: 4, PodsPerNode: 5000,
	})
	if err != nil {
		return err
	}
	s.audit = s.cluster.AuditLog
	if s.client, err = newClient(s.cluster.Config, userAgent); err != nil {
		return err
	}
	if err := s.install(ctx); err != nil {
		return err
	}
	if err := s.startNATS(ctx); err != nil {
		return err
	}
	if s.opts.bin != "" {
		s.opts.bin, err = filepath.Abs(s.opts.bin)
		return err
	}
	say("building watcher, executor and analyzer")
	s.opts.bin = filepath.Join(s.dir, "bin")
	build := exec.CommandContext(ctx, "go", "build", "-o", s.opts.bin+"/", "sluice.dev/sluice/cmd/watcher", "sluice.dev/sluice/cmd/executor", "sluice.dev/sluice/cmd/analyzer")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build the parts: %w\n%s", err, out)
	}
	return nil
}

func (s *site) startNATS(ctx context.Context) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find the own program: %w", err)
	}
	s.nats, err = startPart(ctx, s.dir, "nats", exec.Command(self, append([]string{natsCommand, filepath.Join(s.dir, "nats")}, s.natsMembers...)...), func(_ *part, line []byte) bool {
		return json.Unmarshal(line, &s.natsAt) == nil && s.natsAt.URL != ""
	})
	return err
}

// run starts a watcher, an analyzer and the given number of executors, and returns when they are ready.
func (s *site) run(ctx context.Context, executors int) error {
	if s.opts.external {
		return nil
	}
	say("starting watcher, analyzer and %d of executor", executors)
	names := map[string]string{"watcher": "watcher", "analyzer": "analyzer"}
	order := []string{"watcher", "analyzer"}
	for i := range executors {
		name := fmt.Sprintf("executor-%d", i+1)
		names[name] = "executor"
		order = append(order, name)
	}
	for _, name := range order {
		p, err := s.start(ctx, name, names[name])
		if err != nil {
			return err
		}
		s.parts = append(s.parts, p)
	}
	for _, p := range s.parts {
		if err := p.awaitReady(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (s *site) start(ctx context.Context, name, program string) (*part, error) {
	command := exec.Command(filepath.Join(s.opts.bin, program), s.partFlags(program)...)
	command.Env = append(os.Environ(), "NATS_PASSWORD="+s.natsAt.Password)
	return startPart(ctx, s.dir, name, command, serving)
}

// partFlags returns the common flags of all programs.
func (s *site) partFlags(program string) []string {
	args := []string{
		"--kubeconfig", s.kubeconfigs[program], "--nats-url", s.natsAt.URL, "--nats-user", s.natsAt.User,
		"--log-format", "json", "--health-address", "127.0.0.1:0", "--workers", strconv.Itoa(s.opts.workers),
	}
	if s.opts.profile != "" {
		args = append(args, "--pprof")
	}
	if program == "executor" {
		args = append(args, s.executorFlags...)
	}
	return args
}

// halt stops the parts of Sluice, the last first.
func (s *site) halt() error {
	var errs []error
	for i := len(s.parts) - 1; i >= 0; i-- {
		errs = append(errs, s.parts[i].stop())
	}
	s.parts = nil
	return errors.Join(errs...)
}

func (s *site) close() error {
	errs := []error{s.halt()}
	if s.nats != nil {
		errs = append(errs, s.nats.stop())
	}
	if s.cluster != nil {
		errs = append(errs, s.cluster.Stop())
	}
	if s.temporary {
		errs = append(errs, os.RemoveAll(s.dir))
	}
	return errors.Join(errs...)
}

// meter starts to measure all known processes.
func (s *site) meter() *meter {
	ours, others := map[string]int{}, map[string]int{"bench (the driver)": os.Getpid()}
	for _, p := range s.parts {
		ours[p.name] = p.command.Process.Pid
	}
	for name, pid := range s.opts.pids {
		ours[name] = pid
	}
	if s.nats != nil {
		others["nats"] = s.nats.command.Process.Pid
	}
	if s.cluster != nil {
		others["etcd"] = s.cluster.Pid()
		for name, pid := range componentsOf(s.cluster.Pid()) {
			others[name] = pid
		}
	}
	return newMeter(ours, others)
}

func account(program string) string {
	return map[string]string{
		"watcher": api.DefaultWatcher, "executor": api.DefaultExecutor, "analyzer": api.DefaultAnalyzer,
	}[program]
}

// bearing returns the configuration of a client that authenticates only with a token.
func bearing(config *rest.Config, token string) *rest.Config {
	bare := rest.AnonymousClientConfig(config)
	bare.BearerToken = token
	return bare
}

// say prints the progress of the bench to standard error, separate from its results.
func say(format string, args ...any) { fmt.Fprintf(os.Stderr, "bench: "+format+"\n", args...) }
