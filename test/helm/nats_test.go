package helm

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"sluice.dev/sluice/deploy/nats/trial"
)

// Real servers run with the configuration of each shape of the embedded NATS.
func TestNATSRunsWithTheConfigurationOfTheChart(t *testing.T) {
	user, password := "sluice", "secret-of-sluice"
	for name, value := range map[string]string{"NATS_USER": user, "NATS_PASSWORD": password} {
		t.Setenv(name, value)
	}
	certificates := certificateFiles(t)
	for name, c := range map[string]struct {
		values        string
		servers       int
		secured, open bool
	}{
		"one":                  {"nats.replicas=1", 1, false, false},
		"one, open":            {"nats.existingSecret=", 1, false, true},
		"one with TLS":         {"nats.tls.existingSecret=tls", 1, true, false},
		"three":                {"nats.replicas=3", 3, false, false},
		"three, open":          {"nats.replicas=3,nats.existingSecret=", 3, false, true},
		"three with TLS":       {"nats.replicas=3,nats.tls.existingSecret=tls", 3, true, false},
		"three with TLS, open": {"nats.replicas=3,nats.tls.existingSecret=tls,nats.existingSecret=", 3, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			rendered := render(t, commands[0], "progressive", "--set", c.values)
			dir := t.TempDir()
			for file, text := range rendered["ConfigMap/progressive/sluice-nats"]["data"].(map[string]any) {
				moved := strings.ReplaceAll(text.(string), "/etc/nats-tls", certificates)
				if err := os.WriteFile(filepath.Join(dir, file), []byte(moved), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if c.servers == 3 {
				t.Setenv("NATS_ROUTES", routes(t, rendered, strings.NewReplacer("$(NATS_USER)", user, "$(NATS_PASSWORD)", password)))
			}
			options := func() *server.Options {
				o, err := server.ProcessConfigFile(filepath.Join(dir, "nats.conf"))
				if err != nil {
					t.Fatalf("read the configuration: %v", err)
				}
				return o
			}
			var list []*server.Server
			if c.servers == 1 {
				list = append(list, trial.Begin(t, options()))
			} else {
				given := options().Routes
				for i, want := range []string{"sluice-nats-cluster-0", "sluice-nats-cluster-1", "sluice-nats-cluster-2"} {
					if len(given) != 3 || given[i].Host != want+".sluice-nats-cluster:6222" || (given[i].User != nil) == c.open {
						t.Fatalf("the routes are %v", given)
					}
				}
				list = trial.StartThreeWith(t, options)
			}
			if !list[0].ReadyForConnections(time.Minute) {
				t.Fatal("the server does not start")
			}
			address := list[0].Addr().String()
			login, trust := nats.UserInfo(user, password), nats.RootCAs(filepath.Join(certificates, "ca.crt"))
			with := func(secured, known bool) (options []nats.Option) {
				if secured {
					options = append(options, trust)
				}
				if known {
					options = append(options, login)
				}
				return options
			}
			keep(t, address, c.servers, with(c.secured, !c.open))
			if !c.open && connects(address, with(c.secured, false)) {
				t.Error("a client without a password connects")
			}
			if c.secured && connects(address, with(false, !c.open)) {
				t.Error("a client that does not know the authority connects")
			}
		})
	}
}

func connects(address string, options []nats.Option) bool {
	client, err := nats.Connect(address, options...)
	if err == nil {
		client.Close()
	}
	return err == nil
}

// routes returns the value of NATS_ROUTES, as the kubelet makes it.
func routes(t *testing.T, rendered map[string]map[string]any, expand *strings.Replacer) string {
	t.Helper()
	pod := rendered["StatefulSet/progressive/sluice-nats-cluster"]["spec"].(map[string]any)["template"].(map[string]any)["spec"].(map[string]any)
	for _, v := range pod["containers"].([]any)[0].(map[string]any)["env"].([]any) {
		if v := v.(map[string]any); v["name"] == "NATS_ROUTES" {
			return expand.Replace(v["value"].(string))
		}
	}
	t.Fatal("the servers have no NATS_ROUTES")
	return ""
}

// keep writes a stream with a copy on each server.
func keep(t *testing.T, address string, copies int, login []nats.Option) {
	t.Helper()
	client, err := nats.Connect(address, login...)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	js, err := jetstream.New(client)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "TRIAL", Subjects: []string{"trial"}, Replicas: copies}); err != nil {
		t.Fatal(err)
	}
	if _, err := js.Publish(t.Context(), "trial", nil); err != nil {
		t.Fatal(err)
	}
}

// certificateFiles returns a directory with tls.crt, tls.key and ca.crt for this machine.
func certificateFiles(t *testing.T) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	body, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: body})
	for name, text := range map[string][]byte{"tls.crt": certificate, "ca.crt": certificate, "tls.key": pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}
