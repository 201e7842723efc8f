package apiclient

import (
	"context"
	"encoding/pem"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"
)

// overslept is the context of a request whose process was stopped. Its deadline has passed, and no timer has fired yet.
type overslept struct{ context.Context }

func (overslept) Deadline() (time.Time, bool) { return time.Now().Add(-time.Millisecond), true }

// answering answers every request.
type answering struct{ asked int }

func (a *answering) RoundTrip(*http.Request) (*http.Response, error) {
	a.asked++
	return &http.Response{StatusCode: http.StatusCreated, Body: http.NoBody}, nil
}

func TestARequestThatItsProcessWokeUpWithTooLateIsNotSent(t *testing.T) {
	t.Parallel()
	soon, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	for name, c := range map[string]struct {
		ctx  context.Context
		sent int
		err  error
	}{
		"without a deadline": {t.Context(), 1, nil},
		"in time":            {soon, 1, nil},
		"too late":           {overslept{t.Context()}, 0, context.DeadlineExceeded},
	} {
		server := &answering{}
		request, err := http.NewRequestWithContext(c.ctx, http.MethodPost, "http://127.0.0.1", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		response, err := deadlineTransport{server, waiting()}.RoundTrip(request)
		if !errors.Is(err, c.err) || server.asked != c.sent {
			t.Errorf("%s: sent %d times, error %v, want %d, %v", name, server.asked, err, c.sent, c.err)
		}
		if response != nil {
			_ = response.Body.Close()
		}
	}
}

func waiting() *unsentRequests { return &unsentRequests{deadlines: map[*http.Request]time.Time{}} }

// A process may be stopped between its check of the clock and the first byte on the wire.
func TestAConnectionBreaksRatherThanCarryARequestThatIsLate(t *testing.T) {
	t.Parallel()
	now := time.Now()
	early, late := &http.Request{}, &http.Request{}
	for name, c := range map[string]struct {
		change func(*unsentRequests)
		err    error
	}{
		"none waits":     {func(*unsentRequests) {}, nil},
		"one is in time": {func(u *unsentRequests) { u.addRequest(early, now.Add(time.Hour)) }, nil},
		"one is late": {func(u *unsentRequests) {
			u.addRequest(early, now.Add(time.Hour))
			u.addRequest(late, now.Add(-time.Second))
		}, os.ErrDeadlineExceeded},
		"the late one is out": {func(u *unsentRequests) { u.addRequest(late, now.Add(-time.Second)); u.removeRequest(late) }, nil},
		"a machine has slept": {func(u *unsentRequests) { u.addRequest(late, now.Round(0).Add(-time.Second)) }, os.ErrDeadlineExceeded},
	} {
		ours, theirs := net.Pipe()
		received := make(chan int)
		go func() {
			n, _ := theirs.Read(make([]byte, 8))
			received <- n
		}()
		u := waiting()
		c.change(u)
		n, err := deadlineConn{ours, u}.Write([]byte("bytes"))
		if err == nil {
			_ = ours.Close()
		}
		if got := <-received; got != n || !errors.Is(err, c.err) || (c.err == nil) != (n == 5) {
			t.Errorf("%s: %d bytes came of %d that were said to be sent, error %v, want %v", name, got, n, err, c.err)
		}
	}
}

// A request that waits for its answer must not break a connection.
func TestARequestThatWasSentIsNotLate(t *testing.T) {
	t.Parallel()
	asked, answer := make(chan int, 1), make(chan struct{})
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		asked <- r.ProtoMajor
		<-answer
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	client, err := NewHTTPClient(&rest.Config{Host: server.URL, TLSClientConfig: rest.TLSClientConfig{
		CAData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
	}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, server.URL, strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	var running errgroup.Group
	running.Go(func() error {
		response, err := client.Do(request)
		if err != nil {
			return err
		}
		return response.Body.Close()
	})
	if version := <-asked; version != 2 {
		t.Errorf("it is asked by HTTP/%d", version)
	}
	unsent := client.Transport.(throttleTransport).next.(deadlineTransport).unsent
	left := func() int {
		unsent.mu.Lock()
		defer unsent.mu.Unlock()
		return len(unsent.deadlines)
	}
	for left() > 0 && ctx.Err() == nil {
		runtime.Gosched() // the server may know before the client does
	}
	close(answer)
	if err := running.Wait(); err != nil {
		t.Error(err)
	}
}
