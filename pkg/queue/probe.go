package queue

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/nats-io/nats.go/jetstream"
)

// ServerInfo is what a probe found out about NATS.
type ServerInfo struct {
	// Version of the server that answered.
	Version string
	// Servers is how many the cluster has told of, itself included.
	Servers int
	// Streams is the number of streams of the account, of any owner.
	Streams int
}

// ProbeServer connects and asks for JetStream, makes nothing, and closes the connection again. ctx bounds how long it tries.
func ProbeServer(ctx context.Context, o Options) (ServerInfo, error) {
	q := &Queue{log: slog.New(slog.DiscardHandler)}
	if err := q.dialNATS(ctx, o); err != nil {
		return ServerInfo{}, err
	}
	defer q.nc.Close()
	js, err := jetstream.New(q.nc)
	if err != nil {
		return ServerInfo{}, fmt.Errorf("ask NATS at %s for JetStream: %w", redactURLs(o.URL), err)
	}
	account, err := js.AccountInfo(ctx)
	if err != nil {
		return ServerInfo{}, fmt.Errorf("ask NATS at %s for JetStream: %w; enable it in the server's configuration and for the account", redactURLs(o.URL), err)
	}
	return ServerInfo{Version: q.nc.ConnectedServerVersion(), Servers: max(1, len(q.nc.Servers())), Streams: account.Streams}, nil
}
