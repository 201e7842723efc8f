package crash

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	"github.com/nats-io/nkeys"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/executor"
	"sluice.dev/sluice/pkg/fleethub"
	"sluice.dev/sluice/pkg/fleetlink"
	"sluice.dev/sluice/pkg/fleetmessage"
	"sluice.dev/sluice/pkg/kube"
	"sluice.dev/sluice/pkg/queue"
	"sluice.dev/sluice/pkg/queue/embedded"
	"sluice.dev/sluice/pkg/watcher"
	"sluice.dev/sluice/test/natsdir"
)

// hubName begins the kinds of the acts of the hub, and is its name on NATS. The acts of a member begin with its name.
const hubName = "hub"

// fleetCrew has the components of one run with a fleet: an executor of the hub, and a watcher and an executor of each
// member. All use one server of NATS.
type fleetCrew struct {
	*supervisor
	ground  *fleetGround
	nats    *embedded.Server
	dir     string
	hubKey  nkeys.KeyPair
	members map[string]member
	// hubs has the first executor of the hub.
	hubs chan *fleethub.Hub
}

// member is a cluster of one run.
type member struct {
	*plane
	// as is the name of its FleetMember.
	as       string
	key      nkeys.KeyPair
	password string
}

// newFleetCrew starts the NATS of a run. The caller must call close.
func newFleetCrew(g *fleetGround, s *supervisor) (c *fleetCrew, err error) {
	c = &fleetCrew{supervisor: s, ground: g, dir: filepath.Join(g.dir, s.namespace), members: map[string]member{}, hubs: make(chan *fleethub.Hub, 1)}
	if c.hubKey, err = nkeys.CreateUser(); err != nil {
		return nil, err
	}
	passwords := map[string]string{}
	for _, p := range g.planes() {
		m := member{plane: p, as: p.name + "-" + s.namespace, password: "password of " + p.name}
		if m.key, err = nkeys.CreateUser(); err != nil {
			return nil, err
		}
		c.members[p.name], passwords[m.as] = m, m.password
	}
	c.nats, err = embedded.Start(embedded.Options{Dir: c.dir, Members: passwords})
	return c, err
}

func (c *fleetCrew) close() error {
	c.nats.Close()
	return natsdir.Remove(c.dir)
}

// options say how a component of a cluster connects to NATS, apart from the URL.
func (c *fleetCrew) options(who string) queue.Options {
	return queue.Options{User: c.nats.User(), Password: c.nats.Password(), Name: who + " of " + c.namespace, Logger: c.ground.eu1.Log}
}

// start starts the hub, and the members when the hub listens: a first heartbeat that the hub misses costs ten seconds.
func (c *fleetCrew) start(ctx context.Context) error {
	ctx = c.beginAll(ctx)
	if err := c.fill(ctx, c.hub()); err != nil {
		return err
	}
	for hub := <-c.hubs; hub.Ready() != nil; {
		time.Sleep(glance)
	}
	for _, m := range c.members {
		if err := c.watch(ctx, m); err != nil {
			return err
		}
		if err := c.fill(ctx, c.executor(m)); err != nil {
			return err
		}
	}
	return nil
}

func (c *fleetCrew) hub() post {
	return post{
		who: hubName, prefix: hubName + " ", nats: c.options(hubName), config: func() *rest.Config { return c.ground.eu1.As(api.DefaultExecutor) },
		queue: wiring{server: addressOf(c.nats), named: said(hubName, fleetPublished), heard: heardBy(hubName)},
		begin: func(p parts) (func(context.Context) error, error) {
			keys := func() ([]nkeys.KeyPair, error) { return []nkeys.KeyPair{c.hubKey}, nil }
			hub, err := fleethub.New(fleethub.Options{ClusterName: hubName, Config: p.config, Queue: p.queue, Workers: 2, Keys: keys, Logger: c.ground.eu1.Log})
			if err != nil {
				return nil, err
			}
			select {
			case c.hubs <- hub:
			default:
			}
			return hub.Run, nil
		},
	}
}

func (c *fleetCrew) executor(m member) post {
	return post{
		who: m.name, prefix: m.name + " ", nats: c.options(m.name), config: func() *rest.Config { return m.As(api.DefaultExecutor) },
		queue: wiring{server: addressOf(c.nats), named: said(m.name, published)},
		up:    &wiring{server: addressOf(c.nats), named: said(m.name, fleetPublished), heard: heardBy(m.name)},
		begin: func(p parts) (func(context.Context) error, error) {
			var link *fleetlink.Link
			kube, err := kube.New(p.config, kube.Options{Scripts: c.ground.scripts, ScriptConfigMap: scriptConfigMap(), Cluster: m.name, Logger: m.Log, Order: func(r *api.Rollout) (o kube.FleetOrder) {
				o.Generation = link.Generation(types.NamespacedName{Namespace: r.Namespace, Name: r.Name})
				o.Permit, o.Blocked, o.Refused = link.Order(r)
				return o
			}})
			if err != nil {
				return nil, err
			}
			link = fleetlink.New(fleetlink.Options{
				NATS: queue.Options{URL: p.hub, User: m.as, Password: m.password, Name: m.as, Logger: m.Log}, Member: fleetmessage.Member{Name: m.as, UID: m.uid}, Keys: c.keysOf(m),
				ClusterName: m.name, Publish: p.queue.PublishHint, Enforcement: kube.Enforcement, Logger: m.Log,
			})
			e := executor.New(executor.Options{ClusterName: m.name, Kube: kube, Queue: p.queue, Workers: 2, Logger: m.Log, Fleet: link})
			return func(ctx context.Context) error {
				both, ctx := errgroup.WithContext(ctx)
				both.Go(func() error { return link.Run(ctx) })
				both.Go(func() error { return e.Run(ctx) })
				return both.Wait()
			}, nil
		},
	}
}

// keysOf returns the keys of a member: its own one, and that of the hub.
func (c *fleetCrew) keysOf(m member) func() (nkeys.KeyPair, []string, error) {
	return func() (nkeys.KeyPair, []string, error) {
		public, err := c.hubKey.PublicKey()
		return m.key, []string{public}, err
	}
}

// watch starts the watcher of a member. It knows nothing of fleets, so none of its acts fails.
func (c *fleetCrew) watch(ctx context.Context, m member) error {
	o := c.options("watcher of " + m.name)
	o.URL = c.nats.URL()
	q, err := queue.Connect(ctx, o)
	if err != nil {
		return err
	}
	part, err := watcher.New(watcher.Options{
		ClusterName: m.name, Queue: q, ScriptConfigMap: scriptConfigMap(), Logger: m.Log,
		Config: wrapped(m.As(api.DefaultWatcher), func(next http.RoundTripper) http.RoundTripper { return &narrowed{c.namespace, next} }),
	})
	if err != nil {
		return err
	}
	c.running.Go(func() {
		defer q.Close()
		if err := part.Run(ctx); err != nil {
			c.fail(err)
		}
	})
	return nil
}

// narrowed is a transport that sees the objects of one run only.
type narrowed struct {
	namespace string
	next      http.RoundTripper
}

// WrappedRoundTripper lets client-go find the transport that can cancel a request.
func (n *narrowed) WrappedRoundTripper() http.RoundTripper { return n.next }

func (n *narrowed) RoundTrip(r *http.Request) (*http.Response, error) {
	return n.next.RoundTrip(scoped(r, n.namespace, "virtualservices"))
}

// fleetPublished returns the kind of a message between a hub and its members, without the sender.
func fleetPublished(subject string, body []byte) string {
	for prefix, kind := range map[string]string{
		"sluice.fleet.down.": publishing + "order", "sluice.fleet.up.": publishing + "answer", "sluice.fleet.beat.": publishing + "heartbeat",
		"sluice.fleet.work.": publishing + "hint", "sluice.fleet.timer.": publishing + "timer",
		"$JS.API.DIRECT.GET.SLUICE_FLEET_DOWN.": toNATS + "read order", "$JS.API.DIRECT.GET.SLUICE_FLEET_UP.": toNATS + "read answer",
	} {
		if strings.HasPrefix(subject, prefix) {
			return kind
		}
	}
	return published(subject, body)
}

// heardBy returns the kinds of the messages of a fleet that a component gets.
func heardBy(who string) func(subject string) string {
	return func(subject string) string {
		for prefix, what := range map[string]string{"sluice.fleet.down.": "orders", "sluice.fleet.up.": "answers", "sluice.fleet.beat.": "heartbeats"} {
			if strings.HasPrefix(subject, prefix) && (who != hubName || what != "orders") {
				return who + watches + what
			}
		}
		return ""
	}
}

// manifestOf returns the FleetMember of a cluster.
func (c *fleetCrew) manifestOf(m member, tier string) (string, error) {
	public, err := m.key.PublicKey()
	return fmt.Sprintf("{apiVersion: sluice.dev/v1alpha1, kind: FleetMember, metadata: {name: %s, labels: {%s: %s, tier: %s}}, spec: {key: %s}}", m.as, labelRun, c.namespace, tier, public), err
}
