package metric

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/textproto"
	"net/url"
	"strings"
)

// The keys of a Secret that Sluice uses. It ignores others.
const (
	tokenKey        = "token"
	userKey         = "username"
	passwordKey     = "password"
	caKey           = "ca.crt"
	certificateKey  = "tls.crt"
	privateKeyKey   = "tls.key"
	headerKeyPrefix = "header."
)

// Provider is a Prometheus, or another server with its HTTP API, as a template names it.
type Provider struct {
	// Address is the base of the API: http or https, a host, perhaps a port and a path.
	Address string
	// Headers are sent with each query.
	Headers map[string]string
	// Secret is the data of a Secret, or nil. Its keys are token (bearer); username and password; ca.crt (replaces the system's roots); tls.crt and
	// tls.key (mutual TLS). The key header.NAME is a header with a secret value.
	Secret map[string][]byte
}

// provider is a valid Provider.
type provider struct {
	// address is the given address, for messages; base is for requests.
	address string
	base    *url.URL
	header  http.Header
	secure  security
}

// security is the TLS configuration of the connection. Providers with the same digest share connections.
type security struct {
	digest [sha256.Size]byte
	config *tls.Config
}

// breakerKey identifies the breaker: addresses with the same key share one.
func (p *provider) breakerKey() string {
	return p.base.Scheme + "://" + p.base.Host + strings.TrimRight(p.base.Path, "/")
}

func parseProvider(given Provider, hosts Hosts) (*provider, error) {
	p := &provider{address: given.Address}
	var err error
	if p.base, err = parseAddress(given.Address, hosts); err != nil {
		return nil, err
	}
	if err = p.setHeaders(given); err == nil {
		p.secure, err = newSecurity(given.Secret)
	}
	if err != nil {
		return nil, newError(BadSecret, given.Address, err, "was not asked: %v.", err)
	}
	return p, nil
}

func parseAddress(text string, hosts Hosts) (*url.URL, error) {
	refuse := func(format string, args ...any) (*url.URL, error) {
		return nil, newError(NotAllowed, text, nil, "was not asked: "+format, args...)
	}
	base, err := url.Parse(text)
	switch {
	case err != nil:
		return refuse("this is no address. Write one such as http://NAME.NAMESPACE.svc:9090.")
	case base.Scheme != "http" && base.Scheme != "https":
		return refuse("an address begins with http:// or https://. Write one such as http://NAME.NAMESPACE.svc:9090.")
	case base.Hostname() == "":
		return refuse("the address names no host. Write one such as http://NAME.NAMESPACE.svc:9090.")
	case base.User != nil:
		base.User = nil
		text = base.String() // messages show it
		return refuse("the address holds a user name. Put username and password into a Secret and name that.")
	case base.RawQuery != "" || base.Fragment != "" || base.ForceQuery:
		return refuse("the address has something after its path. Leave out what follows ? or #.")
	}
	host, port := strings.ToLower(base.Hostname()), base.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[base.Scheme]
	}
	found, ok := hosts.allowHost(host, port)
	if !ok {
		return refuse("metrics may not be read from this host. Name a Service, such as http://NAME.NAMESPACE.svc:9090, or ask the operators of Sluice to add %s to --metric-hosts.", quoteText(host))
	}
	if literal, err := netip.ParseAddr(host); err == nil {
		if err := checkAddress(literal, found.loopback); err != nil {
			return nil, notAllowed(text, err)
		}
	}
	base.Host = strings.ToLower(base.Host)
	return base, nil
}

func notAllowed(address string, why error) *Error {
	return newError(NotAllowed, address, why, "was not asked: %v, and metrics are never read from there. Name a Service, such as http://NAME.NAMESPACE.svc:9090.", why)
}

// setHeaders makes the headers of requests.
func (p *provider) setHeaders(given Provider) error {
	p.header = http.Header{}
	for name, value := range given.Headers {
		if err := p.addHeader(name, value); err != nil {
			return err
		}
	}
	for key, value := range given.Secret {
		if name, ok := strings.CutPrefix(key, headerKeyPrefix); ok {
			if err := p.addHeader(name, strings.TrimSpace(string(value))); err != nil {
				return err
			}
		}
	}
	token, user, password := secretEntry(given.Secret, tokenKey), secretEntry(given.Secret, userKey), secretEntry(given.Secret, passwordKey)
	switch {
	case token != "" && user != "":
		return errors.New("the Secret holds a token and a user name, and only one can be sent; remove one")
	case token != "":
		return p.addHeader("Authorization", "Bearer "+token)
	case user != "":
		return p.addHeader("Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(user+":"+password)))
	case password != "":
		return errors.New("the Secret holds a password and no username; add it")
	}
	return nil
}

// addHeader refuses headers that would change the request into another one. The error never contains the value.
func (p *provider) addHeader(name, value string) error {
	name = textproto.CanonicalMIMEHeaderKey(name)
	switch name {
	case "Host", "Connection", "Content-Length", "Content-Type", "Content-Encoding", "Transfer-Encoding", "Accept-Encoding",
		"Te", "Trailer", "Upgrade", "Expect", "Keep-Alive", "Idempotency-Key", "X-Idempotency-Key":
		return fmt.Errorf("the header %s is ours to set; leave it out", name)
	}
	if !isToken(name) {
		return fmt.Errorf("%s is no name of a header; correct it", quoteText(name))
	}
	if strings.ContainsFunc(value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) {
		return fmt.Errorf("the value of the header %s has a line break or another control character; take it out", name)
	}
	if p.header.Get(name) != "" {
		return fmt.Errorf("the header %s is given twice; leave one out", name)
	}
	p.header.Set(name, value)
	return nil
}

// isToken reports whether text can be the name of a header (RFC 9110, 5.6.2).
func isToken(text string) bool {
	return text != "" && strings.Trim(strings.ToLower(text), "abcdefghijklmnopqrstuvwxyz0123456789!#$%&'*+-.^_`|~") == ""
}

// secretEntry leaves out the line break at the end that `kubectl create secret --from-file` keeps.
func secretEntry(secret map[string][]byte, key string) string {
	return strings.TrimRight(string(secret[key]), "\r\n")
}

func newSecurity(secret map[string][]byte) (security, error) {
	ca, certificate, key := secret[caKey], secret[certificateKey], secret[privateKeyKey]
	s := security{config: &tls.Config{MinVersion: tls.VersionTLS12}}
	if len(ca) > 0 {
		s.config.RootCAs = x509.NewCertPool()
		if !s.config.RootCAs.AppendCertsFromPEM(ca) {
			return security{}, errors.New("ca.crt in the Secret holds no certificate in PEM form; correct it")
		}
	}
	if len(certificate)+len(key) > 0 {
		pair, err := tls.X509KeyPair(certificate, key)
		if err != nil {
			return security{}, errors.New("tls.crt and tls.key in the Secret are no pair in PEM form; correct them")
		}
		s.config.Certificates = []tls.Certificate{pair}
	}
	if len(ca)+len(certificate) > 0 {
		hash := sha256.New()
		for _, part := range [][]byte{ca, certificate, key} {
			fmt.Fprintf(hash, "%d:%s", len(part), part)
		}
		hash.Sum(s.digest[:0])
	}
	return s, nil
}
