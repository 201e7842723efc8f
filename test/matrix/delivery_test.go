package matrix

import (
	"flag"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"sluice.dev/sluice/pkg/api"
)

// TestDelivery plays releases by permits that set the images, on every strategy and workload. In "images set", only the executor changes the workload. In "images
// taken back", a client restores the old template while the release is paused. Without -matrix.all, it plays one situation of each column, and the other one of the next column.
func TestDelivery(t *testing.T) {
	one := !*all && !strings.Contains(flag.Lookup("test.run").Value.String(), "/")
	i := 0
	for _, col := range columns() {
		if col.governed {
			continue
		}
		for n, s := range []struct {
			name string
			play func(*cell)
		}{{"images set", (*cell).imagesSet}, {"images taken back", (*cell).imagesTakenBack}} {
			if one && n != i%2 {
				continue
			}
			t.Run(s.name+"/"+col.name, func(t *testing.T) {
				t.Parallel()
				skipWithoutHub(t, governed(col))
				c := newCell(t, governed(col))
				c.adopted()
				c.allow("app:2", 1)
				c.permitImages("app:2")
				s.play(c)
			})
		}
		i++
	}
}

// imagesSet plays a release to its end.
func (c *cell) imagesSet() {
	c.Helper()
	c.finish("app:2", 1)
	c.settled("app:2")
	c.reports(func(r api.FleetReport) bool { return r.Seq == 1 && r.State == api.FleetReportCompleted })
	c.rests(end{phase: api.PhaseHealthy, image: "app:2"})
}

// imagesTakenBack plays a release whose images a client takes back. It fails, and the executor does not set them again under the same permit.
func (c *cell) imagesTakenBack() {
	c.Helper()
	c.await("paused at step 1", pausedAt(1, 1))
	c.back()
	r := c.reports(func(r api.FleetReport) bool {
		return r.State == api.FleetReportFailed && r.Reason == api.FleetReasonTakenBack && strings.Contains(r.Message, "tester has changed its template")
	})
	if r.Seq != 1 {
		c.Errorf("the report is about permit %d", r.Seq)
	}
	c.quietly()
	c.rests(end{phase: api.PhaseHealthy, image: "app:1"})
	c.permitImages("app:2")
	c.allow("app:2", 1)
	c.finish("app:2", 2)
	c.rests(end{phase: api.PhaseHealthy, image: "app:2"})
}

// permitImages gives a permit that sets the image.
func (c *cell) permitImages(image string) {
	c.Helper()
	c.reports(func(r api.FleetReport) bool { return r.PlanHash != "" && r.Template.Revision != "" })
	permit := api.FleetPermit{Verb: api.FleetVerbRelease, Images: map[string]string{"c": image}, LocalPauses: api.FleetLocalPausesKeep}
	if err := c.w.Hub.Give(c.Context(), types.NamespacedName{Namespace: c.ns, Name: "app"}, permit); err != nil {
		c.Fatal(err)
	}
}
