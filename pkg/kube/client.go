package kube

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	admissionclient "k8s.io/client-go/kubernetes/typed/admissionregistration/v1"
	appsclient "k8s.io/client-go/kubernetes/typed/apps/v1"
	coreclient "k8s.io/client-go/kubernetes/typed/core/v1"
	discoveryclient "k8s.io/client-go/kubernetes/typed/discovery/v1"
	eventsclient "k8s.io/client-go/kubernetes/typed/events/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/utils/lru"

	"sluice.dev/sluice/pkg/analysis"
	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/kube/apiclient"
	"sluice.dev/sluice/pkg/kube/policies"
	"sluice.dev/sluice/pkg/script"
	"sluice.dev/sluice/pkg/workload/kinds"
)

// Options configure a Client; Scripts is required.
type Options struct {
	Scripts *script.Library
	// ScriptConfigMap is the ConfigMap with the scripts of users. With an empty name the client reads none.
	ScriptConfigMap types.NamespacedName
	// Order returns what the hub of a fleet has told this cluster last about a Rollout that a FleetRollout governs; nil for a cluster without a hub.
	Order func(*api.Rollout) FleetOrder
	// Installation is where Sluice is installed; the zero value is the default installation.
	Installation api.Installation
	// IgnoreFleets observes Rollouts as if they belonged to no fleet, for a simulation.
	IgnoreFleets bool
	// Cluster is the name of the cluster in logs.
	Cluster string
	// Logger is slog.Default() when nil.
	Logger *slog.Logger
}

// FleetOrder is what the hub of a fleet tells a cluster about one Rollout, verified.
type FleetOrder struct {
	// Permit is nil if the hub has given none.
	Permit *api.FleetPermit
	// Blocked are the versions that the hub has withdrawn or unblocked.
	Blocked []api.FleetBlock
	// Refused is why the last message of the hub counts for nothing, "" if it counts.
	Refused string
	// Generation counts the answers of other processes of this cluster that this process knew when it gave the order.
	Generation int64
}

// Client talks to one cluster. It is safe for concurrent use.
type Client struct {
	apiClients
	opts            Options
	log             *slog.Logger
	kinds           *apiclient.Discovery
	installCheckers map[string]*policies.Checker // by the family that the policies hold
	// watchClients are clients without a deadline, for watches.
	watchClients  apiClients
	informers     *informers
	changes       *changeTracker
	liveReads     liveReads
	podLabels     podLabelCache
	idleWorkloads idleCache
	shapes        *specShapes
	readCounts    readCounts
	renderings    *lru.Cache
	metricParser  analysis.Parser
	// analysisProblems are the problems with the analyses of Rollouts.
	analysisProblems *lru.Cache
	// autoscalers are lists of autoscalers, by autoscalerListKey.
	autoscalers *cache.LRUExpireCache
	// needs are the objects that the stable pods need, by needKey.
	needs *cache.LRUExpireCache
	// clusterScoped has the cluster-scoped kinds, under one key.
	clusterScoped *cache.LRUExpireCache
	// policyKinds are the served kinds of policies. uncopiedPolicies are lists of policies that a release does not
	// copy, by policiesKey.
	policyKinds      policyResources
	uncopiedPolicies *cache.LRUExpireCache
	serverErrors     serverErrors
	eventWriter      *eventWriter
}

// apiClients are the clients of the APIs that package kube uses.
type apiClients struct {
	rollouts        rest.Interface
	templates       rest.Interface
	trafficRoutings rest.Interface
	apps            appsclient.AppsV1Interface
	core            coreclient.CoreV1Interface
	endpoints       discoveryclient.DiscoveryV1Interface
	events          eventsclient.EventsV1Interface
	objects         dynamic.Interface
	metadata        metadata.Interface
	admission       admissionclient.AdmissionregistrationV1Interface
	discovery       discovery.DiscoveryInterfaceWithContext
}

// New returns a Client. Unless cfg sets a rate limit, the client has none: the API server's priority and fairness
// decides.
func New(cfg *rest.Config, opts Options) (*Client, error) {
	cfg = rest.CopyConfig(cfg)
	if cfg.QPS == 0 && cfg.RateLimiter == nil {
		cfg.QPS = -1
	}
	if cfg.UserAgent == "" {
		cfg.UserAgent = "sluice-executor"
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = apiclient.CallDeadline
	}
	if opts.Order == nil {
		opts.Order = func(*api.Rollout) FleetOrder {
			return FleetOrder{Refused: "the executors of this cluster have no hub: start them with --fleet-member"}
		}
	}
	if opts.Logger == nil {
		opts.Logger = slog.Default()
	}
	if opts.Installation == (api.Installation{}) {
		opts.Installation = api.DefaultInstallation()
	}
	shared, err := apiclient.NewHTTPClient(cfg)
	if err != nil {
		return nil, fmt.Errorf("make a client of the API server: %w", err)
	}
	c := &Client{opts: opts, log: opts.Logger.With("cluster", opts.Cluster), changes: newChangeTracker(), shapes: newSpecShapes(), renderings: lru.New(maxRenderings), analysisProblems: lru.New(maxTracked),
		autoscalers: cache.NewLRUExpireCache(maxTracked), clusterScoped: cache.NewLRUExpireCache(1), needs: cache.NewLRUExpireCache(maxTracked), uncopiedPolicies: cache.NewLRUExpireCache(maxTracked)}
	if c.apiClients, err = connectClients(cfg, shared); err == nil {
		c.watchClients, err = connectClients(cfg, &http.Client{Transport: shared.Transport})
	}
	if err != nil {
		return nil, fmt.Errorf("make a client of the API server: %w", err)
	}
	c.eventWriter = newEventWriter(c.events, c.log)
	c.kinds = apiclient.NewDiscovery(c.discovery)
	c.installCheckers = map[string]*policies.Checker{}
	for _, family := range kinds.Families() {
		c.installCheckers[family] = policies.NewChecker(c.admission, family, opts.Installation)
	}
	if c.informers, err = c.newInformers(); err != nil {
		return nil, fmt.Errorf("make the watches of a client: %w", err)
	}
	return c, nil
}

// Enforcement says what holds changes of all kinds of workloads in the cluster.
func (c *Client) Enforcement(ctx context.Context) api.FleetEnforcement {
	found := api.FleetEnforcementPolicy
	for _, checker := range c.installCheckers {
		switch {
		case checker.FindProblem(ctx) != nil:
			return api.FleetEnforcementNone
		case checker.ByWebhook():
			found = api.FleetEnforcementWebhook
		}
	}
	return found
}

func connectClients(cfg *rest.Config, by *http.Client) (c apiClients, err error) {
	if c.rollouts, err = groupClient(cfg, by, api.GroupVersion()); err != nil {
		return c, err
	}
	if c.trafficRoutings, err = groupClient(cfg, by, api.TrafficRoutingResource().GroupVersion()); err != nil {
		return c, err
	}
	if c.templates, err = groupClient(cfg, by, api.AnalysisTemplateResource().GroupVersion()); err != nil {
		return c, err
	}
	if c.objects, err = dynamic.NewForConfigAndClient(cfg, by); err != nil {
		return c, err
	}
	if c.metadata, err = metadata.NewForConfigAndClient(metadata.ConfigFor(cfg), by); err != nil {
		return c, err
	}
	if c.discovery, err = discovery.NewDiscoveryClientForConfigAndClient(cfg, by); err != nil {
		return c, err
	}
	binary := rest.CopyConfig(cfg)
	binary.ContentType = runtime.ContentTypeProtobuf
	binary.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	if c.apps, err = appsclient.NewForConfigAndClient(binary, by); err != nil {
		return c, err
	}
	if c.core, err = coreclient.NewForConfigAndClient(binary, by); err != nil {
		return c, err
	}
	if c.endpoints, err = discoveryclient.NewForConfigAndClient(binary, by); err != nil {
		return c, err
	}
	if c.events, err = eventsclient.NewForConfigAndClient(binary, by); err != nil {
		return c, err
	}
	c.admission, err = admissionclient.NewForConfigAndClient(binary, by)
	return c, err
}

// groupClient returns a client for one version of the Sluice API.
func groupClient(cfg *rest.Config, shared *http.Client, version schema.GroupVersion) (rest.Interface, error) {
	scheme := runtime.NewScheme()
	if err := api.AddToScheme(scheme); err != nil {
		return nil, err
	}
	cfg = rest.CopyConfig(cfg)
	cfg.GroupVersion, cfg.APIPath = &version, "/apis"
	cfg.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	return rest.RESTClientForConfigAndClient(cfg, shared)
}
