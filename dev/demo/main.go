// Command demo shows a canary release on an embedded control plane: it runs the Istio walkthrough of examples/seeds literally,
// with kubectl, and prints what happens at each step. It is no test, but its transcript is one: see transcript.golden.
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
	keep := flag.Bool("keep", os.Getenv("KEEP") == "1", "leave everything running, and print commands that work there")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Stdout, *keep); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer, keep bool) (err error) {
	dir, err := os.MkdirTemp("", "sluice-demo-")
	if err != nil {
		return fmt.Errorf("make a directory for the demo: %w", err)
	}
	s := &show{out: out, dir: dir, keep: keep}
	defer func() {
		if !keep || err != nil {
			err = errors.Join(err, s.end(), os.RemoveAll(dir))
		}
	}()
	s.say("Sluice demo: a canary release in three steps, on a real Kubernetes control plane embedded here.")
	s.say("The API server, controllers, scheduler and NATS are real. Pods are simulated (kwok): no image runs, no request flows.")
	if err := s.begin(ctx, controlplane.Options{Dir: dir + "/cluster", CRDs: []string{"bin/crds/istio.yaml"}, Detach: keep}); err != nil {
		return err
	}
	if err := s.walk(ctx); err != nil {
		return err
	}
	s.times()
	if keep {
		s.howToGoOn()
	}
	return nil
}
