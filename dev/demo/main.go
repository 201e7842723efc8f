// Command demo shows canary releases on an embedded control plane. In its first act it runs the Istio walkthrough of examples/seeds literally, with kubectl,
// and prints the effects of each step. In the second act, users send real requests to two local servers, and metrics from Prometheus promote and stop releases.
// With -fleet it shows one version on its way through three clusters instead. It is not a test, but a test checks its transcript: see transcript.golden.
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

	"sluice.dev/sluice/test/controlplane"
)

func main() {
	keep := flag.Bool("keep", os.Getenv("KEEP") == "1", "leave everything running, and print commands that work there. A fleet runs until it is interrupted")
	fleet := flag.Bool("fleet", false, "show releases over three clusters and their hub instead")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	play := func() error { return run(ctx, os.Stdout, *keep) }
	if *fleet {
		play = func() error { return runFleet(ctx, os.Stdout, *keep) }
	}
	if err := play(); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer, keep bool) (err error) {
	dir, err := os.MkdirTemp("", "sluice-demo-")
	if err != nil {
		return fmt.Errorf("make a directory for the demo: %w", err)
	}
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	s := &show{out: out, dir: dir, keep: keep, fail: fail}
	defer func() {
		if !keep || err != nil {
			err = errors.Join(context.Cause(ctx), err, s.end(), os.RemoveAll(dir))
		}
	}()
	s.say("Sluice demo, on a real Kubernetes control plane embedded here. Act one: a canary release in three steps, each approved by a person.")
	s.say("Act two: real requests flow, and their metrics promote a good version and stop a bad one.")
	s.say("The API server, controllers, scheduler, NATS and Prometheus are real. Pods are simulated (kwok): no image runs.")
	if err := s.begin(ctx, controlplane.Options{Dir: dir + "/cluster", CRDs: []string{"bin/crds/istio.yaml"}, Detach: keep}); err != nil {
		return err
	}
	if err := s.walk(ctx); err != nil {
		return err
	}
	if err := s.metricsDecide(ctx); err != nil {
		return err
	}
	s.times()
	if keep {
		s.howToGoOn()
	}
	return nil
}
