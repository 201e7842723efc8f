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

// provider answers instant queries as a Prometheus does whose every query has the value 1. It notes when each came, and for what
// time: the difference is how late the measurement is, whatever the analyzer says of itself.
type provider struct {
	web   *http.Server
	ended chan error

	mu sync.Mutex
	// times counts each query by its text, and reached how many came at least so often.
	times   map[string]int
	reached map[int]int
	// late has how late each query came since the last take, odd how many had no time that could be read.
	late []time.Duration
	odd  int
}

// startProvider listens on a free port of this machine. It must be stopped.
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

// queryTime reads both forms that the HTTP API of Prometheus takes.
func queryTime(text string) (time.Time, error) {
	if seconds, err := strconv.ParseFloat(text, 64); err == nil {
		return time.UnixMicro(int64(seconds * 1e6)), nil
	}
	return time.Parse(time.RFC3339Nano, text)
}

// seen is how many different queries came at least so often.
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

// take returns how late the queries since the last take were, and how many had no time that could be read.
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
