package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice.dev/sluice/pkg/queue/embedded"
	"sluice.dev/sluice/test/ports"
)

// follower is a `sluice events -w` in this process.
type follower struct {
	*testing.T
	out, errors *bufio.Scanner
	interrupt   context.CancelFunc
	ended       <-chan int
}

// following starts a follower that ends with the test.
func (a *archive) following(args ...string) follower {
	a.Helper()
	ctx, cancel := context.WithTimeout(a.Context(), watchLimit)
	out, stdout := io.Pipe()
	errors, stderr := io.Pipe()
	ended := make(chan int, 1)
	go func() {
		ended <- executeCommand(ctx, append(append([]string{"sluice", "events", "-w", "-n", "shop"}, args...), a.args...), stdout, stderr)
		_ = stdout.Close()
		_ = stderr.Close()
	}()
	a.Cleanup(func() {
		cancel()
		_ = out.Close()
		_ = errors.Close()
	})
	return follower{a.T, bufio.NewScanner(out), bufio.NewScanner(errors), cancel, ended}
}

func line(s *bufio.Scanner) string { s.Scan(); return s.Text() }

// shows checks that the next event is this one.
func (f follower) shows(seq int64) {
	f.Helper()
	if got, want := line(f.out), fmt.Sprintf(`"id":"u-checkout/%d"`, seq); !strings.Contains(got, want) {
		f.Fatalf("it shows %q, want %s", got, want)
	}
}

// says checks that the next line on standard error is this one, except for durations.
func (f follower) says(want string) {
	f.Helper()
	got := regexp.MustCompile(`after [0-9.]+(ms|s)`).ReplaceAllString(line(f.errors), "after a while")
	if diff := cmp.Diff(want, got); diff != "" {
		f.Fatalf("standard error (-want +got):\n%s", diff)
	}
}

// restart stops the server while meanwhile runs, and starts it again at the same address with this password.
func (a *archive) restart(password string, meanwhile func()) {
	a.Helper()
	at, err := url.Parse(a.server.URL())
	if err != nil {
		a.Fatal(err)
	}
	port, err := strconv.Atoi(at.Port())
	if err != nil {
		a.Fatal(err)
	}
	user := a.server.User()
	a.server.Close()
	meanwhile()
	s, err := embedded.Start(embedded.Options{Dir: a.dir, Port: port, User: user, Password: password})
	if err != nil {
		a.Fatal(err)
	}
	a.Cleanup(s.Close)
	a.server = s
}

const (
	gone = "warning: the connection to NATS is lost. This command retries until it is back, and misses no event. If it lasts, find out more with: sluice check."
	back = "NATS is back after a while; what happened meanwhile follows."
)

func TestAWatchOfEventsSaysThatNATSIsGoneAndBackAndMissesNothing(t *testing.T) {
	t.Parallel()
	a := newArchiveAt(t, ports.Free(t))
	a.tell("shop", "checkout", paused(1))
	f := a.following("-o", "json")
	f.shows(1)
	for seq := int64(2); seq < 8; seq += 3 {
		a.tell("shop", "checkout", paused(seq))
		f.shows(seq)
		a.restart(a.server.Password(), func() { f.says(gone) })
		// Chance decides whether they arrive before the watch is back or after it.
		a.tell("shop", "checkout", paused(seq+1))
		a.tell("shop", "checkout", paused(seq+2))
		f.says(back)
		f.shows(seq + 1)
		f.shows(seq + 2)
	}
}

func TestAWatchOfEventsEndsWhenNATSDoesNotTakeItBack(t *testing.T) {
	t.Parallel()
	a := newArchiveAt(t, ports.Free(t))
	a.tell("shop", "checkout", paused(1))
	f := a.following("-o", "json")
	f.shows(1)
	a.restart("another", func() { f.says(gone) })
	f.says("error: read events: the connection to NATS is over: nats: Authorization Violation; check the user and password, token or credentials file")
	if code := <-f.ended; code != 1 {
		t.Errorf("it ends with code %d", code)
	}
}

func TestAWatchOfEventsEndsWhenNobodyListensAtTheStart(t *testing.T) {
	t.Parallel()
	a := newArchive(t)
	a.server.Close()
	f := a.following()
	at := a.server.URL()
	f.says("error: connect to NATS at " + at + ": dial tcp " + strings.TrimPrefix(at, "nats://") + ": connect: connection refused; " +
		"check that the address is right, that a server runs there (kubectl get pods -A -l app.kubernetes.io/name=sluice-nats) " +
		"and that no network policy or TLS setting is in the way")
	if code := <-f.ended; code != 1 {
		t.Errorf("it ends with code %d", code)
	}
}
