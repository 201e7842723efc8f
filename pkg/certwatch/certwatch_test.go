package certwatch_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"

	"sluice.dev/sluice/pkg/certwatch"
)

// writeCertificate writes a certificate and its key, and sets the time of the files.
func writeCertificate(t *testing.T, certFile, keyFile string, at time.Time) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(at.Unix())}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for file, block := range map[string]*pem.Block{certFile: {Type: "CERTIFICATE", Bytes: der}, keyFile: {Type: "PRIVATE KEY", Bytes: secret}} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(file, at, at); err != nil {
			t.Fatal(err)
		}
	}
}

func TestFilesAreReadAgainWhenTheyChange(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	certFile, keyFile := filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	warnings := 0
	warn := func(error) { warnings++ }
	if _, err := certwatch.New(certFile, keyFile, warn); err == nil {
		t.Error("an empty directory will do")
	}
	writeCertificate(t, certFile, keyFile, time.Unix(1, 0))
	watcher, err := certwatch.New(certFile, keyFile, warn)
	if err != nil {
		t.Fatal(err)
	}
	current := func() *tls.Certificate {
		t.Helper()
		c, err := watcher.CurrentCertificate(nil)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	first := current()
	if current() != first {
		t.Error("the files are read again for no reason")
	}
	writeCertificate(t, certFile, keyFile, time.Unix(2, 0))
	second := current()
	if second == first {
		t.Error("the files are not read again")
	}
	if warnings != 0 {
		t.Errorf("%d warnings about files that can be read", warnings)
	}
	if err := os.Remove(keyFile); err != nil {
		t.Fatal(err)
	}
	if current() != second {
		t.Error("without the files the last certificate is not used on")
	}
	if warnings != 1 {
		t.Errorf("%d warnings about a file that is missing, want 1", warnings)
	}
	writeCertificate(t, certFile, keyFile, time.Unix(3, 0))
	if third := current(); third == second || warnings != 1 {
		t.Errorf("after the files came back the last certificate is used on, with %d warnings", warnings)
	}
}
