package scenario

import (
	"strings"
	"testing"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/test/world"
)

func TestAVersionThatServedLatelyNeedsNoSteps(t *testing.T) {
	t.Parallel()
	const window = "  strategy:\n    rollbackWindow: {revisions: 1}\n"
	canary := strings.Replace(withSteps(t, "{replicas: 1, traffic: 20%}", "{replicas: 100%, traffic: 100%}"), "  strategy:\n", window, 1)
	for name, manifest := range map[string]string{
		"canary style": canary, "partition style": inPlace(canary),
		"blue-green style": swap(t, canary, "canary:\n", "blueGreen:\n", "      enableExtraWorkloadForCanary: true\n", ""),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := aDemo(t, world.Shared(t), manifest)
			over := func(epoch int64) func(*api.Rollout) bool {
				return func(r *api.Rollout) bool { return world.Healthy(r) && r.Status.Sluice.Epoch == epoch }
			}
			pausedIn := func(epoch int64) func(*api.Rollout) bool {
				return func(r *api.Rollout) bool { return world.PausedAt(1)(r) && r.Status.Sluice.Epoch == epoch }
			}
			released := func(value string, epoch int64) {
				t.Helper()
				d.release(t, version(value))
				d.await(t, pausedIn(epoch))
				d.command(t, api.CommandPromote)
				d.await(t, over(epoch))
			}
			released("two", 1)
			released("three", 2)

			d.release(t, version("two"))
			d.await(t, over(3))
			if got := d.recorded(t, 3, api.OutcomeCompleted); len(got.Status.Steps) > 0 {
				t.Errorf("the version that served lately took the steps %+v", got.Status.Steps)
			}
			d.awaitSets(t, map[string]int32{"two": 3})
			d.wantRestored(t)

			d.release(t, version("base")) // an older version
			d.await(t, pausedIn(4))
		})
	}
}
