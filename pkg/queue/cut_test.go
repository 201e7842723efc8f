package queue_test

import (
	"bytes"
	"io"
	"log/slog"
	"net"
	"net/url"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice.dev/sluice/pkg/queue"
)

// lossy is a proxy to a server that can lose the server's data, and break the connection.
type lossy struct {
	listener net.Listener
	server   string

	mu sync.Mutex
	// losing is the text after which the connection breaks. The proxy loses it and all data before it; nil loses
	// nothing.
	losing []byte
	work   sync.WaitGroup
}

func aLossy(t *testing.T, server string) *lossy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	w := &lossy{listener: l, server: u.Host}
	w.work.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			w.work.Go(func() { w.carry(client) })
		}
	})
	t.Cleanup(func() { l.Close(); w.work.Wait() })
	return w
}

func (w *lossy) carry(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", w.server)
	if err != nil {
		return
	}
	w.work.Go(func() { _, _ = io.Copy(server, client); server.Close() })
	defer server.Close()
	var lost []byte
	buffer := make([]byte, 64<<10)
	for {
		n, err := server.Read(buffer)
		if err != nil {
			return
		}
		w.mu.Lock()
		losing := w.losing
		w.mu.Unlock()
		if losing == nil {
			if _, err := client.Write(buffer[:n]); err != nil {
				return
			}
			continue
		}
		if lost = append(lost, buffer[:n]...); bytes.Contains(lost, losing) {
			w.lose(nil)
			return
		}
	}
}

func (w *lossy) lose(until []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.losing = until
}

func TestWhatWasOnItsWayWhenTheConnectionBrokeIsReadAgain(t *testing.T) {
	w := aWorld(t)
	direct := w.connect()
	way := aLossy(t, w.server.URL())
	q, err := queue.ConnectExisting(t.Context(), queue.Options{URL: "nats://" + way.listener.Addr().String(), User: w.opts.User, Password: w.opts.Password, Logger: slog.New(slog.NewTextHandler(w.Output(), nil))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(q.Close)
	w.tell(direct, named("x"), 1)
	got := w.follow(q, queue.ReadOptions{})
	if diff := cmp.Diff("u-x/1", receive(w, "the first", got)); diff != "" {
		t.Fatal(diff)
	}
	way.lose([]byte("u-x/2"))
	w.tell(direct, named("x"), 2)
	if diff := cmp.Diff("u-x/2", receive(w, "the one that was lost", got)); diff != "" {
		t.Error(diff)
	}
}
