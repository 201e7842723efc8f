package queue_test

import (
	"bytes"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	cloudevents "github.com/cloudevents/sdk-go/v2/event"
	cehttp "github.com/cloudevents/sdk-go/v2/protocol/http"
	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"sluice.dev/sluice/pkg/queue"
	"sluice.dev/sluice/test/natsdir"
)

// docs/events.md has the same text as the lines between the marks.

// begin subscribe
func subscribe(nc *nats.Conn, subject string, handle func(*cloudevents.Event, error)) (*nats.Subscription, error) {
	return nc.Subscribe(subject, func(m *nats.Msg) {
		header := http.Header{}
		for name, values := range m.Header {
			if value, err := url.PathUnescape(values[0]); err == nil && name != "ce-datacontenttype" { // HTTP has content-type for it
				header.Set(name, value)
			}
		}
		handle(cehttp.NewEventFromHTTPRequest(&http.Request{Header: header, Body: io.NopCloser(bytes.NewReader(m.Data))}))
	})
}

// end subscribe

func TestTheDocumentedSubscriberReadsEvents(t *testing.T) {
	w := aWorld(t)
	q := w.connect()
	nc, err := nats.Connect(w.server.URL(), nats.UserInfo(w.opts.User, w.opts.Password))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	got := make(chan string, 1)
	if _, err := subscribe(nc, "sluice.event.>", func(e *cloudevents.Event, err error) {
		if err != nil {
			got <- err.Error()
			return
		}
		got <- e.String()
	}); err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	e := aTransition(t, named("x"), 1)
	e.SetExtension("note", "Grüße, 100%")
	if err := q.PublishEvent(t.Context(), e); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(e.String(), receive(w, "the event", got)); diff != "" {
		t.Errorf("(-sent +read):\n%s", diff)
	}
}

func TestTheSubscriberIsDocumentedAsItIs(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile("subscribe_test.go")
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../../docs/events.md")
	if err != nil {
		t.Fatal(err)
	}
	between := func(text, begin, end string) string {
		_, rest, _ := strings.Cut(text, begin)
		inside, _, _ := strings.Cut(rest, end)
		return strings.TrimSpace(inside)
	}
	want := "```go\n" + between(string(source), "// begin subscribe\n", "// end subscribe\n") + "\n```"
	if diff := cmp.Diff(want, between(string(page), "<!-- begin subscribe -->", "<!-- end subscribe -->")); diff != "" {
		t.Errorf("docs/events.md (-want +got):\n%s", diff)
	}
}

// docs/events.md lists the rights.
func TestAReaderNeedsNoMoreThanTheDocumentedRights(t *testing.T) {
	t.Parallel()
	var rights []string
	for _, right := range []string{
		"$JS.API.STREAM.INFO.SLUICE_EVENTS", "$JS.API.CONSUMER.*.SLUICE_EVENTS.>", "$JS.API.CONSUMER.MSG.NEXT.SLUICE_EVENTS.>", "$JS.ACK.SLUICE_EVENTS.>",
	} {
		rights = append(rights, right)
		if page, err := os.ReadFile("../../docs/events.md"); err != nil || !strings.Contains(string(page), "`"+right+"`") {
			t.Errorf("docs/events.md does not name %s (%v)", right, err)
		}
	}
	s, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: natsdir.ForTest(t), NoSigs: true, NoLog: true,
		Users: []*server.User{{Username: "sluice", Password: "s"}, {Username: "reader", Password: "r", Permissions: &server.Permissions{
			Publish: &server.SubjectPermission{Allow: rights}, Subscribe: &server.SubjectPermission{Allow: []string{"_INBOX.>"}},
		}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(patience) {
		t.Fatal("NATS does not start")
	}
	q, err := queue.Connect(t.Context(), queue.Options{URL: s.ClientURL(), User: "sluice", Password: "s"})
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	e := aTransition(t, named("x"), 1)
	if err := q.PublishEvent(t.Context(), e); err != nil {
		t.Fatal(err)
	}
	reader, err := queue.ConnectExisting(t.Context(), queue.Options{URL: s.ClientURL(), User: "reader", Password: "r"})
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	if diff := cmp.Diff([]string{e.ID()}, ids(t, reader.ReadEvents(t.Context(), queue.ReadOptions{Since: time.Now().Add(-time.Hour)}))); diff != "" {
		t.Error(diff)
	}
}
