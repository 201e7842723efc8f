package queue

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/nats-io/nats.go/jetstream"
)

// Server is what a probe found out about NATS.
type Server struct {
	// Version of the server that answered.
	Version string
	// Servers is how many the cluster has told of, itself included.
	Servers int
	// Streams are those of the account, whoever made them.
	Streams int
}

// Probe connects and asks for JetStream, makes nothing, and closes the connection again. ctx bounds how long it tries.
func Probe(ctx context.Context, o Options) (Server, error) {
	q := &Queue{log: slog.New(slog.DiscardHandler)}
	if err := q.dial(ctx, o); err != nil {
		return Server{}, err
	}
	defer q.nc.Close()
	js, err := jetstream.New(q.nc)
	if err != nil {
		return Server{}, fmt.Errorf("ask NATS at %s for JetStream: %w", redact(o.URL), err)
	}
	account, err := js.AccountInfo(ctx)
	if err != nil {
		return Server{}, fmt.Errorf("ask NATS at %s for JetStream: %w; enable it in the server's configuration and for the account", redact(o.URL), err)
	}
	return Server{Version: q.nc.ConnectedServerVersion(), Servers: max(1, len(q.nc.Servers())), Streams: account.Streams}, nil
}
