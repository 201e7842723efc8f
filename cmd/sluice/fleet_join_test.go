package main

import (
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"sluice.dev/sluice/deploy/nats/trial"
)

// joined are the files that fleet join writes for the cluster eu-1.
type joined struct{ account, hub, member string }

func joinEU1(t *testing.T) joined {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "new")
	code, out, errors := sluice(t.Context(), "fleet", "join", "eu-1", "--hub-nats-url", "tls://a.example.com:4222,tls://b.example.com:4222", "--labels", "env=prod,tier=canary",
		"--hub-public-key", publicOf(t, nkeyPair(t)), "--dir", dir)
	if code != 0 || !strings.Contains(out, "kubectl apply -f "+dir) || !strings.Contains(errors, "has the private key of the cluster") {
		t.Fatalf("it ended with %d: %s%s", code, out, errors)
	}
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	return joined{read("eu-1-account.conf"), read("eu-1-hub.yaml"), read("eu-1-member.yaml")}
}

// A fleet join replaces no file, and leaves no file that does not fit the others.
func TestAFleetJoinWritesAllFilesOrNone(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "eu-1-member.yaml"), []byte("kept"), 0o600); err != nil {
		t.Fatal(err)
	}
	code, _, errors := sluice(t.Context(), "fleet", "join", "eu-1", "--hub-nats-url", "tls://a.example.com:4222", "--hub-public-key", publicOf(t, nkeyPair(t)), "--dir", dir)
	if code != 1 || !strings.Contains(errors, "eu-1-member.yaml: file exists") {
		t.Errorf("it ended with %d: %s", code, errors)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(files) != 1 {
		t.Errorf("the directory has %v (%v), want the one file that was there", files, err)
	}
	if text, err := os.ReadFile(filepath.Join(dir, "eu-1-member.yaml")); string(text) != "kept" {
		t.Errorf("the file that was there has %q (%v)", text, err)
	}
}

// Neither part of a fleet join has a secret of the other cluster, and the key of the FleetMember is the one of the Secret.
func TestWhoGetsWhichKey(t *testing.T) {
	t.Parallel()
	parts := joinEU1(t)
	seeds := regexp.MustCompile(`SU[A-Z2-7]{56}`)
	if found := seeds.FindAllString(parts.hub, -1); len(found) > 0 {
		t.Errorf("the hub's part has %d private keys", len(found))
	}
	found := seeds.FindAllString(parts.member, -1)
	if len(found) != 1 {
		t.Fatalf("the member's part has %d private keys", len(found))
	}
	pair, err := nkeys.FromSeed([]byte(found[0]))
	if err != nil {
		t.Fatal(err)
	}
	if own := publicOf(t, pair); !strings.Contains(parts.hub, "key: "+own+"\n") || strings.Contains(parts.member, own) {
		t.Errorf("the hub's part does not have the public key %s of the member:\n%s", own, parts.hub)
	}
	if password := passwordIn(t, parts.member); strings.Contains(parts.hub, password) {
		t.Error("the hub's part has the password")
	}
	code, text, errors := sluice(t.Context(), "fleet", "hub-key")
	if found := seeds.FindAllString(text, -1); code != 0 || len(found) != 1 {
		t.Errorf("hub-key ended with %d and has %d private keys: %s", code, len(found), errors)
	} else if pair, err := nkeys.FromSeed([]byte(found[0])); err != nil || !strings.Contains(text, "SLUICE_FLEET_HUB_PUBLIC_KEYS: "+publicOf(t, pair)+"\n") {
		t.Errorf("its public key is missing (%v):\n%s", err, text)
	}
}

func passwordIn(t *testing.T, member string) string {
	t.Helper()
	found := regexp.MustCompile(`password: \|\n    (\S+)\n`).FindStringSubmatch(member)
	if found == nil {
		t.Fatalf("there is no password:\n%s", member)
	}
	return found[1]
}

// The account of a cluster is the one of deploy/nats, and lets the cluster in with its password.
func TestTheAccountOfACluster(t *testing.T) {
	t.Parallel()
	shipped, err := os.ReadFile(filepath.Join("..", "..", "deploy", "nats", "fleet.conf"))
	if err != nil {
		t.Fatal(err)
	}
	_, block, _ := strings.Cut(string(shipped), "\n\"eu1\" {")
	if diff := cmp.Diff("\"eu1\" {"+block, natsAccount("eu1", "$NATS_PASSWORD_MEMBER_EU1")); diff != "" {
		t.Errorf("it differs from deploy/nats/fleet.conf (-shipped +printed):\n%s", diff)
	}
	parts := joinEU1(t)
	dir := trial.Configuration(t, "other")
	if err := os.WriteFile(filepath.Join(dir, "fleet.conf"), []byte(parts.account), 0o600); err != nil {
		t.Fatal(err)
	}
	options, err := server.ProcessConfigFile(filepath.Join(dir, "server.conf"))
	if err != nil {
		t.Fatal(err)
	}
	options.Host, options.Port, options.HTTPHost, options.HTTPPort, options.StoreDir, options.NoSigs, options.NoLog = "127.0.0.1", server.RANDOM_PORT, "", 0, t.TempDir(), true, true
	options.Cluster, options.Routes = server.ClusterOpts{}, []*url.URL{}
	// The race detector makes bcrypt slow. A first ping of the server would come before its answer to the login.
	patience := 10 * time.Minute
	options.AuthTimeout, options.DisableShortFirstPing = patience.Seconds(), true
	s, err := server.NewServer(options)
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	conn, err := nats.Connect(s.ClientURL(), nats.UserInfo("eu-1", passwordIn(t, parts.member)), nats.Timeout(patience))
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
	if _, err := nats.Connect(s.ClientURL(), nats.UserInfo("eu-1", "another password"), nats.Timeout(patience)); !errors.Is(err, nats.ErrAuthorization) {
		t.Errorf("another password opens the account: %v", err)
	}
}
