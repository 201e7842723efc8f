// Package load sends HTTP requests at a steady rate, as many users do who do not wait for each other. It is no benchmark: it
// measures nothing but whether each request got an answer. Its one invariant: it never sends faster than it was told, also not
// to make up for requests that a slow machine or server let it miss.
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

// Options say what to send.
type Options struct {
	URL string
	// Rate is how many requests a second.
	Rate int
	// Users is how many users send them, in no order.
	Users int
}

// Result is what became of the requests.
type Result struct {
	Sent int
	// Answered counts them by status code.
	Answered map[int]int
	// Lost got no answer.
	Lost int
}

// workers send side by side. Each waits for its answer, so there are never more requests under way.
const workers = 32

// patience is how long an answer may take.
const patience = 10 * time.Second

// Run sends until ctx ends, and returns when the last answer has come.
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

// send lets a user ask. The request outlives the end of the load, so that none is cut off.
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
