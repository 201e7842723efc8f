// Package trial runs a NATS server with the configuration of deploy/nats, for tests of its users' permissions. It is not for running Sluice.
//
// Invariant: it changes only the listeners and the data directory of the configuration.
package trial

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"sluice.dev/sluice/test/natsdir"
	"sluice.dev/sluice/test/ports"
)

// users are the users whose passwords the configuration reads from the environment.
var users = []string{"route", "watcher", "executor", "analyzer", "admin", "ci-shop", "system"}

// patience bounds the start of a server.
const patience = 20 * time.Second

// Password returns the password of a user of the configuration.
func Password(user string) string { return "secret-of-" + user }

// Start runs one server until the test ends, without the block cluster.
func Start(t testing.TB) *server.Server {
	t.Helper()
	o := options(t)
	o.Cluster, o.Routes = server.ClusterOpts{}, nil
	s := begin(t, o)
	await(t, s)
	return s
}

// StartThree runs a cluster of three servers until the test ends.
func StartThree(t testing.TB) []*server.Server {
	t.Helper()
	const servers = 3
	var at []int
	var routes []*url.URL
	for range servers {
		port := ports.Free(t)
		at = append(at, port)
		routes = append(routes, &url.URL{Scheme: "nats", User: url.UserPassword("route", Password("route")), Host: fmt.Sprintf("127.0.0.1:%d", port)})
	}
	var list []*server.Server
	for i, port := range at {
		o := options(t)
		o.ServerName, o.Cluster.Host, o.Cluster.Port, o.Routes = fmt.Sprintf("nats-%d", i), "127.0.0.1", port, routes
		list = append(list, begin(t, o))
	}
	for _, s := range list {
		await(t, s)
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(patience); !slices.ContainsFunc(list, (*server.Server).JetStreamIsLeader); <-tick.C {
		if time.Now().After(end) {
			t.Fatal("the three NATS servers do not find each other")
		}
	}
	return list
}

func begin(t testing.TB, o *server.Options) *server.Server {
	t.Helper()
	o.Host, o.Port, o.HTTPHost, o.HTTPPort, o.StoreDir, o.NoSigs, o.NoLog = "127.0.0.1", server.RANDOM_PORT, "", 0, natsdir.ForTest(t), true, true
	s, err := server.NewServer(o)
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	return s
}

func await(t testing.TB, s *server.Server) {
	t.Helper()
	if !s.ReadyForConnections(patience) {
		t.Fatal("the NATS server does not start")
	}
}

func options(t testing.TB) *server.Options {
	t.Helper()
	o, err := read()
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// read reads the shipped configuration. It sets variables of the process, with the same values for all tests.
func read() (*server.Options, error) {
	for _, user := range users {
		if err := os.Setenv("NATS_PASSWORD_"+strings.ToUpper(strings.ReplaceAll(user, "-", "_")), Password(user)); err != nil {
			return nil, err
		}
	}
	if err := os.Setenv("NATS_ROUTES", `["nats://route:`+Password("route")+`@127.0.0.1:1"]`); err != nil {
		return nil, err
	}
	_, file, _, _ := runtime.Caller(0)
	o, err := server.ProcessConfigFile(filepath.Join(filepath.Dir(filepath.Dir(file)), "server.conf"))
	if err != nil {
		return nil, fmt.Errorf("read the configuration of NATS: %w", err)
	}
	return o, nil
}
