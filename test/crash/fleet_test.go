package crash

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/types"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/queue"
	"sluice.dev/sluice/test/world"
)

// hub returns the hub of the fleet of one run. It permits each version that waits.
func (y *yard) hub(namespace string) *world.Hub {
	h := world.NewHub(func(ctx context.Context, name types.NamespacedName) error {
		return y.queue.PublishHint(ctx, queue.Key{Cluster: namespace, Namespace: name.Namespace, Name: name.Name})
	})
	h.PermitAll(types.NamespacedName{Namespace: namespace, Name: app})
	return h
}

// withdraw has the hub withdraw the second version, and waits until the cluster answers that nothing of it is left.
func (y *yard) withdraw(ctx context.Context, namespace string, hub *world.Hub) error {
	name := types.NamespacedName{Namespace: namespace, Name: app}
	r, err := hub.Await(ctx, name, func(r api.FleetReport) bool { return r.Epoch > 0 && len(r.Template.Keys()) > 0 })
	if err != nil {
		return err
	}
	if err := hub.Give(ctx, name, api.FleetPermit{Verb: api.FleetVerbWithdraw, Version: r.Template.Keys()[0]}); err != nil {
		return err
	}
	_, err = hub.Await(ctx, name, func(answer api.FleetReport) bool {
		return answer.Epoch > r.Epoch && answer.State == api.FleetReportCompleted
	})
	return err
}

// recall waits until all pods run the second version, and has the hub withdraw it.
func (y *yard) recall(ctx context.Context, namespace string, h *history, hub *world.Hub) error {
	completed := variant{y.style, permitted}
	if err := h.await(ctx, "the end of the release", completed.settled); err != nil {
		return err
	}
	if err := y.withdraw(ctx, namespace, hub); err != nil {
		return fmt.Errorf("withdraw the version: %w", err)
	}
	return nil
}
