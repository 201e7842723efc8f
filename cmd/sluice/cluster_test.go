package main

import (
	"context"
	"strings"
	"sync"
	"testing"

	"sluice.dev/sluice/test/controlplane"
)

// shared is the control plane of all tests that need Sluice's kinds and no running part.
var shared struct {
	once    sync.Once
	cluster *controlplane.Cluster
	err     error
	// web is locked by the test that has a Rollout named web.
	web sync.Mutex
}

// installation is the control plane of all tests that run Sluice, one at a time; see [installed].
var installation struct {
	mu      sync.Mutex
	cluster *controlplane.Cluster
}

// sharedCluster returns a cluster that serves Sluice's kinds, without any part of it. Tests use it in parallel.
func sharedCluster(t *testing.T) *controlplane.Cluster {
	t.Helper()
	if testing.Short() {
		t.Skip("it needs a control plane, which -short leaves out")
	}
	shared.once.Do(func() {
		crds, err := crdDirectory()
		if err != nil {
			shared.err = err
			return
		}
		shared.cluster, shared.err = controlplane.Start(context.Background(), controlplane.Options{CRDs: []string{crds}})
	})
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return shared.cluster
}

func stopClusters() {
	for _, cluster := range []*controlplane.Cluster{shared.cluster, installation.cluster} {
		if cluster != nil {
			_ = cluster.Stop() // the tests have ended
		}
	}
}

// lockWeb gives a test exclusive use of the Rollout default/web. It deletes the Rollout with its Deployment and its template when the test ends.
func lockWeb(t *testing.T, cluster *controlplane.Cluster) {
	t.Helper()
	shared.web.Lock()
	t.Cleanup(func() {
		defer shared.web.Unlock()
		const objects = "rollout/web deployment/web analysistemplate/rate"
		if _, err := cluster.Kubectl(context.WithoutCancel(t.Context()), append([]string{"delete", "--ignore-not-found"}, strings.Fields(objects)...)...); err != nil {
			t.Error(err)
		}
	})
}
