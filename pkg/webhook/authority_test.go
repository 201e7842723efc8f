package webhook

import (
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/hold"
	"sluice.dev/sluice/test/controlplane"
)

const day = 24 * time.Hour

func TestAnAuthorityIsSharedAndRenewedWithoutAGap(t *testing.T) {
	cluster := controlplane.ForTest(t, controlplane.Options{})
	for _, args := range [][]string{
		{"create", "namespace", api.DefaultNamespace},
		{"apply", "-f", "../../deploy/webhook/authority.yaml", "-f", "../../deploy/webhook/webhook.yaml"},
	} {
		if _, err := cluster.Kubectl(t.Context(), args...); err != nil {
			t.Fatal(err)
		}
	}
	client, err := kubernetes.NewForConfig(cluster.Config)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	two := [2]*Authority{}
	for i := range two {
		two[i] = NewAuthority(client, api.DefaultInstallation(), slog.New(slog.DiscardHandler), "127.0.0.1")
		two[i].now = func() time.Time { return now }
		if _, err := two[i].CurrentCertificate(nil); err == nil {
			t.Error("there is a certificate before anything was looked at")
		}
	}
	// trusted returns the number of trusted authorities, and checks that the API server trusts the certificates of both watchers.
	trusted := func() int {
		t.Helper()
		live, err := client.AdmissionregistrationV1().MutatingWebhookConfigurations().Get(t.Context(), hold.WebhookName, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		bundle := live.Webhooks[0].ClientConfig.CABundle
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(bundle)
		for i, a := range two {
			current, err := a.CurrentCertificate(nil)
			if err != nil {
				t.Fatal(err)
			}
			for _, name := range []string{"sluice-webhook.sluice-system.svc", "127.0.0.1"} {
				if _, err := current.Leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: name, CurrentTime: now}); err != nil {
					t.Errorf("the certificate of watcher %d for %s: %v", i, name, err)
				}
			}
		}
		return strings.Count(string(bundle), "BEGIN CERTIFICATE")
	}
	look := func(a *Authority) *tls.Certificate {
		t.Helper()
		if err := a.ReconcileOnce(t.Context()); err != nil {
			t.Fatal(err)
		}
		current, err := a.CurrentCertificate(nil)
		if err != nil {
			t.Fatal(err)
		}
		return current
	}

	first := look(two[0])
	look(two[1])
	if n := trusted(); n != 1 {
		t.Errorf("two watchers made %d authorities", n)
	}
	if look(two[0]) != first {
		t.Error("the certificate is made again for no reason")
	}
	now = now.Add(21 * day)
	if look(two[0]) == first {
		t.Error("the certificate is not renewed after two thirds of its life")
	}
	now = now.Add(220 * day)
	before := [2]*tls.Certificate{look(two[0]), look(two[1])}
	now = now.Add(5 * day)
	if look(two[0]) != before[0] || look(two[1]) != before[1] {
		t.Error("a new authority is used before every API server can know it")
	}
	if n := trusted(); n != 2 {
		t.Errorf("%d authorities are trusted while one follows another", n)
	}
	if look(two[0]) == before[0] || look(two[1]) == before[1] {
		t.Error("a new authority is not used")
	}
	trusted()
	now = now.Add(250 * day)
	look(two[0])
	look(two[1])
	if n := trusted(); n != 2 {
		t.Errorf("%d authorities are trusted; the first one has ended", n)
	}
}

func TestADirectoryWithoutACertificateIsRefused(t *testing.T) {
	t.Parallel()
	_, err := NewFiles(t.TempDir(), slog.New(slog.DiscardHandler))
	if err == nil || !strings.HasPrefix(err.Error(), "read the certificate in --webhook-cert-dir: ") {
		t.Errorf("NewFiles says %v", err)
	}
}
