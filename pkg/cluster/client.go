package cluster

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	admissionclient "k8s.io/client-go/kubernetes/typed/admissionregistration/v1"
	appsclient "k8s.io/client-go/kubernetes/typed/apps/v1"
	coreclient "k8s.io/client-go/kubernetes/typed/core/v1"
	discoveryclient "k8s.io/client-go/kubernetes/typed/discovery/v1"
	eventsclient "k8s.io/client-go/kubernetes/typed/events/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/script"
)

// deadline bounds each call to the API server, retries that the server asked for included.
const deadline = 10 * time.Second

// Options say how a Client works; Scripts is required.
type Options struct {
	Scripts *script.Library
	// ScriptConfigMap holds scripts of users; with an empty name none is read.
	ScriptConfigMap types.NamespacedName
	// Cluster is the name of the cluster in logs.
	Cluster string
	// Logger is slog.Default() when nil.
	Logger *slog.Logger
}

// Client talks to one cluster. It is safe for concurrent use.
type Client struct {
	opts      Options
	log       *slog.Logger
	rollouts  rest.Interface
	apps      appsclient.AppsV1Interface
	core      coreclient.CoreV1Interface
	endpoints discoveryclient.DiscoveryV1Interface
	events    eventsclient.EventsV1Interface
	objects   dynamic.Interface
	metadata  metadata.Interface
	kinds     *kinds
	policies  *policies
}

// New makes a Client. Unless cfg sets limits, the client has none of its own: the API server's priority and fairness decides.
func New(cfg *rest.Config, opts Options) (*Client, error) {
	cfg = rest.CopyConfig(cfg)
	if cfg.QPS == 0 && cfg.RateLimiter == nil {
		cfg.QPS = -1
	}
	if cfg.UserAgent == "" {
		cfg.UserAgent = "sluice-executor"
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = deadline
	}
	if opts.Logger == nil {
		opts.Logger = slog.Default()
	}
	shared, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return nil, fmt.Errorf("make a client of the API server: %w", err)
	}
	c := &Client{opts: opts, log: opts.Logger.With("cluster", opts.Cluster)}
	if err := c.connect(cfg, shared); err != nil {
		return nil, fmt.Errorf("make a client of the API server: %w", err)
	}
	return c, nil
}

func (c *Client) connect(cfg *rest.Config, shared *http.Client) (err error) {
	if c.rollouts, err = rolloutClient(cfg, shared); err != nil {
		return err
	}
	if c.objects, err = dynamic.NewForConfigAndClient(cfg, shared); err != nil {
		return err
	}
	if c.metadata, err = metadata.NewForConfigAndClient(metadata.ConfigFor(cfg), shared); err != nil {
		return err
	}
	resources, err := discovery.NewDiscoveryClientForConfigAndClient(cfg, shared)
	if err != nil {
		return err
	}
	c.kinds = &kinds{discovery: resources, known: map[kind]resource{}}

	binary := rest.CopyConfig(cfg)
	binary.ContentType = runtime.ContentTypeProtobuf
	binary.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	if c.apps, err = appsclient.NewForConfigAndClient(binary, shared); err != nil {
		return err
	}
	if c.core, err = coreclient.NewForConfigAndClient(binary, shared); err != nil {
		return err
	}
	if c.endpoints, err = discoveryclient.NewForConfigAndClient(binary, shared); err != nil {
		return err
	}
	if c.events, err = eventsclient.NewForConfigAndClient(binary, shared); err != nil {
		return err
	}
	admission, err := admissionclient.NewForConfigAndClient(binary, shared)
	if err != nil {
		return err
	}
	c.policies = &policies{client: admission}
	return nil
}

func rolloutClient(cfg *rest.Config, shared *http.Client) (rest.Interface, error) {
	scheme := runtime.NewScheme()
	if err := api.AddToScheme(scheme); err != nil {
		return nil, err
	}
	cfg = rest.CopyConfig(cfg)
	version := api.GroupVersion()
	cfg.GroupVersion, cfg.APIPath = &version, "/apis"
	cfg.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	return rest.RESTClientForConfigAndClient(cfg, shared)
}

// within runs one call under the deadline.
func within[T any](ctx context.Context, call func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	return call(ctx)
}
