package crash

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"sluice.dev/sluice/pkg/analyzer"
	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/executor"
	"sluice.dev/sluice/pkg/kube"
	"sluice.dev/sluice/pkg/metric"
	"sluice.dev/sluice/pkg/queue"
	"sluice.dev/sluice/pkg/queue/embedded"
	"sluice.dev/sluice/pkg/script"
	"sluice.dev/sluice/pkg/watcher"
	"sluice.dev/sluice/test/world"
)

// supervisor runs components, and replaces each one that is lost.
type supervisor struct {
	*journal
	lateness  *lateness
	namespace string

	running sync.WaitGroup
	stop    context.CancelFunc

	mu     sync.Mutex
	errors []error
}

func newSupervisor(j *journal, namespace string) *supervisor {
	return &supervisor{journal: j, lateness: newLateness(), namespace: namespace}
}

// begin returns the context of the components, which run until end.
func (s *supervisor) beginAll(ctx context.Context) context.Context {
	ctx, s.stop = context.WithCancel(context.WithoutCancel(ctx))
	return ctx
}

// end stops all components and waits for them.
func (s *supervisor) end() error {
	s.stop()
	s.running.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	return errors.Join(s.errors...)
}

func (s *supervisor) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.errors = append(s.errors, err)
}

// crew has the components of one run: the watcher, the executors and, for a measured release, the analyzers. It begins
// with one of each.
type crew struct {
	*supervisor
	measures bool
	w        *world.World
	hub      *world.Hub
	scripts  *script.Library
	cluster  string
	// definition is the resource of Istio whose definition the watcher sees.
	definition string

	kubes []*kube.Client
}

// recorded waits until the Events of all executors are written. Executors write them in parallel with their runs.
func (c *crew) recorded() {
	c.mu.Lock()
	kubes := slices.Clone(c.kubes)
	c.mu.Unlock()
	for _, kube := range kubes {
		kube.FlushEvents()
	}
}

// start starts the watcher and the other components. They run until end.
func (c *crew) start(ctx context.Context) error {
	ctx = c.beginAll(ctx)
	if err := c.watch(ctx); err != nil {
		return err
	}
	if c.measures {
		if err := c.fill(ctx, c.analyzer()); err != nil {
			return err
		}
	}
	return c.fill(ctx, c.executor())
}

func wrapped(config *rest.Config, wrap func(http.RoundTripper) http.RoundTripper) *rest.Config {
	config.DisableCompression = true
	config.Wrap(wrap)
	return config
}

// addressOf returns the address of a server of NATS.
func addressOf(s *embedded.Server) string { return strings.TrimPrefix(s.URL(), "nats://") }

// options say how a component connects to NATS, apart from the URL.
func (c *crew) options(who string) queue.Options {
	return queue.Options{User: c.w.NATS.User(), Password: c.w.NATS.Password(), Name: who + " of " + c.cluster, Logger: c.w.Log}
}

func connect(ctx context.Context, o queue.Options, line *wire) (*queue.Queue, error) {
	o.URL = line.url()
	return queue.Connect(ctx, o)
}

func scriptConfigMap() types.NamespacedName {
	return types.NamespacedName{Namespace: api.ScriptNamespace, Name: api.ScriptConfigMap}
}

func (c *crew) watch(ctx context.Context) error {
	line, err := newWire(c.journal, c.lateness, wiring{server: addressOf(c.w.NATS), named: hinted}, nil)
	if err != nil {
		return err
	}
	q, err := connect(ctx, c.options("watcher"), line)
	if err != nil {
		return err
	}
	o := watcher.Options{
		ClusterName: c.cluster, Queue: q, ScriptConfigMap: scriptConfigMap(), Logger: c.w.Log,
		Config: wrapped(c.w.As(api.DefaultWatcher), func(next http.RoundTripper) http.RoundTripper {
			return &pilot{journal: c.journal, namespace: c.namespace, definition: c.definition, next: next}
		}),
	}
	if c.plan.way == dropped {
		o.Resync = resync // only a resync makes up for a frame that is lost for good
	}
	part, err := watcher.New(o)
	if err != nil {
		return err
	}
	c.running.Go(func() {
		defer line.close()
		defer q.Close()
		if err := part.Run(ctx); err != nil {
			c.fail(err)
		}
	})
	return nil
}

// post describes a component: its name, its identity, its connections, and its start.
type post struct {
	// who begins the kinds of its watch frames, prefix those of its writes.
	who, prefix string
	config      func() *rest.Config
	nats        queue.Options
	// queue is the connection to the NATS of its own cluster, up the one to the NATS of its hub, if it has one.
	queue wiring
	up    *wiring
	begin func(parts) (run func(context.Context) error, err error)
}

// parts is what a component begins with. hub is the URL of the NATS of its hub.
type parts struct {
	config *rest.Config
	queue  *queue.Queue
	hub    string
}

func (c *crew) executor() post {
	return post{who: "executor", config: func() *rest.Config { return c.w.As(api.DefaultExecutor) }, nats: c.options("executor"),
		queue: wiring{server: addressOf(c.w.NATS), named: published}, begin: func(p parts) (func(context.Context) error, error) {
			kube, err := kube.New(p.config, kube.Options{Scripts: c.scripts, ScriptConfigMap: scriptConfigMap(), Cluster: c.cluster, Logger: c.w.Log, Order: c.hub.Order})
			if err != nil {
				return nil, err
			}
			c.mu.Lock()
			c.kubes = append(c.kubes, kube)
			c.mu.Unlock()
			return executor.New(executor.Options{ClusterName: c.cluster, Kube: kube, Queue: p.queue, Workers: 2, Logger: c.w.Log, Fleet: c.hub}).Run, nil
		}}
}

func (c *crew) analyzer() post {
	return post{who: analyzing, prefix: analyzing + " ", config: func() *rest.Config { return c.w.As(api.DefaultAnalyzer) }, nats: c.options(analyzing),
		queue: wiring{server: addressOf(c.w.NATS), named: said(analyzing, stored)}, begin: func(p parts) (func(context.Context) error, error) {
			hosts, err := metric.ParseHosts([]string{"127.0.0.1"})
			if err != nil {
				return nil, err
			}
			kube, err := kube.NewAnalysisClient(p.config, kube.AnalysisOptions{Cluster: c.cluster, Logger: c.w.Log})
			if err != nil {
				return nil, err
			}
			client := metric.New(metric.Options{Hosts: hosts, Logger: c.w.Log})
			measure := analyzer.New(analyzer.Options{ClusterName: c.cluster, Kube: kube, Queue: p.queue, Metrics: client, Workers: 2, Logger: c.w.Log})
			return func(ctx context.Context) error {
				defer client.Close()
				return measure.Run(ctx)
			}, nil
		}}
}

// fill runs a component until ctx is done or the component is lost. Then it runs the next one.
func (s *supervisor) fill(ctx context.Context, p post) error {
	mine, stop := context.WithCancel(ctx)
	var lines []*wire
	breakOff := func() {
		for _, line := range lines {
			line.breakOff()
		}
	}
	dead, replaced := make(chan struct{}), sync.OnceFunc(func() {
		s.running.Go(func() {
			if err := s.fill(ctx, p); err != nil && ctx.Err() == nil {
				s.fail(err)
			}
		})
	})
	die := sync.OnceFunc(func() {
		close(dead)
		breakOff()
		stop()
		replaced()
	})
	wires := []wiring{p.queue}
	if p.up != nil {
		wires = append(wires, *p.up)
	}
	for _, w := range wires {
		line, err := newWire(s.journal, s.lateness, w, die)
		if err != nil {
			return err
		}
		lines = append(lines, line)
	}
	way := &mortal{journal: s.journal, who: p.who, prefix: p.prefix, namespace: s.namespace, dead: dead, die: die, lateness: s.lateness}
	way.partition = sync.OnceFunc(func() { breakOff(); replaced() })
	begun := parts{hub: lines[len(lines)-1].url()}
	begun.config = wrapped(p.config(), func(next http.RoundTripper) http.RoundTripper {
		mine := *way
		mine.next = next
		return &mine
	})
	var err error
	if begun.queue, err = connect(ctx, p.nats, lines[0]); err != nil {
		return err
	}
	run, err := p.begin(begun)
	if err != nil {
		return err
	}
	s.running.Go(func() {
		defer func() {
			for _, line := range lines {
				line.close()
			}
		}()
		defer context.AfterFunc(mine, func() {
			if way.isDead() {
				begun.queue.Close() // a lost component returns nothing in good order
			}
		})()
		defer begun.queue.Close()
		if err := run(mine); err != nil && !way.isDead() {
			s.fail(err)
		}
		stop()
	})
	return nil
}
