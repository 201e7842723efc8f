package crash

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
)

var (
	errDead   = errors.New("this executor is dead")
	errBroken = errors.New("the connection broke before the answer came")
)

// lateness has the requests and messages of a run that are to arrive late.
type lateness struct {
	// arrive is closed when they arrive. onTheirWay counts them.
	arrive     chan struct{}
	onTheirWay sync.WaitGroup
}

func newLateness() *lateness { return &lateness{arrive: make(chan struct{})} }

// add lets something happen late.
func (l *lateness) add(do func()) {
	l.onTheirWay.Go(func() {
		<-l.arrive
		do()
	})
}

// end lets all late ones arrive, and waits for their answers.
func (l *lateness) end() {
	close(l.arrive)
	l.onTheirWay.Wait()
}

// mortal is the transport of one component to the API server.
type mortal struct {
	*journal
	// who begins the kinds of watch frames, prefix those of writes.
	who, prefix string
	namespace   string
	next        http.RoundTripper
	dead        chan struct{}
	// die ends the component at once; partition only cuts it off from NATS. Another one takes over. Each works once.
	die, partition func()
	lateness       *lateness
}

func (m *mortal) isDead() bool {
	select {
	case <-m.dead:
		return true
	default:
		return false
	}
}

// WrappedRoundTripper lets client-go find the transport that can cancel a request.
func (m *mortal) WrappedRoundTripper() http.RoundTripper { return m.next }

func (m *mortal) RoundTrip(r *http.Request) (*http.Response, error) {
	if m.isDead() {
		return nil, errDead
	}
	r = scoped(r, m.namespace, "")
	if r.Method == http.MethodGet {
		response, err := m.next.RoundTrip(r)
		return framed(m.journal, m.who, r, response), err
	}
	if !concerns(r, m.namespace) { // an access review or the like
		return m.next.RoundTrip(r)
	}
	return m.write(r)
}

func (m *mortal) write(r *http.Request) (*http.Response, error) {
	body, err := buffered(r)
	if err != nil {
		return nil, err
	}
	kind := kindOf(r, m.namespace)
	m.lawful(r, kind, body)
	kind = m.prefix + kind
	w := m.note(kind)
	if w != "" {
		m.wrote(kind)
	}
	switch w {
	case before:
		m.die()
		return nil, errDead
	case after, lost:
		return m.unanswered(r, w)
	case conflict, busy, broken:
		return refusal(r, w), nil
	case late:
		return m.delay(r)
	}
	response, err := m.next.RoundTrip(r)
	if err == nil && response.StatusCode == http.StatusConflict { // an executor that was cut off may still write, and is refused
		m.meets(kind)
	} else {
		m.wrote(kind)
	}
	if m.isDead() {
		return nil, errDead
	}
	return response, err
}

// unanswered carries a request out and withholds the answer.
func (m *mortal) unanswered(r *http.Request, w way) (*http.Response, error) {
	response, err := m.next.RoundTrip(r)
	if err == nil {
		_, _ = io.Copy(io.Discard, response.Body)
		_ = response.Body.Close()
	}
	if w == lost {
		return nil, errBroken
	}
	m.die()
	return nil, errDead
}

// delay lets a request arrive late, even if its sender no longer waits for the answer.
func (m *mortal) delay(r *http.Request) (*http.Response, error) {
	type answer struct {
		*http.Response
		error
	}
	answered := make(chan answer, 1)
	onItsWay := r.Clone(context.WithoutCancel(r.Context()))
	m.lateness.add(func() {
		response, err := m.next.RoundTrip(onItsWay)
		if err == nil {
			body, _ := io.ReadAll(response.Body)
			_ = response.Body.Close()
			response.Body = io.NopCloser(bytes.NewReader(body))
		}
		answered <- answer{response, err}
	})
	m.partition()
	select {
	case a := <-answered:
		return a.Response, a.error
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
}

// buffered reads the body of a request and gives the request a copy.
func buffered(r *http.Request) ([]byte, error) {
	if r.Body == nil {
		return nil, nil
	}
	body, err := io.ReadAll(r.Body)
	_ = r.Body.Close()
	r.Body = io.NopCloser(bytes.NewReader(body))
	return body, err
}

// refusal returns an answer like the API server's.
func refusal(r *http.Request, w way) *http.Response {
	code, reason := http.StatusConflict, "Conflict"
	header := http.Header{"Content-Type": {"application/json"}}
	switch w {
	case busy:
		code, reason = http.StatusTooManyRequests, "TooManyRequests"
		header.Set("Retry-After", "0")
	case broken:
		code, reason = http.StatusInternalServerError, "InternalError"
	}
	text := fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"planned","reason":%q,"code":%d}`, reason, code)
	return &http.Response{
		Status: fmt.Sprintf("%d %s", code, http.StatusText(code)), StatusCode: code, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: header, Body: io.NopCloser(strings.NewReader(text)), ContentLength: int64(len(text)), Request: r,
	}
}
