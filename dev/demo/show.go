package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/diff"

	"sluice.dev/sluice/test/controlplane"
)

// show is one run of the demo.
type show struct {
	out     io.Writer
	dir     string
	context string // the name of the cluster in printed commands of kubectl; "" for the only one, and for the hub of a fleet
	keep    bool
	cluster *controlplane.Cluster
	sluice  *exec.Cmd
	ended   chan error              // the error of sluice run at its end, after it was ready
	fail    context.CancelCauseFunc // ends the demo
	stages  []stage
	route   string // the VirtualService when it was last shown
}

type stage struct {
	name string
	took time.Duration
}

func (s *show) say(format string, args ...any) { fmt.Fprintf(s.out, format+"\n", args...) }

// stage runs one part of the demo under a heading and records its time.
func (s *show) stage(name string, f func() error) error {
	s.say("\n== %s", name)
	began := time.Now()
	err := f()
	s.stages = append(s.stages, stage{name, time.Since(began)})
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

func (s *show) times() {
	s.say("\n== How long it took")
	for _, st := range s.stages {
		s.say("%-70s %6.2f s", st.name, st.took.Seconds())
	}
}

// kubectl prints a command as a user types it, runs it, and prints its output.
func (s *show) kubectl(ctx context.Context, args ...string) error {
	s.say("$ %s %s", s.kubectlName(), quote(args))
	out, err := s.cluster.Kubectl(ctx, args...)
	s.print(out)
	return err
}

func (s *show) kubectlName() string {
	if s.context == "" {
		return "kubectl"
	}
	return "kubectl --context " + s.context
}

// command runs a command of sluice and prints its output.
func (s *show) command(ctx context.Context, args ...string) error {
	s.say("$ sluice %s", quote(args))
	out, err := s.run(ctx, args...)
	s.print(out)
	return err
}

func (s *show) run(ctx context.Context, args ...string) (string, error) {
	c := exec.CommandContext(ctx, "bin/sluice", append(args, "--kubeconfig", s.cluster.Kubeconfig)...)
	c.Env = append(os.Environ(), s.nats()...)
	var stderr bytes.Buffer
	c.Stderr = &stderr
	out, err := c.Output()
	if err != nil {
		return string(out), fmt.Errorf("sluice %s: %w: %s", args[0], err, strings.TrimSpace(stderr.String()))
	}
	return string(out), nil
}

// nats returns the flags for the NATS of sluice run, from its note.
func (s *show) nats() []string {
	text, err := os.ReadFile(s.note())
	if err != nil {
		return nil // it does not run yet
	}
	return strings.Fields(string(text))
}

func (s *show) note() string { return filepath.Join(s.dir, "nats", "nats.env") }

func (s *show) print(text string) {
	for line := range strings.Lines(text) {
		s.say("  %s", strings.TrimRight(line, "\n"))
	}
}

// showRoute prints the changes of the VirtualService since it was last shown.
func (s *show) showRoute(ctx context.Context) error {
	now, err := s.cluster.Kubectl(ctx, "get", "virtualservice", "vs-demo", "-o", "jsonpath-as-json={.spec}")
	if err != nil {
		return err
	}
	text, err := toYAML(now)
	if err != nil {
		return err
	}
	if s.route == "" {
		s.route = text
		return nil
	}
	s.say("VirtualService vs-demo, what changed in spec:")
	s.print(strings.TrimPrefix(string(diff.Diff("before", []byte(s.route), "now", []byte(text))), "diff before now\n"))
	s.route = text
	return nil
}

// startSluice runs watcher, executor and analyzer with embedded NATS, each as its own service account.
func (s *show) startSluice(flags ...string) error {
	args := append([]string{"run", "--metric-hosts", "127.0.0.1"}, flags...)
	s.say("$ sluice %s", quote(args))
	log, err := os.Create(filepath.Join(s.dir, "sluice.log"))
	if err != nil {
		return fmt.Errorf("make log file: %w", err)
	}
	defer log.Close()
	s.sluice = exec.Command("bin/sluice", append(args, "--kubeconfig", s.cluster.Kubeconfig, "--nats-dir", filepath.Join(s.dir, "nats"))...)
	s.sluice.Env = append(os.Environ(), s.nats()...) // the NATS of a fleet's hub runs in the demo
	s.sluice.Stderr = log
	s.sluice.SysProcAttr = childAttributes(s.keep)
	stdout, err := s.sluice.StdoutPipe()
	if err != nil {
		return fmt.Errorf("run sluice: %w", err)
	}
	if err := s.sluice.Start(); err != nil {
		return fmt.Errorf("run sluice: %w", err)
	}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		_ = s.sluice.Wait() // the log has more details
		return fmt.Errorf("run sluice: it ended before it was ready: %s", lastOf(log.Name()))
	}
	s.print(line)
	s.ended = make(chan error, 1)
	go func() {
		s.ended <- s.sluice.Wait()
		s.fail(fmt.Errorf("sluice run ended (%s); its log ends with:\n%s", s.sluice.ProcessState, lastOf(log.Name())))
	}()
	return nil
}

// manyLines bounds the log lines shown after a failure.
const manyLines = 20

// lastOf returns the last lines of a file, or the error of reading it.
func lastOf(file string) string {
	text, err := os.ReadFile(file)
	if err != nil {
		return err.Error()
	}
	lines := slices.Collect(strings.Lines(string(text)))
	return strings.Join(lines[max(0, len(lines)-manyLines):], "")
}

// end stops everything.
func (s *show) end() error {
	var errs []error
	if s.ended != nil {
		if err := s.sluice.Process.Signal(syscall.SIGTERM); err == nil {
			errs = append(errs, <-s.ended)
		} else if !errors.Is(err, os.ErrProcessDone) { // otherwise the demo failed because of it
			errs = append(errs, err)
		}
	}
	if s.cluster != nil {
		errs = append(errs, s.cluster.Stop())
	}
	return errors.Join(errs...)
}

func (s *show) howToGoOn() {
	s.say("\n== It goes on running. In this directory:")
	s.say("export KUBECONFIG=%s $(cat %s)", s.cluster.Kubeconfig, s.note())
	s.say("bin/kubectl get rollouts,deployments,virtualservices")
	s.say("bin/sluice get rollout rollouts-demo -w")
	s.say("bin/sluice analysis get shop  # the servers, the router and the Prometheus of the second act have ended")
	s.say(`bin/kubectl patch deployment workload-demo -p '{"spec":{"template":{"spec":{"containers":[{"name":"nginx","env":[{"name":"version","value":"next"}]}]}}}}'`)
	s.say("bin/sluice approve rollouts-demo")
	s.say("# end it:")
	s.say("kill %d %d && sleep 3 && rm -rf %s", s.sluice.Process.Pid, s.cluster.Pid(), s.dir)
}

// quote formats arguments for a shell.
func quote(args []string) string {
	var words []string
	for _, a := range args {
		if strings.ContainsAny(a, " {}\"$*") {
			a = "'" + a + "'"
		}
		words = append(words, a)
	}
	return strings.Join(words, " ")
}
