package queue

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/nats-io/nats.go/jetstream"
)

// ServerInfo is the result of a probe of NATS.
type ServerInfo struct {
	// Version is the version of the server that answered.
	Version string
	// Servers is the number of servers that the cluster has announced, with the server itself.
	Servers int
	// Streams is the number of streams in the account, from any user.
	Streams int
}

// ProbeServer connects, asks for JetStream, and closes the connection again. It creates nothing. ctx bounds how long it
// tries.
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
