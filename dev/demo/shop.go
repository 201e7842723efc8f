package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/dynamic"

	"sluice.dev/sluice/dev/demo/app"
	"sluice.dev/sluice/dev/demo/load"
	"sluice.dev/sluice/dev/demo/router"
	"sluice.dev/sluice/test/prometheus"
)

const (
	namespace = "default"
	// stableService is also the name of the Deployment, the VirtualService and the Rollout.
	stableService, canaryService = "shop", "shop-canary"

	rate, users = 400, 2000
)

// versions returns the behaviours of the images in the second act. Each good version is slightly better than the version before.
func versions() map[string]app.Version {
	const takes = 4 * time.Millisecond
	return map[string]app.Version{
		"shop:v1": {Name: "v1", FailEvery: 250, Takes: takes},
		"shop:v2": {Name: "v2", FailEvery: 1000, Takes: takes},
		"shop:v3": {Name: "v3", FailEvery: 20, Takes: takes},
		"shop:v4": {Name: "v4", Takes: takes},
	}
}

// shop holds the parts of the second act outside of the cluster: the servers for real requests, and Prometheus.
type shop struct {
	*show
	catalogue      map[string]app.Version
	rate           int
	ledger         app.Ledger
	stable, canary *app.Server
	router         *router.Router
	web            *http.Server
	url            string
	prometheus     *prometheus.Server

	stopUsers context.CancelFunc
	users     sync.WaitGroup
	sent      load.Result // set after the users have stopped

	stopOthers context.CancelFunc
	others     *errgroup.Group
}

// openShop starts everything except the users. The catalogue has the behaviours of the images. The caller must close the shop, also after an error.
func openShop(ctx context.Context, s *show, catalogue map[string]app.Version, rate int) (*shop, error) {
	p := &shop{show: s, catalogue: catalogue, rate: rate, stopUsers: func() {}}
	others, stop := context.WithCancel(context.WithoutCancel(ctx))
	p.stopOthers = stop
	p.others, others = errgroup.WithContext(others)
	var err error
	if p.stable, err = app.Start(&p.ledger); err != nil {
		return p, err
	}
	if p.canary, err = app.Start(&p.ledger); err != nil {
		return p, err
	}
	client, err := dynamic.NewForConfig(s.cluster.Config)
	if err != nil {
		return p, fmt.Errorf("make client: %w", err)
	}
	p.router = router.New(map[string]string{stableService: p.stable.Address(), canaryService: p.canary.Address()}, slog.New(slog.DiscardHandler))
	p.others.Go(func() error { return p.router.Follow(others, client, namespace, stableService) })
	p.others.Go(func() error { return p.followPods(others, client) })
	if err := p.serve(); err != nil {
		return p, err
	}
	if p.prometheus, err = prometheus.Start(ctx, prometheus.Options{Dir: s.dir + "/prometheus", Interval: time.Second}); err != nil {
		return p, err
	}
	return p, p.prometheus.Scrape(
		prometheus.Target{Address: p.stable.Address(), Labels: map[string]string{"job": "shop", "service": stableService}},
		prometheus.Target{Address: p.canary.Address(), Labels: map[string]string{"job": "shop", "service": canaryService}})
}

// serve starts the listener of the router.
func (p *shop) serve() error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listen as the router: %w", err)
	}
	p.url = "http://" + listener.Addr().String() + "/"
	p.web = &http.Server{Handler: p.router, ReadHeaderTimeout: 10 * time.Second, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)}
	p.others.Go(func() error {
		if err := p.web.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("serve as the router: %w", err)
		}
		return nil
	})
	return nil
}

// open lets users send requests until closeDoors.
func (p *shop) open(ctx context.Context) {
	ctx, p.stopUsers = context.WithCancel(ctx)
	p.users.Go(func() { p.sent = load.Run(ctx, load.Options{URL: p.url, Rate: p.rate, Users: users}) })
}

// closeDoors stops the users and returns the results of their requests.
func (p *shop) closeDoors() load.Result {
	p.stopUsers()
	p.users.Wait()
	return p.sent
}

// close stops everything.
func (p *shop) close() error {
	p.closeDoors()
	var errs []error
	if p.web != nil {
		errs = append(errs, p.web.Close())
	}
	p.stopOthers()
	errs = append(errs, p.others.Wait())
	for _, server := range []*app.Server{p.stable, p.canary} {
		if server != nil {
			errs = append(errs, server.Stop())
		}
	}
	if p.prometheus != nil {
		errs = append(errs, p.prometheus.Stop())
	}
	return errors.Join(errs...)
}
