package kruise_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"testing"

	"sluice.dev/sluice/test/controlplane"
	"sluice.dev/sluice/test/kruise"
)

// nodes is the number of nodes, and so the number of pods of a DaemonSet.
const nodes = 5

func TestMain(m *testing.M) {
	if kubeconfig := os.Getenv(parentVariable); kubeconfig != "" {
		os.Exit(beParent(kubeconfig))
	}
	flag.Parse()
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(code)
}

// shared is the cluster of all tests; nil with -short.
var shared *controlplane.Cluster

func run(m *testing.M) (code int, err error) {
	if testing.Short() {
		return m.Run(), nil
	}
	crds, err := kruise.CRDs()
	if err != nil {
		return 1, err
	}
	shared, err = controlplane.Start(context.Background(), controlplane.Options{CRDs: []string{crds}, Nodes: nodes})
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, shared.Stop()) }()
	controllers, err := kruise.Start(context.Background(), shared.Kubeconfig)
	if err != nil {
		return 1, err
	}
	fmt.Printf("OpenKruise %s was ready after %s\n", controllers.Version, controllers.StartedIn)
	defer func() {
		if stopped := controllers.Stop(); stopped != nil {
			code, err = 1, errors.Join(err, stopped)
		}
	}()
	return m.Run(), nil
}

// plane returns the cluster. With -short it skips the test.
func plane(t *testing.T) *controlplane.Cluster {
	t.Helper()
	if testing.Short() {
		t.Skip("it needs a control plane, which -short leaves out")
	}
	return shared
}

// step is an event in the life of a workload, and its result.
type step struct {
	sentence string
	patch    string // a merge patch
	lose     string // the image of a pod to delete
	forGood  bool   // the pod does not come back
	want     state
}

// play plays the steps one after the other.
func play(t *testing.T, w *workload, steps []step) {
	t.Helper()
	for i, s := range steps {
		done := t.Run(fmt.Sprintf("%02d %s", i+1, s.sentence), func(t *testing.T) {
			if s.patch != "" {
				w.patch(t, s.patch)
			}
			if s.lose != "" {
				w.lose(t, s.lose, s.forGood)
			}
			w.awaits(t, s.want)
		})
		if !done {
			return // the later steps begin where this one should have ended
		}
	}
}
