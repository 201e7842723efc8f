// Package load sends HTTP requests at a steady rate, like many independent users. It is not a benchmark: it measures only whether each request got an answer.
// Its one invariant: it never exceeds its rate, not even to make up for requests that a slow machine or server delayed.
package load

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"sluice.dev/sluice/dev/demo/app"
)

// Options configure the load.
type Options struct {
	URL string
	// Rate is the number of requests per second.
	Rate int
	// Users is the number of users who send them, in no order.
	Users int
}

// Result holds the results of the requests.
type Result struct {
	Sent int
	// Answered counts the requests by status code.
	Answered map[int]int
	// Lost counts requests without an answer.
	Lost int
}

// workers is the number of parallel senders. Each waits for its answer, so no more requests are open.
const workers = 32

// patience bounds the time of an answer.
const patience = 10 * time.Second

// Run sends requests until ctx ends, and returns after the last answer.
func Run(ctx context.Context, o Options) Result {
	transport := &http.Transport{MaxIdleConnsPerHost: workers}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, Timeout: patience}
	sum := Result{Answered: map[int]int{}}
	var mu sync.Mutex
	var group sync.WaitGroup
	every := workers * time.Second / time.Duration(o.Rate)
	for i := range workers {
		group.Go(func() {
			if !sleep(ctx, every*time.Duration(i)/workers) {
				return
			}
			beat := time.NewTicker(every)
			defer beat.Stop()
			for {
				code, err := send(client, o)
				mu.Lock()
				sum.Sent++
				if err != nil {
					sum.Lost++
				} else {
					sum.Answered[code]++
				}
				mu.Unlock()
				select {
				case <-ctx.Done():
					return
				case <-beat.C:
				}
			}
		})
	}
	group.Wait()
	return sum
}

// sleep reports whether the time has passed before ctx ended.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// send sends one request of a user. The request outlives the end of the load, so that no request is cut off.
func send(client *http.Client, o Options) (int, error) {
	request, err := http.NewRequest(http.MethodGet, o.URL, nil)
	if err != nil {
		return 0, fmt.Errorf("make a request: %w", err)
	}
	request.Header.Set(app.UserHeader, fmt.Sprintf("user-%d", rand.IntN(o.Users)))
	answer, err := client.Do(request)
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	_, err = io.Copy(io.Discard, answer.Body)
	return answer.StatusCode, err
}
