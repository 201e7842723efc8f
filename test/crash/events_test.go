package crash

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
	"sluice.dev/sluice/test/world"
)

// selectionOfTurns is the number of plans of each event to play, unless all are wanted.
const selectionOfTurns = 5

// turns returns the releases without measurement, except the canary release that is approved to its end.
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
		{world.Attached, []end{approved, canceled, removed}},
		{world.Recreated, []end{undone}},
		{beside, []end{permitted, withdrawn, recalled}},
		{world.InPlace, []end{permitted, withdrawn, recalled}},
		{world.BlueGreen, []end{permitted, recalled}},
		{world.Daemons, []end{withdrawn, recalled}},
		{world.Ordered, []end{recalled}},
		{world.Cloned, []end{withdrawn}},
	} {
		for _, e := range c.ends {
			list = append(list, variant{c.style, e})
		}
	}
	return list
}

// A release with an event must end as that event wants, regardless of the failure.
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

// turn brings the release to its second step, or past the last one, and triggers the event.
func (y *yard) turn(ctx context.Context, namespace string, h *history, hub *world.Hub) error {
	switch y.end {
	case undone:
		return y.undo(ctx, namespace, h)
	case recalled:
		return nil // after the release
	}
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
	case withdrawn:
		if err = y.withdraw(ctx, namespace, hub); err == nil {
			err = y.change(ctx, namespace, oldVersion)
		}
	case disabled:
		_, err = rollouts.Patch(ctx, app, types.MergePatchType, []byte(`{"spec":{"disabled":true}}`), metav1.PatchOptions{})
	}
	if err != nil {
		return fmt.Errorf("have the release %s: %w", y.end, err)
	}
	return nil
}

// undo approves each step, and rolls the workload back when only the canary is left. A quota prevents other pods until
// then.
func (y *yard) undo(ctx context.Context, namespace string, h *history) error {
	for n := range steps() {
		if err := y.paused(ctx, n+1, h); err != nil {
			return err
		}
		if n+1 == len(steps()) {
			if err := y.full(ctx, namespace); err != nil {
				return err
			}
		}
		if err := y.approve(ctx, namespace); err != nil {
			return err
		}
	}
	var fresh string
	if err := h.await(ctx, "the workload to have no pods, and a ReplicaSet for new ones", func(live objects) bool {
		fresh = live.wanting()
		return live.rollout().Status.Sluice.GetState() == string(rollout.StateFinalising) && int64(live.pods()) == replicas(live["deployments/"+canary]) && fresh != ""
	}); err != nil {
		return err
	}
	if err := y.change(ctx, namespace, oldVersion); err != nil {
		return err
	}
	if err := h.await(ctx, "the stable ReplicaSet to want pods", func(live objects) bool {
		return live.wanting() != "" && live.wanting() != fresh && replicas(live[fresh]) == 0
	}); err != nil {
		return err
	}
	return y.kubernetes.CoreV1().ResourceQuotas(namespace).Delete(ctx, app, metav1.DeleteOptions{})
}

// wanting returns the workload's own ReplicaSet that wants all its pods, "" if there is no such ReplicaSet.
func (o objects) wanting() string {
	for key, u := range o {
		if strings.HasPrefix(key, "replicasets/"+app+"-") && !strings.HasPrefix(key, "replicasets/"+canary) && replicas(u) == size {
			return key
		}
	}
	return ""
}

// full prevents new pods in the namespace.
func (y *yard) full(ctx context.Context, namespace string) error {
	quotas := y.kubernetes.CoreV1().ResourceQuotas(namespace)
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: app}, Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("0")}}}
	if _, err := quotas.Create(ctx, quota, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("create quota: %w", err)
	}
	return wait.PollUntilContextCancel(ctx, 20*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		live, err := quotas.Get(ctx, app, metav1.GetOptions{})
		return err == nil && len(live.Status.Hard) > 0, err
	})
}
