package main

import (
	"context"
	"net/http"
	"net/url"
	"runtime"
	"strings"
	"time"

	"github.com/grafana/regexp"
	"github.com/prometheus/common/route"
	"github.com/prometheus/prometheus/config"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/rules"
	"github.com/prometheus/prometheus/tsdb"
	"github.com/prometheus/prometheus/util/features"
	"github.com/prometheus/prometheus/util/notifications"
	v1 "github.com/prometheus/prometheus/web/api/v1"
)

const (
	prefix = "/api/v1"
	// These are Prometheus' own limits of a query.
	queryTimeout = 2 * time.Minute
	maxSamples   = 50_000_000
	lookback     = 5 * time.Minute
)

// api answers queries at address as Prometheus does.
func (s *server) api(address string) http.Handler {
	registry := features.NewRegistry()
	language := parser.NewParser(parser.Options{})
	engine := promql.NewEngine(promql.EngineOpts{
		Logger: s.log, Reg: s.registry, Parser: language, FeatureRegistry: registry,
		MaxSamples: maxSamples, Timeout: queryTimeout, LookbackDelta: lookback,
		NoStepSubqueryIntervalFn: func(int64) int64 { return s.options.interval.Milliseconds() },
		EnableAtModifier:         true, EnableNegativeOffset: true,
	})
	host := strings.TrimPrefix(address, "http://")
	noNotifications := func() []notifications.Notification { return nil }
	noSubscription := func() (<-chan notifications.Notification, func(), bool) { return nil, func() {}, false }
	noOrigin := regexp.MustCompile("^$") // pages of other origins may not read the measurements
	always := func(f http.HandlerFunc) http.HandlerFunc { return f }
	handler := v1.NewAPI(engine, s.storage, nil, nil, s.storage,
		func(context.Context) v1.ScrapePoolsRetriever { return s.scrape },
		func(context.Context) v1.TargetRetriever { return s.scrape },
		func(context.Context) v1.AlertmanagerRetriever { return nobody{} },
		func() config.Config { return *s.config }, map[string]string{},
		v1.GlobalURLOptions{ListenAddress: host, Host: host, Scheme: "http"}, always,
		s.storage, s.options.dir, false, false, 0, s.log,
		func(context.Context) v1.RulesRetriever { return nobody{} },
		0, 0, 0, false, noOrigin, runtimeInfo, &v1.PrometheusVersion{Version: version(), GoVersion: runtime.Version()},
		noNotifications, noSubscription, s.registry, s.registry, nil,
		false, nil, false, false, false, false, lookback, false, false, nil, registry,
		v1.OpenAPIOptions{ExternalURL: address, Version: version()}, language)
	router := route.New()
	handler.Register(router)
	mux := http.NewServeMux()
	mux.Handle(prefix+"/", http.StripPrefix(prefix, router))
	return mux
}

func runtimeInfo() (v1.RuntimeInfo, error) {
	return v1.RuntimeInfo{ServerTime: time.Now(), GoroutineCount: runtime.NumGoroutine(), GOMAXPROCS: runtime.GOMAXPROCS(0)}, nil
}

// The type has no rules and no alertmanagers.
type nobody struct{}

func (nobody) Alertmanagers() []*url.URL            { return nil }
func (nobody) DroppedAlertmanagers() []*url.URL     { return nil }
func (nobody) RuleGroups() []*rules.Group           { return nil }
func (nobody) AlertingRules() []*rules.AlertingRule { return nil }

// storage is the database with the interface of the HTTP API.
type storage struct {
	*tsdb.DB
	stats *tsdb.DBStats
}

func (s storage) Stats(label string, limit int) (*tsdb.Stats, error) {
	return s.Head().Stats(label, limit), nil
}

func (s storage) WALReplayStatus() (tsdb.WALReplayStatus, error) {
	return s.stats.Head.WALReplayStatus.GetWALReplayStatus(), nil
}

func (s storage) BlockMetas() ([]tsdb.BlockMeta, error) { return s.DB.BlockMetas(), nil }
