package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// provider answers instant queries like a Prometheus in which every query has the value 1. It records the arrival and the time of each query. The difference is
// the lateness of the measurement, independent of the metrics of the analyzer.
type provider struct {
	web   *http.Server
	ended chan error

	mu sync.Mutex
	// times counts each query by its text, and reached holds how many queries have at least each count.
	times   map[string]int
	reached map[int]int
	// late holds the lateness of each query since the last take, and odd the number of queries with an unreadable time.
	late []time.Duration
	odd  int
}

// startProvider listens on a free port of this machine. The caller must stop it.
func startProvider() (p *provider, address string, err error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, "", fmt.Errorf("listen as a provider of metrics: %w", err)
	}
	p = &provider{ended: make(chan error, 1), times: map[string]int{}, reached: map[int]int{}}
	p.web = &http.Server{Handler: p, ReadHeaderTimeout: 10 * time.Second}
	go func() { p.ended <- p.web.Serve(listener) }()
	return p, "http://" + listener.Addr().String(), nil
}

func (p *provider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	now := time.Now()
	at, err := queryTime(r.FormValue("time"))
	query := r.FormValue("query")
	p.mu.Lock()
	p.times[query]++
	p.reached[p.times[query]]++
	if err != nil {
		p.odd++
	} else {
		p.late = append(p.late, now.Sub(at))
	}
	p.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, `{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[`+
		strconv.FormatFloat(float64(at.UnixMilli())/1000, 'f', 3, 64)+`,"1"]}]}}`)
}

// queryTime parses both time formats of the HTTP API of Prometheus.
func queryTime(text string) (time.Time, error) {
	if seconds, err := strconv.ParseFloat(text, 64); err == nil {
		return time.UnixMicro(int64(seconds * 1e6)), nil
	}
	return time.Parse(time.RFC3339Nano, text)
}

// seen returns the number of different queries that arrived at least often times.
func (p *provider) seen(often int) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.reached[often]
}

// waiting is the number of queries since the last take.
func (p *provider) waiting() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.late) + p.odd
}

// take returns the lateness of the queries since the last take, and the number of queries with an unreadable time.
func (p *provider) take() (late []time.Duration, odd int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	late, odd = p.late, p.odd
	p.late, p.odd = nil, 0
	return late, odd
}

func (p *provider) stop() error {
	err := p.web.Shutdown(context.Background())
	if served := <-p.ended; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}
