package matrix

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/test/world"
)

// pausedAt is the goal that the release waits at a step. Epoch 0 stands for any epoch.
func pausedAt(step int32, epoch int64) world.Goal {
	return func(r *api.Rollout) bool {
		return world.PausedAt(step)(r) && (epoch == 0 || r.Status.Sluice.Epoch == epoch)
	}
}

// inState is the goal that the machine is in a state.
func inState(state string) world.Goal {
	return func(r *api.Rollout) bool { return r.Status.Sluice.GetState() == state }
}

// healthyAfter is the goal that this release is over. A Rollout is Healthy before it has seen a new version, too.
func healthyAfter(epoch int64) world.Goal {
	return func(r *api.Rollout) bool { return world.Healthy(r) && r.Status.Sluice.Epoch >= epoch }
}

const approval = `"currentStepState":"StepReady"`

// approve approves the pause at a step, by the patch that kubectl-kruise sends.
func (c *cell) approve(image string, step int) {
	c.Helper()
	c.allow(image, step+1)
	if err := c.status(approval); err != nil {
		c.Fatal(err)
	}
}

// status writes the fields of a release's status that users may write.
func (c *cell) status(fields string) error {
	of := map[string]string{"canary": "canaryStatus", "blueGreen": "blueGreenStatus"}[c.col.style]
	return c.patch(api.RolloutResource(), "app", fmt.Sprintf(`{"status":{%q:{%s}}}`, of, fields), "status")
}

// approveUntil approves each pause from a release on, until the Rollout reaches the goal.
func (c *cell) approveUntil(image string, epoch int64, want string, goal world.Goal) *api.Rollout {
	c.Helper()
	var last *api.Rollout
	approved := int64(0)
	c.object(api.RolloutResource(), "app", want, func(u *unstructured.Unstructured) bool {
		last = c.rollout(u)
		if last == nil || goal(last) {
			return last != nil
		}
		if s := last.Status; pausedAt(s.CurrentStepIndex, 0)(last) && s.Sluice.Epoch >= epoch && s.Sluice.PauseSeq > approved {
			approved = s.Sluice.PauseSeq
			c.allow(image, int(s.CurrentStepIndex)+1)
			// The API server refuses an approval that an event has overtaken. The next round sees the event.
			if err := c.status(approval); err != nil && !strings.Contains(err.Error(), "approve only while") {
				c.Fatal(err)
			}
		}
		return false
	})
	return last
}

// finish approves the remaining steps of a version's release.
func (c *cell) finish(image string, epoch int64) {
	c.Helper()
	c.approveUntil(image, epoch, fmt.Sprintf("the end of release %d", epoch), healthyAfter(epoch))
}

// command writes a command for the release under way.
func (c *cell) command(action api.CommandAction) {
	c.Helper()
	if err := c.tryCommand(action); err != nil {
		c.Fatal(err)
	}
}

func (c *cell) tryCommand(action api.CommandAction) error {
	r := c.rollout(c.get(api.RolloutResource(), "app"))
	return c.patch(api.RolloutResource(), "app", fmt.Sprintf(`{"status":{"command":{"action":%q,"epoch":%d,"pauseSeq":%d,"actor":"admin"}}}`,
		action, r.Status.Sluice.Epoch, r.Status.Sluice.PauseSeq), "status")
}

// aborted is the goal that the release was stopped and has left only the change, which is held.
func aborted(r *api.Rollout) bool {
	c := world.Condition(r, api.ConditionProgressing)
	return c != nil && c.Reason == api.ReasonAborted && r.Status.Sluice.WakeAt == nil && newPods(r) == 0
}

// newPods returns the number of pods of the new version in the status.
func newPods(r *api.Rollout) int32 {
	if b := r.Status.BlueGreenStatus; b != nil {
		return b.UpdatedReplicas
	}
	return r.Status.CanaryStatus.CanaryReplicas
}
