package crash

import (
	"context"
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/test/world"
)

// selectionOfTurns is how many plans of each turn are played unless all are wanted.
const selectionOfTurns = 5

// turns are the releases that are neither measured nor approved to their end beside a canary.
func turns() (list []variant) {
	for _, c := range []struct {
		style world.AppKind
		ends  []end
	}{
		{beside, []end{canceled, continued, removed, disabled}},
		{world.InPlace, []end{approved, canceled, continued, removed, disabled}},
		{world.Daemons, []end{approved, canceled, continued, removed}},
		{world.Ordered, []end{canceled}},
		{world.Cloned, []end{canceled}},
		{world.BlueGreen, []end{approved, canceled, removed}},
		{world.Ingressed, []end{approved, canceled, removed}},
	} {
		for _, e := range c.ends {
			list = append(list, variant{c.style, e})
		}
	}
	return list
}

// Whatever goes wrong, a release that takes another turn than to be approved to its end takes that one.
func TestWhateverGoesWrongWithATurnIsHealed(t *testing.T) {
	sideBySide(t)
	for _, v := range turns() {
		t.Run(v.String(), func(t *testing.T) {
			y := newYard(t, v)
			clean, acts := rehearse(t, y)
			play(t, y, clean, acts, selectionOfTurns, nil)
		})
	}
}

// turn brings the release to its second step, and turns it.
func (y *yard) turn(ctx context.Context, namespace string, h *history) error {
	first := &yard{ground: y.ground}
	if err := first.paused(ctx, 1, h); err != nil {
		return err
	}
	if err := y.approve(ctx, namespace); err != nil {
		return err
	}
	if err := first.paused(ctx, 2, h); err != nil {
		return err
	}
	rollouts := y.objects.Resource(api.RolloutResource()).Namespace(namespace)
	var err error
	switch y.end {
	case canceled:
		err = y.change(ctx, namespace, oldVersion)
	case continued:
		err = y.change(ctx, namespace, newerVersion)
	case removed:
		err = rollouts.Delete(ctx, app, metav1.DeleteOptions{})
	case disabled:
		_, err = rollouts.Patch(ctx, app, types.MergePatchType, []byte(`{"spec":{"disabled":true}}`), metav1.PatchOptions{})
	}
	if err != nil {
		return fmt.Errorf("have the release %s: %w", y.end, err)
	}
	return nil
}
