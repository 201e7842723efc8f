package router

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync"
	"time"
)

// Router forwards requests to the servers of its table.
type Router struct {
	log      *slog.Logger
	services map[string]http.Handler

	mu      sync.Mutex
	table   Table
	problem error
	since   time.Time
	changed chan struct{} // closed when the table changes
}

// New returns a router that refuses all requests until it has a table. services maps the name of each Service to the address of the local server that answers
// for its pods.
func New(services map[string]string, log *slog.Logger) *Router {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.Proxy, transport.MaxIdleConnsPerHost = nil, 256
	r := &Router{log: log, services: map[string]http.Handler{}, changed: make(chan struct{}), problem: fmt.Errorf("no VirtualService was seen yet")}
	for name, address := range services {
		target := &url.URL{Scheme: "http", Host: address}
		r.services[name] = &httputil.ReverseProxy{
			Rewrite:   func(p *httputil.ProxyRequest) { p.SetURL(target) },
			Transport: transport,
			ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
				http.Error(w, fmt.Sprintf("ask Service %s: %v", name, err), http.StatusBadGateway)
			},
		}
	}
	return r
}

// ServeHTTP forwards a request to the Service that the table and chance choose.
func (r *Router) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	table, problem := r.current()
	if problem != nil {
		http.Error(w, problem.Error(), http.StatusServiceUnavailable)
		return
	}
	chosen := table.Choose(request, rand.Float64())
	if chosen == "" {
		http.Error(w, "no rule of the VirtualService routes this request", http.StatusNotFound)
		return
	}
	service, ok := r.services[chosen]
	if !ok {
		http.Error(w, fmt.Sprintf("there is no Service %s", chosen), http.StatusServiceUnavailable)
		return
	}
	service.ServeHTTP(w, request)
}

func (r *Router) current() (Table, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.table, r.problem
}

// set replaces the table, or records why there is no table.
func (r *Router) set(t Table, problem error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if problem == nil && r.problem == nil && t.String() == r.table.String() {
		return // a change of annotations or labels is no change of the routing
	}
	r.table, r.problem, r.since = t, problem, time.Now()
	close(r.changed)
	r.changed = make(chan struct{})
	if problem != nil {
		r.log.Warn("requests are refused", "error", problem)
		return
	}
	r.log.Debug("the routing changed", "routes", t.String())
}

// Await returns the first table for which holds is true, and the time of its start.
func (r *Router) Await(ctx context.Context, holds func(Table) bool) (Table, time.Time, error) {
	for {
		r.mu.Lock()
		table, problem, since, changed := r.table, r.problem, r.since, r.changed
		r.mu.Unlock()
		if problem == nil && holds(table) {
			return table, since, nil
		}
		select {
		case <-ctx.Done():
			return table, since, fmt.Errorf("wait until the router routes otherwise than %q: %w", table, context.Cause(ctx))
		case <-changed:
		}
	}
}
