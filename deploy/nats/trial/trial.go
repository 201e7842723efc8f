// Package trial runs a NATS server with the configuration of deploy/nats, for tests of its users' permissions. It is not for running Sluice.
//
// Invariant: it changes only the listeners and the data directory of the configuration. For the clusters of a fleet it does what fleet.conf asks of
// an operator.
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
var users = []string{"route", "watcher", "executor", "analyzer", "admin", "ci-shop", "ci-shop-fleet", "system"}

// patience bounds the start of a server.
const patience = 20 * time.Second

// include is the line of users.conf that a hub needs. It is a comment in the shipped file.
const include = "include ./fleet.conf"

// Password returns the password of a user of the configuration, or of a cluster.
func Password(user string) string { return "secret-of-" + user }

// Start runs one server until the test ends, without the block cluster. With names of clusters it is the server of a fleet's hub.
func Start(t testing.TB, clusters ...string) *server.Server {
	t.Helper()
	o := options(t, clusters)
	o.Cluster, o.Routes = server.ClusterOpts{}, nil
	s := Begin(t, o)
	await(t, s)
	return s
}

// StartThree runs a cluster of three servers until the test ends. With names of clusters they are the servers of a fleet's hub.
func StartThree(t testing.TB, clusters ...string) []*server.Server {
	t.Helper()
	return StartThreeWith(t, func() *server.Options { return options(t, clusters) })
}

// StartThreeWith runs a cluster of three servers until the test ends. Each has its own options with the same block cluster.
func StartThreeWith(t testing.TB, options func() *server.Options) []*server.Server {
	t.Helper()
	const servers = 3
	var at []int
	var routes []*url.URL
	for range servers {
		port := ports.Free(t)
		at = append(at, port)
		of := options().Cluster
		routes = append(routes, &url.URL{Scheme: "nats", User: url.UserPassword(of.Username, of.Password), Host: fmt.Sprintf("127.0.0.1:%d", port)})
	}
	var list []*server.Server
	for i, port := range at {
		o := options()
		o.ServerName, o.Cluster.Host, o.Cluster.Port, o.Routes = fmt.Sprintf("nats-%d", i), "127.0.0.1", port, routes
		list = append(list, Begin(t, o))
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

// Begin starts a server at a free port of this machine, with a data directory of its own. The server runs until the test ends.
func Begin(t testing.TB, o *server.Options) *server.Server {
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

func options(t testing.TB, clusters []string) *server.Options {
	t.Helper()
	o, err := server.ProcessConfigFile(filepath.Join(Configuration(t, clusters...), "server.conf"))
	if err != nil {
		t.Fatalf("read the configuration of NATS: %v", err)
	}
	return o
}

// Configuration returns a directory with a copy of the configuration, and sets its variables. With names of clusters the copy includes fleet.conf, which has
// a copy of its example for each cluster.
func Configuration(t testing.TB, clusters ...string) string {
	t.Helper()
	variables := map[string]string{"NATS_ROUTES": `["nats://route:` + Password("route") + `@127.0.0.1:1"]`}
	for _, user := range users {
		variables["NATS_PASSWORD_"+capitals(user)] = Password(user)
	}
	for _, cluster := range clusters {
		variables["NATS_PASSWORD_MEMBER_"+capitals(cluster)] = Password(cluster)
	}
	// The variables are the process's. They have the same values in all tests.
	for name, value := range variables {
		if err := os.Setenv(name, value); err != nil {
			t.Fatal(err)
		}
	}
	dir := t.TempDir()
	copyFile(t, dir, "server.conf", func(text string) string { return text })
	copyFile(t, dir, "users.conf", func(text string) string {
		if len(clusters) == 0 {
			return text
		}
		return strings.Replace(text, "# "+include+"\n", include+"\n", 1)
	})
	copyFile(t, dir, "fleet.conf", func(text string) (all string) {
		for _, cluster := range clusters {
			all += strings.NewReplacer("eu1", cluster, "EU1", capitals(cluster)).Replace(text)
		}
		return all
	})
	return dir
}

func copyFile(t testing.TB, dir, name string, change func(string) string) {
	t.Helper()
	_, source, _, _ := runtime.Caller(0)
	text, err := os.ReadFile(filepath.Join(filepath.Dir(filepath.Dir(source)), name))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name), []byte(change(string(text))), 0o600); err != nil {
		t.Fatal(err)
	}
}

// capitals returns the name as a part of the name of a variable.
func capitals(name string) string { return strings.ToUpper(strings.ReplaceAll(name, "-", "_")) }
