package queue_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"sluice.dev/sluice/pkg/queue"
	"sluice.dev/sluice/test/ports"
)

// threeServers starts a cluster of three NATS servers, each in a process.
func threeServers(t *testing.T) (servers []*process) {
	t.Helper()
	var at, routes []string
	for range 3 {
		at = append(at, ports.Address(t))
		routes = append(routes, "nats://"+at[len(at)-1])
	}
	for i, address := range at {
		servers = append(servers, aProcess(t, fmt.Sprintf("n%d", i), ports.Free(t), fmt.Sprintf(
			"cluster { name: three, listen: %q, routes: [%s] }\n", address, strings.Join(routes, ", "))))
	}
	return servers
}

// leaderOf returns the server that leads a stream.
func leaderOf(t *testing.T, stream string, servers []*process) *process {
	t.Helper()
	nc, err := nats.Connect(servers[0].url, nats.UserInfo(user, password))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	s, err := js.Stream(t.Context(), stream)
	if err != nil {
		t.Fatal(err)
	}
	if r := s.CachedInfo().Config.Replicas; r != 3 {
		t.Errorf("%s has %d copies, want 3", stream, r)
	}
	for _, p := range servers {
		if p.name == s.CachedInfo().Cluster.Leader {
			return p
		}
	}
	t.Fatalf("%s has no leader", stream)
	return nil
}

// The test kills the server that leads the stream of work while hints are sent.
func TestAClusterOfThreeLosesAServer(t *testing.T) {
	t.Parallel()
	servers := threeServers(t)
	l := underLoad(t, 60, joined(t, 3, servers...), joined(t, 3, servers...), joined(t, 3, servers...))
	l.hintFor(time.Second)
	l.everyLastHintRuns(patience)
	leaderOf(t, "KV_"+queue.BucketLease, servers)
	victim := leaderOf(t, queue.StreamWork, servers)
	at := time.Now()
	victim.kill()
	l.hintFor(8 * time.Second)
	l.everyLastHintRuns(patience)
	longest, runs := l.stall(at)
	t.Logf("%s killed: %d runs since, the longest time without one was %s", victim.name, runs, longest.Round(time.Millisecond))

	victim.start()
	l.hintFor(time.Second)
	l.everyLastHintRuns(patience)
}
