package nats_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"sluice.dev/sluice/deploy/nats/trial"
	"sluice.dev/sluice/pkg/queue"
)

// patience bounds every wait; none should need it.
const patience = 10 * time.Minute

// part connects as one of the parts does.
func part(t *testing.T, s *server.Server, user string) *queue.Queue {
	t.Helper()
	return partOf(t, s.ClientURL(), user, 1)
}

func partOf(t *testing.T, url, user string, replicas int) *queue.Queue {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	q, err := queue.Connect(ctx, queue.Options{URL: url, Replicas: replicas, User: user, Password: trial.Password(user), Logger: slog.New(slog.NewTextHandler(t.Output(), nil))})
	if err != nil {
		t.Fatalf("connect as %s: %v", user, err)
	}
	t.Cleanup(q.Close)
	return q
}

// pipeline connects as a pipeline does.
func pipeline(t *testing.T, s *server.Server, user string) *queue.Queue {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	q, err := queue.ConnectExisting(ctx, queue.Options{URL: s.ClientURL(), User: user, Password: trial.Password(user), InboxPrefix: "_INBOX_" + user})
	if err != nil {
		t.Fatalf("connect as %s: %v", user, err)
	}
	t.Cleanup(q.Close)
	return q
}

// client is a plain NATS client, and records the permission errors of the server.
type client struct {
	*nats.Conn
	t      *testing.T
	denied chan error
}

func connect(t *testing.T, s *server.Server, user string) *client {
	t.Helper()
	return connectAs(t, s.ClientURL(), login{user, trial.Password(user)}, "_INBOX_"+user)
}

// login is a user with its password.
type login struct{ user, password string }

func connectAs(t *testing.T, url string, as login, inbox string) *client {
	t.Helper()
	c := &client{t: t, denied: make(chan error, 100)}
	var err error
	c.Conn, err = nats.Connect(url, nats.UserInfo(as.user, as.password), nats.CustomInboxPrefix(inbox),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { c.denied <- err }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// forbidden returns the permission errors since the last call, nil for none.
func (c *client) forbidden() error {
	c.t.Helper()
	// The server reports errors of earlier messages before it answers this flush; the client library delivers answers in order.
	if err := c.FlushTimeout(patience); err != nil {
		c.t.Fatal(err)
	}
	sub, err := c.Subscribe("not.granted.to.anybody", func(*nats.Msg) {})
	if err != nil {
		c.t.Fatal(err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	var list []error
	for {
		select {
		case err := <-c.denied:
			if strings.Contains(err.Error(), "not.granted.to.anybody") {
				return errors.Join(list...)
			}
			list = append(list, err)
		case <-time.After(patience):
			c.t.Fatal("the server does not even forbid what nobody may do")
		}
	}
}

func (c *client) mayNotPublish(subjects ...string) {
	c.t.Helper()
	for _, subject := range subjects {
		if err := c.Publish(subject, []byte("{}")); err != nil {
			c.t.Fatal(err)
		}
		if err := c.forbidden(); err == nil || !strings.Contains(err.Error(), `Publish to "`+subject+`"`) {
			c.t.Errorf("publish to %s: the server says %v", subject, err)
		}
	}
}

func (c *client) mayNotSubscribe(subjects ...string) {
	c.t.Helper()
	for _, subject := range subjects {
		sub, err := c.SubscribeSync(subject)
		if err != nil {
			c.t.Fatal(err)
		}
		if err := c.forbidden(); err == nil || !strings.Contains(err.Error(), `Subscription to "`+subject+`"`) {
			c.t.Errorf("subscribe to %s: the server says %v", subject, err)
		}
		_ = sub.Unsubscribe()
	}
}
