package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// toolInterval is how often the GitOps tool of a cluster applies its manifests.
const toolInterval = 2 * time.Second

// tool stands in for the GitOps tool of a cluster: it applies the workload again and again.
type tool struct {
	applied atomic.Int64 // how often it has applied the present version
	cancel  context.CancelFunc
	work    sync.WaitGroup
}

func (t *tool) stop() {
	t.cancel()
	t.work.Wait()
}

// workload returns the manifests of a version.
func workload(version string) (string, error) {
	text, err := os.ReadFile(fleetFiles + "workload.yaml")
	if err != nil {
		return "", fmt.Errorf("read the workload: %w", err)
	}
	return strings.ReplaceAll(string(text), "VERSION", version), nil
}

// follow makes the GitOps tool of the cluster apply a version, until the next one or the end.
func (m *member) follow(ctx context.Context, version string) error {
	manifests, err := workload(version)
	if err != nil {
		return err
	}
	if m.tool != nil {
		m.tool.stop()
	}
	ctx, cancel := context.WithCancel(ctx)
	t := &tool{cancel: cancel}
	m.tool = t
	t.work.Go(func() {
		again := time.NewTicker(toolInterval)
		defer again.Stop()
		for {
			// A tool that meets a conflict applies again later, too.
			if _, err := m.cluster.KubectlStdin(ctx, manifests, "apply", "-f", "-"); err == nil {
				t.applied.Add(1)
			}
			select {
			case <-ctx.Done():
				return
			case <-again.C:
			}
		}
	})
	return nil
}

// commit makes the GitOps tools of all clusters apply a version.
func (f *fleet) commit(ctx context.Context, version string) error {
	f.say("  Git has %s now. The GitOps tool of each cluster applies it every %s, to all clusters at once:", version, toolInterval)
	f.say("    sed s/VERSION/%s/ %sworkload.yaml | kubectl --context CLUSTER apply -f -", version, fleetFiles)
	for _, m := range f.members {
		if err := m.follow(ctx, version); err != nil {
			return err
		}
	}
	return nil
}

// appliedAgain waits until the tool of each cluster has applied its version a number of further times.
func (f *fleet) appliedAgain(ctx context.Context, times int64) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	look := time.NewTicker(toolInterval / 10)
	defer look.Stop()
	enough := map[*member]int64{}
	for _, m := range f.members {
		enough[m] = m.tool.applied.Load() + times
	}
	for _, m := range f.members {
		for m.tool.applied.Load() < enough[m] {
			select {
			case <-ctx.Done():
				return fmt.Errorf("wait for the GitOps tool of %s: %w", m.context, ctx.Err())
			case <-look.C:
			}
		}
	}
	return nil
}
