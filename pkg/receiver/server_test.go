package receiver_test

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/queue"
	"sluice.dev/sluice/pkg/receiver"
)

// certificate writes a certificate for 127.0.0.1 with the serial number, and its key.
func certificate(t *testing.T, dir string, serial int64, written time.Time) (certFile, keyFile string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: "receiver"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	certFile, keyFile = filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	for file, block := range map[string]*pem.Block{certFile: {Type: "CERTIFICATE", Bytes: der}, keyFile: {Type: "PRIVATE KEY", Bytes: secret}} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(file, written, written); err != nil {
			t.Fatal(err)
		}
	}
	return certFile, keyFile
}

func serve(t *testing.T, l receiver.ServerOptions) *receiver.Server {
	t.Helper()
	l.Logger = slog.New(slog.NewTextHandler(t.Output(), nil))
	s, err := receiver.Listen(l)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return s
}

func TestARenewedCertificateIsServedWithoutARestart(t *testing.T) {
	t.Parallel()
	dir, now := t.TempDir(), time.Now()
	cert, key := certificate(t, dir, 1, now)
	s := serve(t, receiver.ServerOptions{Address: "127.0.0.1:0", CertFile: cert, KeyFile: key, Handler: http.NotFoundHandler()})
	serial := func() int64 {
		t.Helper()
		c, err := tls.Dial("tcp", strings.TrimPrefix(s.URL(), "https://"), &tls.Config{InsecureSkipVerify: true})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		return c.ConnectionState().PeerCertificates[0].SerialNumber.Int64()
	}
	if got := serial(); got != 1 {
		t.Fatalf("serial number %d", got)
	}
	certificate(t, dir, 2, now.Add(time.Second))
	if got := serial(); got != 2 {
		t.Errorf("after the renewal, serial number %d", got)
	}
	if err := os.WriteFile(cert, []byte("half of a certificate"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := serial(); got != 2 {
		t.Errorf("with a broken file, serial number %d", got)
	}
}

func TestTokensDoNotCrossTheNetworkInTheClearUnlessSaidSo(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		listening receiver.ServerOptions
		want      string
	}{
		"every address":          {receiver.ServerOptions{Address: ":0"}, "in the clear"},
		"an address":             {receiver.ServerOptions{Address: "0.0.0.0:0"}, "in the clear"},
		"said so":                {receiver.ServerOptions{Address: "0.0.0.0:0", Plain: true}, ""},
		"this machine":           {receiver.ServerOptions{Address: "127.0.0.1:0"}, ""},
		"no port":                {receiver.ServerOptions{Address: "127.0.0.1"}, "host:port"},
		"half of what is needed": {receiver.ServerOptions{Address: ":0", CertFile: "x"}, "go together"},
		"no such certificate":    {receiver.ServerOptions{Address: ":0", CertFile: "/nowhere/x", KeyFile: "/nowhere/y"}, "read the certificate"},
	} {
		t.Run(name, func(t *testing.T) {
			if c.listening.Plain {
				c.listening.Address = "127.0.0.1:0" // servers of tests listen only on this machine
			}
			c.listening.Logger = slog.New(slog.DiscardHandler)
			s, err := receiver.Listen(c.listening)
			if c.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithCancel(t.Context())
				cancel()
				if err := s.Run(ctx); err != nil {
					t.Error(err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("the error is %v, want %q", err, c.want)
			}
		})
	}
}

// The server cuts off a client that sends its headers byte by byte, and a client that sends endless headers.
func TestSlowAndEndlessRequestsAreCutOff(t *testing.T) {
	t.Parallel()
	s := serve(t, receiver.ServerOptions{Address: "127.0.0.1:0", Handler: http.NotFoundHandler()})
	dial := func() net.Conn {
		c, err := net.Dial("tcp", strings.TrimPrefix(s.URL(), "http://"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		if err := c.SetDeadline(time.Now().Add(10 * time.Minute)); err != nil {
			t.Fatal(err)
		}
		return c
	}
	endless := dial()
	_, _ = endless.Write([]byte("POST /v1/events HTTP/1.1\r\nHost: x\r\nX: " + strings.Repeat("x", 64<<10)))
	if line, err := bufio.NewReader(endless).ReadString('\n'); err != nil || !strings.Contains(line, "431") {
		t.Errorf("headers without end are answered %q, %v", line, err)
	}
	slow := dial()
	_, _ = slow.Write([]byte("POST /v1/events HTTP/1.1\r\nHost: x\r\nX: "))
	// The server closes the connection, with or without an answer.
	if _, err := io.Copy(io.Discard, slow); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("a slow client is kept")
	}
}

// A caller may wait for a decision longer than a request may take to arrive. The wait ends at once when the watcher stops.
func TestWhoWaitsIsHeldAsLongAsAskedAndToldWhenTheReceiverCloses(t *testing.T) {
	w := aWorld(t, gate{})
	ctx, cancel := context.WithCancel(t.Context())
	s, err := receiver.Listen(receiver.ServerOptions{
		Address: "127.0.0.1:0", Logger: slog.New(slog.NewTextHandler(t.Output(), nil)), Handler: receiver.New(receiver.Options{ClusterName: "default", AccessControl: gate{}, Queue: w.queue}),
	})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	w.url = s.URL()
	const wait = 17 * time.Second // longer than the 15 s that a body may take
	began := time.Now()
	if status, _, body := w.send(request{path: "/v1/events?wait=" + wait.String(), contentType: structured, body: approval(nil)}); status != http.StatusAccepted || time.Since(began) < wait {
		t.Errorf("after %s: %d %s", time.Since(began), status, body)
	}
	heard := make(chan struct{})
	w.decide(func(a queue.Approval) api.Refusal {
		if a.Event.ID() == "held" {
			close(heard)
			<-t.Context().Done()
		}
		return ""
	})
	go func() { <-heard; cancel() }()
	began = time.Now()
	if status, _, body := w.send(request{path: "/v1/events?wait=5m", contentType: structured, body: approval(map[string]any{"id": "held"})}); status != http.StatusAccepted {
		t.Errorf("when the receiver closes: %d %s", status, body)
	}
	if err := <-done; err != nil || time.Since(began) > time.Minute {
		t.Errorf("the receiver closes after %s: %v", time.Since(began), err)
	}
}
