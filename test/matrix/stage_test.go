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

// stage is what kinds other than Deployments need beside the world; it is made with the first cell that does.
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

// runs makes the workload; one of daemons has as many nodes as it wants pods.
func (c *cell) runs(manifest string) {
	c.Helper()
	if c.col.daemon {
		c.spread(c.replicas)
		manifest = strings.Replace(manifest, "    spec: {", "    spec: {nodeSelector: {"+c.node()+`: "true"}, `, 1)
	}
	c.create(c.col.resource, manifest)
}

// node is the label of the nodes of a cell whose workload has a pod on each.
func (c *cell) node() string { return "event/" + c.ns }

func (c *cell) spread(n int) {
	c.Helper()
	if err := workload.Spread(c.Context(), c.w, c.node(), n); err != nil {
		c.Fatal(err)
	}
}

// grown is how many pods of the new version there may be when the workload is scaled, of those that there are. The controller of a
// Deployment shares further pods out in proportion; others make them new.
func (c *cell) grown(pods, n int) int {
	if c.col.resource == deployments() {
		return (pods*n + c.replicas - 1) / c.replicas
	}
	return pods + max(0, n-c.replicas)
}
