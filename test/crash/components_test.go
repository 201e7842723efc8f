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
	"sluice.dev/sluice/pkg/script"
	"sluice.dev/sluice/pkg/watcher"
	"sluice.dev/sluice/test/world"
)

// crew has the components of one run: the watcher, the executors and, for a measured release, the analyzers. It begins
// with one of each, and replaces each one that is lost.
type crew struct {
	*journal
	measures  bool
	w         *world.World
	hub       *world.Hub
	scripts   *script.Library
	namespace string
	cluster   string
	// definition is the resource of Istio whose definition the watcher sees.
	definition string
	// arrive is closed to let late requests arrive. late counts the requests on their way.
	arrive chan struct{}
	late   sync.WaitGroup

	running sync.WaitGroup
	stop    context.CancelFunc

	mu     sync.Mutex
	errors []error
	kubes  []*kube.Client
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
	ctx, c.stop = context.WithCancel(context.WithoutCancel(ctx))
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

// end stops all components and waits for them.
func (c *crew) end() error {
	c.stop()
	c.running.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	return errors.Join(c.errors...)
}

func (c *crew) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.errors = append(c.errors, err)
}

func (c *crew) config(account string, wrap func(http.RoundTripper) http.RoundTripper) *rest.Config {
	config := c.w.As(account)
	config.DisableCompression = true
	config.Wrap(wrap)
	return config
}

// server returns the address of NATS.
func (c *crew) server() string { return strings.TrimPrefix(c.w.NATS.URL(), "nats://") }

func (c *crew) connect(ctx context.Context, who string, line *wire) (*queue.Queue, error) {
	return queue.Connect(ctx, queue.Options{URL: line.url(), User: c.w.NATS.User(), Password: c.w.NATS.Password(), Name: who + " of " + c.cluster, Logger: c.w.Log})
}

func scriptConfigMap() types.NamespacedName {
	return types.NamespacedName{Namespace: api.ScriptNamespace, Name: api.ScriptConfigMap}
}

func (c *crew) watch(ctx context.Context) error {
	line, err := newWire(c.journal, c.server(), hinted, nil)
	if err != nil {
		return err
	}
	q, err := c.connect(ctx, "watcher", line)
	if err != nil {
		return err
	}
	o := watcher.Options{
		ClusterName: c.cluster, Queue: q, ScriptConfigMap: scriptConfigMap(), Logger: c.w.Log,
		Config: c.config(api.ServiceAccountWatcher, func(next http.RoundTripper) http.RoundTripper {
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

// post describes a component of a crew: its name, its service account, the names of its messages, and its start.
type post struct {
	who, account string
	named        func(subject string, body []byte) string
	begin        func(*rest.Config, *queue.Queue) (run func(context.Context) error, err error)
}

func (c *crew) executor() post {
	return post{who: "executor", account: api.ServiceAccountExecutor, named: published, begin: func(config *rest.Config, q *queue.Queue) (func(context.Context) error, error) {
		kube, err := kube.New(config, kube.Options{Scripts: c.scripts, ScriptConfigMap: scriptConfigMap(), Cluster: c.cluster, Logger: c.w.Log, Permits: c.hub.Message})
		if err != nil {
			return nil, err
		}
		c.mu.Lock()
		c.kubes = append(c.kubes, kube)
		c.mu.Unlock()
		return executor.New(executor.Options{ClusterName: c.cluster, Kube: kube, Queue: q, Workers: 2, Logger: c.w.Log, Report: c.hub.Receive}).Run, nil
	}}
}

func (c *crew) analyzer() post {
	return post{who: analyzing, account: api.ServiceAccountAnalyzer, named: analyzed, begin: func(config *rest.Config, q *queue.Queue) (func(context.Context) error, error) {
		hosts, err := metric.ParseHosts([]string{"127.0.0.1"})
		if err != nil {
			return nil, err
		}
		kube, err := kube.NewAnalysisClient(config, kube.AnalysisOptions{Cluster: c.cluster, Logger: c.w.Log})
		if err != nil {
			return nil, err
		}
		client := metric.New(metric.Options{Hosts: hosts, Logger: c.w.Log})
		measure := analyzer.New(analyzer.Options{ClusterName: c.cluster, Kube: kube, Queue: q, Metrics: client, Workers: 2, Logger: c.w.Log})
		return func(ctx context.Context) error {
			defer client.Close()
			return measure.Run(ctx)
		}, nil
	}}
}

// fill runs a component until ctx is done or the component is lost. Then it runs the next one.
func (c *crew) fill(ctx context.Context, p post) error {
	mine, stop := context.WithCancel(ctx)
	dead, replaced := make(chan struct{}), sync.OnceFunc(func() {
		c.running.Go(func() {
			if err := c.fill(ctx, p); err != nil && ctx.Err() == nil {
				c.fail(err)
			}
		})
	})
	var line *wire
	var q *queue.Queue
	die := sync.OnceFunc(func() {
		close(dead)
		line.breakOff()
		stop()
		replaced()
	})
	line, err := newWire(c.journal, c.server(), p.named, die)
	if err != nil {
		return err
	}
	way := &mortal{journal: c.journal, who: p.who, namespace: c.namespace, dead: dead, die: die, arrive: c.arrive, late: &c.late}
	way.partition = sync.OnceFunc(func() { line.breakOff(); replaced() })
	config := c.config(p.account, func(next http.RoundTripper) http.RoundTripper {
		mine := *way
		mine.next = next
		return &mine
	})
	if q, err = c.connect(ctx, p.who, line); err != nil {
		return err
	}
	run, err := p.begin(config, q)
	if err != nil {
		return err
	}
	c.running.Go(func() {
		defer line.close()
		defer context.AfterFunc(mine, func() {
			if way.isDead() {
				q.Close() // a lost component returns nothing in good order
			}
		})()
		defer q.Close()
		if err := run(mine); err != nil && !way.isDead() {
			c.fail(err)
		}
		stop()
	})
	return nil
}
