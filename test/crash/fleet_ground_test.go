package crash

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	luaconfiguration "sluice.dev/sluice/lua_configuration"
	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/queue/embedded"
	"sluice.dev/sluice/pkg/script"
	"sluice.dev/sluice/test/natsdir"
	"sluice.dev/sluice/test/world"
)

// plane is a cluster of all fleets, with the recorder of all of its objects.
type plane struct {
	*world.World
	name       string
	kubernetes kubernetes.Interface
	objects    dynamic.Interface
	witness    *witness
	// uid identifies the cluster in messages.
	uid string
}

// fleetGround has the servers of the runs with fleets: two control planes. The first one is the hub and a member. Each
// run has a NATS of its own, because a hub reads all messages of its streams.
type fleetGround struct {
	*endings
	*rooms
	eu1, eu2 *plane
	scripts  *script.Library
	dir      string
}

// planes returns the control planes, that of the hub first.
func (g *fleetGround) planes() []*plane { return []*plane{g.eu1, g.eu2} }

// newFleetGround starts the control planes. The caller must call stop.
func newFleetGround(ctx context.Context) (*fleetGround, error) {
	g := &fleetGround{scripts: script.NewLibrary(luaconfiguration.FS, ""), endings: &endings{}, rooms: newRooms(), eu1: &plane{name: "eu1"}, eu2: &plane{name: "eu2"}}
	ctx, cancel := context.WithTimeout(ctx, setUp)
	defer cancel()
	if err := g.start(ctx); err != nil {
		return nil, errors.Join(err, g.stop())
	}
	return g, nil
}

func (g *fleetGround) start(ctx context.Context) (err error) {
	if g.dir, err = os.MkdirTemp("", "sluice-fleets-"); err != nil {
		return err
	}
	g.inTheEnd(func() error { return natsdir.Remove(g.dir) })
	unused, err := embedded.Start(embedded.Options{Dir: filepath.Join(g.dir, "unused")}) // a world needs one
	if err != nil {
		return err
	}
	g.inTheEnd(func() error { unused.Close(); return nil })
	for _, p := range g.planes() {
		p.World, err = world.Start(ctx, filepath.Join(g.dir, p.name), world.Options{Name: p.name, NATS: unused, Unaudited: true, Nodes: size, PodsPerNode: room})
		if err != nil {
			return err
		}
		g.inTheEnd(p.Stop)
		if err := g.observe(ctx, p); err != nil {
			return fmt.Errorf("cluster %s: %w", p.name, err)
		}
	}
	return nil
}

// observe starts the recorder of a cluster, which runs until the ground stops.
func (g *fleetGround) observe(ctx context.Context, p *plane) (err error) {
	if p.kubernetes, err = kubernetes.NewForConfig(p.Config); err != nil {
		return err
	}
	if p.objects, err = dynamic.NewForConfig(p.Config); err != nil {
		return err
	}
	system, err := p.kubernetes.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
	if err != nil {
		return err
	}
	p.uid = string(system.UID)
	watching, stop := context.WithCancel(context.WithoutCancel(ctx))
	g.inTheEnd(func() error { stop(); return nil })
	var wait func()
	if p.witness, wait, err = startWitness(watching, p.objects, watchedInFleets()); err != nil {
		return err
	}
	g.inTheEnd(func() error { stop(); wait(); return nil })
	return nil
}

func watchedInFleets() []schema.GroupVersionResource {
	return []schema.GroupVersionResource{
		api.RolloutResource(), world.InPlace.Resource(), {Group: "apps", Version: "v1", Resource: "replicasets"}, {Version: "v1", Resource: "pods"},
		api.FleetRolloutResource(), api.FleetTargetResource(),
	}
}

// createNamespace creates the namespace of a run in all clusters.
func (g *fleetGround) createNamespace(ctx context.Context, name string) error {
	for _, p := range g.planes() {
		_, err := p.kubernetes.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		if err != nil {
			return fmt.Errorf("create the namespace in %s: %w", p.name, err)
		}
	}
	return nil
}
