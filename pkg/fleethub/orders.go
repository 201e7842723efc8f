package fleethub

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/nats-io/nkeys"
	"golang.org/x/sync/errgroup"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/fleet"
	"sluice.dev/sluice/pkg/fleetmessage"
	"sluice.dev/sluice/pkg/queue"
)

// orderNumber returns the number of the permit in an order, or the one that takes its place in the order of a deleted FleetRollout.
func orderNumber(o fleetmessage.Order) api.PermitNumber {
	if o.Permit == nil {
		return api.PermitNumber{Epoch: o.Deleted}
	}
	return o.Permit.Number()
}

// signingKey is a private key of the hub.
type signingKey struct {
	pair   nkeys.KeyPair
	public string
}

func (h *Hub) signingKeys() ([]signingKey, error) {
	pairs, err := h.Keys()
	if err != nil {
		return nil, err
	}
	var keys []signingKey
	for _, pair := range pairs {
		public, err := pair.PublicKey()
		if err != nil {
			return nil, fmt.Errorf("read the key of the hub: %w", err)
		}
		keys = append(keys, signingKey{pair, public})
	}
	if len(keys) == 0 {
		return nil, errors.New("the hub has no key")
	}
	return keys, nil
}

// lastOrder returns the last order that was published to a cluster about the Rollout that a FleetRollout governs.
func (h *Hub) lastOrder(member string, r *api.FleetRollout) (fleetmessage.Order, bool) {
	m, is := h.openOrder(member, r)
	return m.sent, is
}

func (h *Hub) openOrder(member string, r *api.FleetRollout) (openedMessage, bool) {
	subject := fleetmessage.OrderSubject(member, fleetmessage.Name{Namespace: r.Namespace, Name: r.Name})
	state := h.orders.Get(subject)
	if state.Seq == 0 {
		return openedMessage{}, false
	}
	keys, err := h.signingKeys()
	if err != nil {
		return openedMessage{}, false
	}
	var public []string
	for _, key := range keys {
		public = append(public, key.public)
	}
	opened, fresh := h.opened.open(subject, state, strings.Join(public, " "), func(int64) (openedMessage, error) {
		order, signer, err := fleetmessage.ReadOrder(state.Data, public)
		return openedMessage{sent: order, signer: signer}, err
	})
	if fresh && opened.err != nil {
		h.noteRefusal("order", member, opened.err)
	}
	return opened, opened.err == nil
}

// publishOrders publishes the orders of a FleetRollout that its clusters do not have.
func (h *Hub) publishOrders(ctx context.Context, r *api.FleetRollout, targets map[string]*api.FleetTarget) error {
	orders := map[string]fleetmessage.Order{}
	for cluster, t := range targets {
		permit := t.Spec.Permit
		orders[cluster] = fleetmessage.Order{Permit: &permit, Blocked: r.Status.Blocked}
	}
	return h.publishAll(ctx, r, orders)
}

// publishPermits publishes the permits that a decision has just written, so that their clusters do not wait for the writes of the next rounds. targets are as
// they were before.
func (h *Hub) publishPermits(ctx context.Context, r *api.FleetRollout, targets map[string]*api.FleetTarget, d fleet.Decision) error {
	orders := map[string]fleetmessage.Order{}
	for cluster, t := range d.Targets {
		if before := targets[cluster]; before == nil || before.Spec.Permit.Number() != t.Permit.Number() {
			orders[cluster] = fleetmessage.Order{Permit: &t.Permit, Blocked: d.Status.Blocked}
		}
	}
	if len(orders) == 0 {
		return nil
	}
	return h.publishAll(ctx, r, orders)
}

// publishAll publishes orders, by cluster, as far as they differ from the last ones.
func (h *Hub) publishAll(ctx context.Context, r *api.FleetRollout, orders map[string]fleetmessage.Order) error {
	keys, err := h.signingKeys()
	if err != nil {
		return err
	}
	writes, ctx := errgroup.WithContext(ctx)
	writes.SetLimit(writers)
	for _, cluster := range slices.Sorted(maps.Keys(orders)) {
		m, known := h.kube.FleetMember(cluster)
		if !known || m == nil || m.Status.UID == "" {
			continue // it has left, or nobody has heard it
		}
		order := orders[cluster]
		order.Hub, order.FleetRollout, order.UID = h.uid, governorOf(r), string(r.UID)
		order.Member, order.Rollout = fleetmessage.Member{Name: cluster, UID: m.Status.UID}, fleetmessage.Name{Namespace: r.Namespace, Name: r.Name}
		key := chooseKey(keys, h.beats.of(m).hubKeys)
		writes.Go(func() error { return h.publishOrder(ctx, r, order, key) })
	}
	return writes.Wait()
}

// chooseKey returns the first key that the cluster trusts; the last one for a cluster that has not said which.
func chooseKey(keys []signingKey, trusted []string) signingKey {
	for _, key := range keys {
		if slices.Contains(trusted, key.public) {
			return key
		}
	}
	return keys[len(keys)-1]
}

// publishOrder publishes an order in the place of the last one that this process knows, unless that says the same, or has a newer permit: then this process
// has seen an old state of the FleetRollout.
func (h *Hub) publishOrder(ctx context.Context, r *api.FleetRollout, order fleetmessage.Order, key signingKey) error {
	subject := fleetmessage.OrderSubject(order.Member.Name, order.Rollout)
	state := h.orders.Get(subject)
	if last, is := h.openOrder(order.Member.Name, r); is {
		if last.signer == key.public && reflect.DeepEqual(last.sent, order) || orderNumber(order).Before(orderNumber(last.sent)) {
			return nil
		}
	}
	message, err := order.Seal(key.pair)
	if err != nil {
		return err
	}
	if err := h.orders.Publish(ctx, subject, message, state.Seq); err != nil {
		return err
	}
	h.metrics.orders.Inc()
	h.Logger.Debug("published an order", "namespace", r.Namespace, "fleetrollout", r.Name, "member", order.Member.Name, "permit", order.Permit, "deleted", order.Deleted)
	return nil
}

// endFleet tells the clusters of a deleted FleetRollout to go no further, and then lets the API server remove it.
func (h *Hub) endFleet(ctx context.Context, r *api.FleetRollout) error {
	if !slices.Contains(r.Finalizers, api.FinalizerFleet) {
		return nil
	}
	targets, known := h.kube.FleetTargets(r, drawnClusters(r.Status))
	if !known {
		return queue.ErrFleetStale
	}
	if err := h.outbox.publishStates(ctx, r, targets); err != nil {
		return err
	}
	epoch := max(r.Status.Epoch+1, h.Clock().Unix())
	ended := map[string]bool{}
	orders := map[string]fleetmessage.Order{}
	for cluster := range targets {
		orders[cluster] = fleetmessage.Order{Blocked: r.Status.Blocked}
		if last, is := h.lastOrder(cluster, r); is {
			epoch, ended[cluster] = max(epoch, orderNumber(last).Epoch+1), last.UID == string(r.UID) && last.Deleted > 0
		}
	}
	for cluster, order := range orders {
		if ended[cluster] { // a run before this one has published it
			delete(orders, cluster)
			continue
		}
		order.Deleted = epoch
		orders[cluster] = order
	}
	if err := h.publishAll(ctx, r, orders); err != nil {
		return err
	}
	_, err := h.kube.SetFleetFinalizer(ctx, r, false)
	return err
}
