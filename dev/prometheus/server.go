package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/config"
	"github.com/prometheus/prometheus/discovery"
	"github.com/prometheus/prometheus/scrape"
	"github.com/prometheus/prometheus/tsdb"
	"github.com/prometheus/prometheus/util/logging"
	"golang.org/x/sync/errgroup"
)

const (
	// noticed is the delay until a change of the targets file takes effect. Prometheus' own five seconds spare servers with thousands of targets.
	noticed = 20 * time.Millisecond
	// drain is the time that queries may continue after the signal to end.
	drain = 2 * time.Second
)

// server is one Prometheus.
type server struct {
	options   options
	log       *slog.Logger
	config    *config.Config
	registry  *prometheus.Registry
	storage   storage
	discovery *discovery.Manager
	scrape    *scrape.Manager
}

// run serves until ctx ends, and returns nil then. It stops everything that it started before it returns.
func run(ctx context.Context, opts options, log *slog.Logger, stdout io.Writer) error {
	began := time.Now()
	if err := os.MkdirAll(opts.dir, 0o700); err != nil {
		return fmt.Errorf("make the directory: %w", err)
	}
	s := &server{options: opts, log: log, registry: prometheus.NewRegistry()}
	if err := s.open(ctx); err != nil {
		return err
	}
	defer s.storage.Close()
	listener, err := net.Listen("tcp", opts.listen)
	if err != nil {
		return fmt.Errorf("listen for queries: %w", err)
	}
	address := "http://" + listener.Addr().String()
	web := &http.Server{Handler: s.api(address), ReadHeaderTimeout: 10 * time.Second}

	group, ctx := errgroup.WithContext(ctx)
	group.Go(s.discovery.Run)
	group.Go(func() error { return s.scrape.Run(s.discovery.SyncCh()) })
	group.Go(func() error { return serve(web, listener) })
	group.Go(func() error {
		<-ctx.Done()
		s.scrape.Stop()
		return shutdown(web)
	})
	line := announcement{Address: address, Targets: opts.targets, PID: os.Getpid(), StartedIn: time.Since(began).Round(time.Millisecond).String()}
	if err := json.NewEncoder(stdout).Encode(line); err != nil {
		group.Go(func() error { return fmt.Errorf("print where Prometheus is: %w", err) })
	}
	if err := group.Wait(); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// open creates the parts of the server; discovery ends with ctx.
func (s *server) open(ctx context.Context) error {
	var err error
	if s.config, err = scrapeConfig(s.options, s.log); err != nil {
		return err
	}
	if s.discovery, err = newDiscovery(ctx, s.log, s.registry); err != nil {
		return err
	}
	if s.storage, err = openStorage(filepath.Join(s.options.dir, "data"), s.log, s.registry); err != nil {
		return err
	}
	s.scrape, err = scrape.NewManager(&scrape.Options{
		DiscoveryReloadInterval:  model.Duration(noticed),
		DiscoveryReloadOnStartup: true,
	}, s.log, logging.NewJSONFileLogger, nil, s.storage, s.registry)
	if err == nil {
		err = s.scrape.ApplyConfig(s.config)
	}
	if err == nil {
		err = s.discovery.ApplyConfig(targetSets(s.config))
	}
	if err != nil {
		return errors.Join(fmt.Errorf("set up scraping: %w", err), s.storage.Close())
	}
	return nil
}

func newDiscovery(ctx context.Context, log *slog.Logger, registry *prometheus.Registry) (*discovery.Manager, error) {
	metrics, err := discovery.CreateAndRegisterSDMetrics(registry)
	if err != nil {
		return nil, fmt.Errorf("set up discovery: %w", err)
	}
	manager := discovery.NewManager(ctx, log, registry, metrics, discovery.Name("scrape"), discovery.Updatert(noticed))
	if manager == nil {
		return nil, errors.New("set up discovery: it logged why it did not start")
	}
	return manager, nil
}

func openStorage(dir string, log *slog.Logger, registry *prometheus.Registry) (storage, error) {
	settings := tsdb.DefaultOptions()
	settings.RetentionDuration = (24 * time.Hour).Milliseconds()
	stats := tsdb.NewDBStats()
	db, err := tsdb.Open(dir, log, registry, settings, stats)
	if err != nil {
		return storage{}, fmt.Errorf("open the data in %s: %w", dir, err)
	}
	return storage{DB: db, stats: stats}, nil
}

func serve(web *http.Server, listener net.Listener) error {
	if err := web.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("answer queries: %w", err)
	}
	return nil
}

func shutdown(web *http.Server) error {
	ctx, cancel := context.WithTimeout(context.Background(), drain)
	defer cancel()
	if err := web.Shutdown(ctx); err != nil {
		return web.Close()
	}
	return nil
}
