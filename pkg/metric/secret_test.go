package metric_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"log"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sluice.dev/sluice/pkg/metric"
)

type secret = map[string][]byte

func TestWhatASecretHoldsIsSent(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		secret  secret
		headers map[string]string
		want    map[string]string
	}{
		"nothing":                     {nil, nil, map[string]string{"User-Agent": "sluice-analyzer"}},
		"a token with its line break": {secret{"token": []byte("abc\n")}, nil, map[string]string{"Authorization": "Bearer abc"}},
		"a user and a password":       {secret{"username": []byte("me"), "password": []byte("pass:word")}, nil, map[string]string{"Authorization": "Basic bWU6cGFzczp3b3Jk"}},
		"a header":                    {secret{"header.X-Scope-OrgID": []byte("shop\n"), "other": []byte("?")}, nil, map[string]string{"X-Scope-Orgid": "shop"}},
		"headers of the template":     {nil, map[string]string{"x-a": "1", "User-Agent": "me"}, map[string]string{"X-A": "1", "User-Agent": "me"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := serve(t, func(w http.ResponseWriter, r *http.Request) {
				for header, want := range c.want {
					if got := r.Header.Get(header); got != want {
						t.Errorf("%s is %q, not %q", header, got, want)
					}
				}
				_, _ = w.Write([]byte(one))
			})
			request := at(server.URL)
			request.Provider.Secret, request.Provider.Headers = c.secret, c.headers
			one, _ := client(t, nil)
			if _, err := one.Query(t.Context(), request); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestASecretThatCannotBeUsedIsExplainedAndNotShown(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		secret  secret
		headers map[string]string
		want    string
	}{
		"a token and a user":           {secret{"token": []byte("hidden"), "username": []byte("hidden")}, nil, "and only one can be sent"},
		"a password alone":             {secret{"password": []byte("hidden")}, nil, "no username; add it"},
		"a token with a line break":    {secret{"token": []byte("hidden\nX-Other: 1")}, nil, "the value of the header Authorization has a line break"},
		"no certificate":               {secret{"ca.crt": []byte("hidden")}, nil, "ca.crt in the Secret holds no certificate"},
		"a certificate without a key":  {secret{"tls.crt": []byte("hidden")}, nil, "are no pair in PEM form"},
		"a header that is ours":        {nil, map[string]string{"host": "hidden"}, "the header Host is ours to set"},
		"a header that is none":        {nil, map[string]string{"a b": "hidden"}, `"a b" is no name of a header`},
		"a header with a line break":   {nil, map[string]string{"X-A": "hidden\r\n"}, "take it out"},
		"a header given in two places": {secret{"header.x-a": []byte("hidden")}, map[string]string{"X-A": "hidden"}, "the header X-A is given twice"},
		"Authorization given twice":    {secret{"token": []byte("hidden")}, map[string]string{"Authorization": "hidden"}, "the header Authorization is given twice"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("it was asked") })
			request := at(server.URL)
			request.Provider.Secret, request.Provider.Headers = c.secret, c.headers
			one, _ := client(t, nil)
			_, err := one.Query(t.Context(), request)
			if metric.OutcomeOf(err) != metric.BadSecret || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "hidden") {
				t.Errorf("it is %v, not about %q", err, c.want)
			}
		})
	}
}

func TestTLSAndMutualTLS(t *testing.T) {
	t.Parallel()
	certificate, key := selfSigned(t)
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(certificate)
	open := serveTLS(t, &tls.Config{})
	mutual := serveTLS(t, &tls.Config{ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool})
	plain := serve(t, says(200, "application/json", one))
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: open.Certificate().Raw})

	cases := map[string]struct {
		address string
		secret  secret
		want    metric.Outcome
	}{
		"an authority that we know":                  {open.URL, secret{"ca.crt": ca}, metric.Answered},
		"an authority that we do not know":           {open.URL, nil, metric.BadTLS},
		"another authority":                          {open.URL, secret{"ca.crt": certificate}, metric.BadTLS},
		"a certificate of ours where it is demanded": {mutual.URL, secret{"ca.crt": ca, "tls.crt": certificate, "tls.key": key}, metric.Answered},
		"none of ours where it is demanded":          {mutual.URL, secret{"ca.crt": ca}, metric.BadTLS},
		"https at a plain server":                    {strings.Replace(plain.URL, "http:", "https:", 1), nil, metric.BadTLS},
		"http at a server of TLS":                    {strings.Replace(open.URL, "https:", "http:", 1), nil, metric.NotPrometheus},
	}
	// One client for all cases: the certificates of one must not serve another.
	c, _ := client(t, nil)
	for name, want := range cases {
		request := at(want.address)
		request.Provider.Secret = want.secret
		_, err := c.Query(t.Context(), request)
		if diff := cmp.Diff(want.want, metric.OutcomeOf(err)); diff != "" {
			t.Errorf("%s: %s %v", name, diff, err)
		}
	}
}

func serveTLS(t *testing.T, config *tls.Config) *httptest.Server {
	t.Helper()
	server := httptest.NewUnstartedServer(says(200, "application/json", one))
	server.TLS = config
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	t.Cleanup(server.Close)
	return server
}

// selfSigned returns a client certificate that is its own authority.
func selfSigned(t *testing.T) (certificate, key []byte) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "analyzer"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}, IsCA: true, BasicConstraintsValid: true,
	}
	signed, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: signed}), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: encoded})
}
