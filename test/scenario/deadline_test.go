package scenario

import (
	"strings"
	"testing"
	"time"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
	"sluice.dev/sluice/test/controlplane"
	"sluice.dev/sluice/test/world"
)

// eachStyle runs a test on a Rollout of the walkthrough, with a deadline, in both styles.
func eachStyle(t *testing.T, deadline string, test func(t *testing.T, d *demo, inPlace bool)) {
	for name, style := range map[string]func(string) string{"canary style": func(m string) string { return m }, "partition style": inPlace} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			manifest := strings.Replace(style(shortGrace(t)), "    canary:\n", "    canary:\n"+deadline, 1)
			test(t, aDemo(t, world.Shared(t), manifest), name == "partition style")
		})
	}
}

// cure makes all sick pods ready.
func (d *demo) cure(t *testing.T) {
	t.Helper()
	d.w.Do(t, "-n", d.ns, "annotate", "pods", "--all", controlplane.NeverReady+"-")
}

func TestAStepThatIsLateIsHeldUntilItsPodsCome(t *testing.T) {
	eachStyle(t, "      progressDeadlineSeconds: 2\n", func(t *testing.T, d *demo, inPlace bool) {
		d.release(t, version("slow", controlplane.NeverReady, "true"))
		began := d.await(t, func(r *api.Rollout) bool { return r.Status.CurrentStepState == api.StepUpgrade }).Status.Sluice.StepSince
		r := d.await(t, world.HeldFor(rollout.ReasonProgressDeadlineExceeded))
		if c := world.Condition(r, api.ConditionStalled); c.LastTransitionTime.Sub(began.Time) < time.Second || !strings.Contains(c.Message, "Step 1 of 3 was not ready within 2s") {
			t.Errorf("the step began at %s, and the condition is %+v", began, c)
		}
		if c := world.Condition(r, api.ConditionProgressing); c.Reason != api.ReasonFailed {
			t.Errorf("the release is shown as %s", c.Reason)
		}
		wantSame(t, d.route, d.w.Get(t, d.ns, "virtualservice", "vs-demo"))

		d.cure(t)
		r = d.await(t, world.PausedAt(1))
		if c := world.Condition(r, api.ConditionStalled); c != nil {
			t.Errorf("it is paused and held: %s", c.Message)
		}
		d.backToBase(t, inPlace)
	})
}

// backToBase rolls the workload back, and checks that no part of the release is left.
func (d *demo) backToBase(t *testing.T, inPlace bool) {
	t.Helper()
	d.release(t, strings.Replace(version("base", controlplane.NeverReady, "-"), `"-"`, "null", 1))
	d.await(t, world.Healthy)
	d.wantSets(t, map[string]int32{"base": 3})
	d.wantRestored(t)
	if inPlace {
		d.wantFree(t)
	}
}
