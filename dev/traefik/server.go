package main

import (
	"context"
	"fmt"
	"os"
	"time"

	ptypes "github.com/traefik/paerser/types"
	"github.com/traefik/traefik/v3/pkg/config/dynamic"
	"github.com/traefik/traefik/v3/pkg/config/runtime"
	"github.com/traefik/traefik/v3/pkg/config/static"
	"github.com/traefik/traefik/v3/pkg/observability/metrics"
	"github.com/traefik/traefik/v3/pkg/provider/aggregator"
	"github.com/traefik/traefik/v3/pkg/provider/kubernetes/crd"
	"github.com/traefik/traefik/v3/pkg/provider/kubernetes/gateway"
	ingressnginx "github.com/traefik/traefik/v3/pkg/provider/kubernetes/ingress-nginx"
	"github.com/traefik/traefik/v3/pkg/provider/traefik"
	"github.com/traefik/traefik/v3/pkg/proxy/httputil"
	"github.com/traefik/traefik/v3/pkg/safe"
	"github.com/traefik/traefik/v3/pkg/server"
	"github.com/traefik/traefik/v3/pkg/server/middleware"
	"github.com/traefik/traefik/v3/pkg/server/service"
	"github.com/traefik/traefik/v3/pkg/tcp"
	traefiktls "github.com/traefik/traefik/v3/pkg/tls"
)

// entryPoint is the only entry point; Gateways refer to it by its port.
const entryPoint = "web"

// configure returns the defaults of Traefik's own command line.
func configure(opts options) (*static.Configuration, error) {
	point := &static.EntryPoint{Address: opts.listen}
	point.SetDefaults()
	c := &static.Configuration{
		Global:              &static.Global{},
		EntryPoints:         static.EntryPoints{entryPoint: point},
		Providers:           &static.Providers{ProvidersThrottleDuration: ptypes.Duration(2 * time.Second)},
		ServersTransport:    &static.ServersTransport{MaxIdleConnsPerHost: 200},
		TCPServersTransport: &static.TCPServersTransport{DialTimeout: ptypes.Duration(30 * time.Second), DialKeepAlive: ptypes.Duration(15 * time.Second)},
	}
	for _, provider := range opts.providers {
		switch provider {
		case "gateway":
			c.Providers.KubernetesGateway = &gateway.Provider{Namespaces: []string{opts.namespace}, ExperimentalChannel: opts.experimental}
		case "crd":
			c.Providers.KubernetesCRD = &crd.Provider{Namespaces: []string{opts.namespace}}
		case "ingress-nginx":
			c.Providers.KubernetesIngressNGINX = &ingressnginx.Provider{}
			c.Providers.KubernetesIngressNGINX.SetDefaults()
			c.Providers.KubernetesIngressNGINX.WatchNamespace = opts.namespace
		default:
			return nil, fmt.Errorf("there is no provider %q", provider)
		}
	}
	c.SetEffectiveConfiguration()
	return c, c.ValidateConfiguration()
}

// run serves until ctx ends.
func run(ctx context.Context, opts options) error {
	// The providers find the API server by this variable, as they do outside of a cluster.
	if err := os.Setenv("KUBECONFIG", opts.kubeconfig); err != nil {
		return err
	}
	config, err := configure(opts)
	if err != nil {
		return fmt.Errorf("configure: %w", err)
	}
	s, err := assemble(ctx, config)
	if err != nil {
		return err
	}
	s.Start(ctx)
	defer s.Close()
	s.Wait()
	return nil
}

func assemble(ctx context.Context, config *static.Configuration) (*server.Server, error) {
	providers := aggregator.NewProviderAggregator(*config.Providers)
	if err := providers.AddProvider(traefik.New(*config)); err != nil {
		return nil, fmt.Errorf("add the internal provider: %w", err)
	}
	pool := safe.NewPool(ctx)
	certificates := traefiktls.NewManager(config.OCSP)
	registry := metrics.NewVoidRegistry()
	observability := middleware.NewObservabilityMgr(*config, registry, nil, nil, nil, nil)
	points, err := server.NewTCPEntryPoints(config.EntryPoints, config.HostResolver, registry)
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	transports, dialers := service.NewTransportManager(nil), tcp.NewDialerManager(nil)
	proxies := httputil.NewProxyBuilder(transports, nil)
	managers := service.NewManagerFactory(*config, pool, observability, transports, proxies, nil, certificates)
	routers, err := server.NewRouterFactory(*config, managers, certificates, observability, nil, dialers)
	if err != nil {
		return nil, fmt.Errorf("make the routers: %w", err)
	}
	watcher := server.NewConfigurationWatcher(pool, providers, []string{entryPoint}, "internal")
	watcher.AddListener(func(c dynamic.Configuration) {
		certificates.UpdateConfigs(ctx, c.TLS.Stores, c.TLS.Options, c.TLS.Certificates)
		transports.Update(c.HTTP.ServersTransports)
		proxies.Update(c.HTTP.ServersTransports)
		dialers.Update(c.TCP.ServersTransports)
		made, _ := routers.CreateRouters(runtime.NewConfig(c))
		points.Switch(made)
	})
	return server.NewServer(pool, points, server.UDPEntryPoints{}, watcher, observability), nil
}
