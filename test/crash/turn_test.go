package crash

import (
	"context"
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"sluice.dev/sluice/pkg/api"
)

// variant is how a release is made, and what decides about it.
type variant string

const (
	// approved: somebody approves each step, beside a canary Deployment.
	approved variant = "approved"
	// promoted: metrics pass, and that is the approval.
	promoted variant = "promoted"
	// stopped: metrics fail.
	stopped variant = "stopped"
	// swapped: the workload replaces its own pods, and somebody approves each step.
	swapped variant = "swapped"
	// returned: so it does, and is rolled back in the second step.
	returned variant = "returned"
	// canceled: the workload is rolled back in the second step.
	canceled variant = "canceled"
	// continued: a newer version comes in the second step.
	continued variant = "continued"
	// removed: the Rollout is deleted in the second step.
	removed variant = "removed"
	// disabled: the Rollout is disabled in the second step.
	disabled variant = "disabled"
)

func (v variant) measured() bool { return v == promoted || v == stopped }

func (v variant) inPlace() bool { return v == swapped || v == returned }

// turns reports whether the release takes a turn in its second step.
func (v variant) turns() bool { return v != approved && v != swapped && !v.measured() }

const (
	// selectionOfTurns is how many plans of each turn are played unless all are wanted.
	selectionOfTurns = 5
	// rehearsalsOfTurns are fewer than of a release that is approved, for there are many turns.
	rehearsalsOfTurns = 8
)

// Whatever goes wrong, a release that takes another turn than to be approved to its end takes that one.
func TestWhateverGoesWrongWithATurnIsHealed(t *testing.T) {
	for _, v := range []variant{swapped, returned, canceled, continued, removed, disabled} {
		t.Run(string(v), func(t *testing.T) {
			y := newYard(t, v)
			clean, acts := rehearse(t, y, rehearsalsOfTurns)
			all := plans(acts)
			play(t, y, clean, acts, all, chosen(t, all, selectionOfTurns))
		})
	}
}

// turn brings the release to its second step, and turns it.
func (y *yard) turn(ctx context.Context, namespace string, h *history) error {
	first := &yard{World: y.World, objects: y.objects, variant: approved}
	if err := first.paused(ctx, 1, h); err != nil {
		return err
	}
	if err := y.approve(ctx, namespace); err != nil {
		return err
	}
	if err := first.paused(ctx, 2, h); err != nil {
		return err
	}
	deployments := y.kubernetes.AppsV1().Deployments(namespace)
	rollouts := y.objects.Resource(api.RolloutResource()).Namespace(namespace)
	var err error
	switch y.variant {
	case returned, canceled:
		_, err = deployments.Patch(ctx, app, types.StrategicMergePatchType, []byte(oldVersion), metav1.PatchOptions{})
	case continued:
		_, err = deployments.Patch(ctx, app, types.StrategicMergePatchType, []byte(newerVersion), metav1.PatchOptions{})
	case removed:
		err = rollouts.Delete(ctx, app, metav1.DeleteOptions{})
	case disabled:
		_, err = rollouts.Patch(ctx, app, types.MergePatchType, []byte(`{"spec":{"disabled":true}}`), metav1.PatchOptions{})
	}
	if err != nil {
		return fmt.Errorf("have the release %s: %w", y.variant, err)
	}
	return nil
}
