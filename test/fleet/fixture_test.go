package fleet

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nkeys"
	"golang.org/x/sync/errgroup"

	"sluice.dev/sluice/pkg/fleetlink"
	"sluice.dev/sluice/pkg/fleetmessage"
	"sluice.dev/sluice/pkg/queue"
	"sluice.dev/sluice/pkg/queue/embedded"
	"sluice.dev/sluice/test/natsdir"
	"sluice.dev/sluice/test/proxy"
	"sluice.dev/sluice/test/world"
)

// fleet is a hub with two executors, and its members.
type fleet struct {
	dir     string
	hub     *world.World
	nats    *embedded.Server
	mu      sync.Mutex // guards key, which links read
	key     nkeys.KeyPair
	members map[string]*member
	// stopHub ends the executors of the hub, and endHub all of the hub.
	stopHub, endHub func()
	stops           []func()
}

// member is a cluster of a fleet.
type member struct {
	*world.World
	name, password string
	key            nkeys.KeyPair
	proxy          *proxy.Proxy
	// stopExecutor ends the executor of the cluster.
	stopExecutor func()
	// ahead is how far the clock of the cluster is ahead.
	ahead atomic.Int64
}

// clusters are the members of the shared fleet with their labels.
var clusters = map[string]string{"eu1": "tier: canary, cluster: eu1", "eu2": "tier: prod, cluster: eu2", "eu3": "tier: prod, cluster: eu3"}

var shared struct {
	once  sync.Once
	fleet *fleet
	err   error
}

// sharedFleet returns the fleet of all stories.
func sharedFleet(t *testing.T) *fleet {
	t.Helper()
	if testing.Short() {
		t.Skip("it needs control planes, which -short leaves out")
	}
	shared.once.Do(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
		defer cancel()
		shared.fleet = &fleet{members: map[string]*member{}}
		shared.err = startFleet(ctx, shared.fleet)
	})
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return shared.fleet
}

func stopShared() {
	if shared.fleet != nil {
		shared.fleet.stop()
	}
}

func (f *fleet) stop() {
	for _, stop := range slices.Backward(f.stops) {
		stop()
	}
}

// startFleet starts a hub and its members, with a watcher and an executor in each.
func startFleet(ctx context.Context, f *fleet) error {
	dir, err := os.MkdirTemp("", "sluice-fleet-")
	if err != nil {
		return err
	}
	f.dir = dir
	f.stops = append(f.stops, func() { _ = natsdir.Remove(dir) })
	for name := range clusters {
		m := &member{name: name, password: "password-of-" + name}
		if m.key, err = nkeys.CreateUser(); err != nil {
			return err
		}
		f.members[name] = m
	}
	var starting errgroup.Group
	starting.Go(func() error { return f.startHub(ctx, "hub") })
	for _, m := range f.members {
		starting.Go(func() (err error) {
			m.World, err = world.Start(ctx, filepath.Join(dir, m.name), world.Options{Name: m.name})
			return err
		})
	}
	err = starting.Wait()
	f.stops = append(f.stops, func() {
		if f.endHub != nil {
			f.endHub()
		}
	})
	for _, m := range f.members {
		if m.World != nil {
			f.stops = append(f.stops, func() { m.NATS.Close(); _ = m.Stop() })
		}
	}
	if err != nil {
		return err
	}
	for _, m := range f.members {
		if err := f.join(ctx, m); err != nil {
			return err
		}
	}
	return nil
}

// startHub starts a control plane and a NATS with the executors of a hub, which has a key of its own.
func (f *fleet) startHub(ctx context.Context, name string) error {
	passwords := map[string]string{}
	for name, m := range f.members {
		passwords[name] = m.password
	}
	key, err := nkeys.CreateUser()
	if err != nil {
		return err
	}
	server, err := embedded.Start(embedded.Options{Dir: filepath.Join(f.dir, name+"-nats"), Members: passwords})
	if err != nil {
		return err
	}
	w, err := world.Start(ctx, filepath.Join(f.dir, name), world.Options{Name: name, NATS: server})
	if err != nil {
		server.Close()
		return err
	}
	f.mu.Lock()
	f.key = key
	f.mu.Unlock()
	f.nats, f.hub = server, w
	if err := f.runHub(ctx); err != nil {
		return errors.Join(err, w.Stop())
	}
	f.endHub = sync.OnceFunc(func() { f.stopHub(); server.Close(); _ = w.Stop() })
	return nil
}

// runHub starts two executors of the hub.
func (f *fleet) runHub(ctx context.Context) error {
	key := f.key
	keys := func() ([]nkeys.KeyPair, error) { return []nkeys.KeyPair{key}, nil }
	first, err := f.hub.RunHub(context.WithoutCancel(ctx), keys)
	if err != nil {
		return err
	}
	second, err := f.hub.RunHub(context.WithoutCancel(ctx), keys)
	if err != nil {
		first()
		return err
	}
	f.stopHub = sync.OnceFunc(func() { first(); second() })
	return nil
}

// join makes a cluster a member, and starts its parts.
func (f *fleet) join(ctx context.Context, m *member) error {
	var err error
	if m.proxy, err = proxy.New(); err != nil {
		return err
	}
	f.stops = append(f.stops, m.proxy.Close)
	if err := m.proxy.LeadTo(f.nats.URL()); err != nil {
		return err
	}
	m.Member, m.Clock = f.linkOf(m, m.proxy.URL()), func() time.Time { return time.Now().Add(time.Duration(m.ahead.Load())) }
	if err := f.enter(ctx, m); err != nil {
		return err
	}
	stop, err := m.RunWatcher(context.WithoutCancel(ctx))
	if err != nil {
		return err
	}
	f.stops = append(f.stops, stop)
	if err := m.runExecutor(ctx); err != nil {
		return err
	}
	f.stops = append(f.stops, func() { m.stopExecutor() })
	return nil
}

// runExecutor starts an executor of the cluster.
func (m *member) runExecutor(ctx context.Context) (err error) {
	m.stopExecutor, err = m.Executor(context.WithoutCancel(ctx))
	return err
}

// linkOf configures the link of a cluster to the hub, at an address of the hub's NATS.
func (f *fleet) linkOf(m *member, url string) *fleetlink.Options {
	return &fleetlink.Options{
		NATS:   queue.Options{URL: url, User: m.name, Password: m.password, Name: "member " + m.name, Logger: m.Log},
		Member: fleetmessage.Member{Name: m.name},
		Keys: func() (nkeys.KeyPair, []string, error) {
			public, err := f.trusted()
			return m.key, public, err
		},
	}
}

// trusted returns the public keys of the hub.
func (f *fleet) trusted() ([]string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	public, err := f.key.PublicKey()
	return []string{public}, err
}

// enter creates the FleetMember of a cluster.
func (f *fleet) enter(ctx context.Context, m *member) error {
	public, err := m.key.PublicKey()
	if err != nil {
		return err
	}
	manifest := fmt.Sprintf("apiVersion: sluice.dev/v1alpha1\nkind: FleetMember\nmetadata: {name: %s, labels: {%s}}\nspec: {key: %s}\n", m.name, clusters[m.name], public)
	_, err = f.hub.KubectlStdin(ctx, manifest, "apply", "-f", "-")
	return err
}
