package matrix

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"sluice.dev/sluice/test/workload"
	"sluice.dev/sluice/test/world"
)

// stage has the parts that kinds other than Deployments need in addition to the world. The first such cell creates it.
var stage struct {
	once sync.Once
	stop func() error
	err  error
}

func staged(t *testing.T, w *world.World) {
	t.Helper()
	stage.once.Do(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
		defer cancel()
		stage.stop, stage.err = workload.Prepare(ctx, w)
	})
	if stage.err != nil {
		t.Fatal(stage.err)
	}
}

func stopStage() {
	if stage.stop != nil {
		_ = stage.stop()
	}
}

// runs creates the workload. For a daemon it first creates as many nodes as the cell wants pods.
func (c *cell) runs(manifest string) {
	c.Helper()
	if c.col.daemon {
		c.spread(c.replicas)
		manifest = strings.Replace(manifest, "    spec: {", "    spec: {nodeSelector: {"+c.node()+`: "true"}, `, 1)
	}
	c.create(c.col.resource, manifest)
}

// node returns the label of the nodes of a cell whose workload has a pod on each.
func (c *cell) node() string { return "event/" + c.ns }

func (c *cell) spread(n int) {
	c.Helper()
	if err := workload.Spread(c.Context(), c.w, c.node(), n); err != nil {
		c.Fatal(err)
	}
}

// grown returns the upper bound for pods of the new version after the workload is scaled. The controller of a
// Deployment distributes additional pods in proportion; others create them in the new version.
func (c *cell) grown(pods, n int) int {
	if c.col.resource == deployments() {
		return (pods*n + c.replicas - 1) / c.replicas
	}
	return pods + max(0, n-c.replicas)
}
