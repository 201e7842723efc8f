package metric_test

import (
	"net"
	"net/netip"
	"strings"
	"testing"

	"golang.org/x/net/dns/dnsmessage"

	"sluice.dev/sluice/pkg/metric"
)

// No server listens at the allowed addresses, or the name does not exist: the test only checks whether a call is attempted.
func TestOnlyHostsThatAreAllowedAreCalled(t *testing.T) {
	t.Parallel()
	nowhere := names(t)
	cases := map[string]struct {
		hosts, allowed, refused []string
	}{
		"by default, Services of the cluster": {
			allowed: []string{
				"http://prometheus.monitoring.svc:9090", "https://prometheus.monitoring.svc.cluster.local/prefix/", "http://prometheus.monitoring:9090",
				"http://PROMETHEUS.monitoring.SVC.", "http://pod-0.prometheus.monitoring.svc",
			},
			refused: []string{
				"http://prometheus:9090", "http://prometheus.example.com", "http://10.0.0.1:9090", "http://localhost:9090", "http://127.0.0.1:9090",
				"http://svc", "http://evil.svc", "http://svc.cluster.local", "http://prometheus.monitoring.svc.example.com", "http://[::1]:9090", "http://2130706433",
				"http://0x7f.1", "http://127.1", "http://10.1", "http://prometheus.monitoring.cluster.local", "http://-a.b.svc", "http://a..svc",
			},
		},
		"a name, on one port": {
			hosts:   []string{"prometheus.example.com:9090"},
			allowed: []string{"https://prometheus.example.com:9090"},
			refused: []string{"http://prometheus.example.com", "http://a.prometheus.example.com:9090", "http://prometheus.monitoring.svc"},
		},
		"names below one, and Services": {
			hosts:   []string{"*.example.com", metric.Services},
			allowed: []string{"http://prometheus.example.com", "http://a.b.example.com:1", "http://prometheus.monitoring"},
			refused: []string{"http://example.com.evil.org", "http://a.evilexample.com.", "http://10.0.0.1"},
		},
		"everything, but addresses that nobody may reach": {
			hosts:   []string{"*"},
			allowed: []string{"http://prometheus", "http://example.com"},
			refused: []string{
				"http://127.0.0.1:9090", "http://[::1]", "http://169.254.169.254", "http://[fe80::1]", "http://[fe80::1%25eth0]", "http://0.0.0.0", "http://[::]",
				"http://[::ffff:169.254.169.254]", "http://[::ffff:127.0.0.1]", "http://[::ffff:100.100.100.200]", "http://[fd00:ec2::254%25eth0]", "http://100.100.100.200", "http://168.63.129.16", "http://[fd00:ec2::254]", "http://[fd20:ce::254]",
				"http://224.0.0.1", "http://255.255.255.255", "http://[64:ff9b::a9fe:a9fe]", "http://[2002:a9fe:a9fe::]", "http://[::7f00:1]",
			},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			one, _ := client(t, func(o *metric.Options) { o.Hosts, o.Resolver = hosts(t, c.hosts...), nowhere })
			for _, address := range c.allowed {
				if _, err := one.Query(t.Context(), at(address)); metric.OutcomeOf(err) != metric.Unreachable {
					t.Errorf("%s was not tried: %v", address, err)
				}
			}
			for _, address := range c.refused {
				if _, err := one.Query(t.Context(), at(address)); metric.OutcomeOf(err) != metric.NotAllowed {
					t.Errorf("%s was tried: %v", address, err)
				}
			}
		})
	}
}

func TestAnAddressThatIsNoneIsExplained(t *testing.T) {
	t.Parallel()
	cases := map[string]string{
		"file:///etc/passwd":             "begins with http:// or https://",
		"prometheus.monitoring.svc:9090": "begins with http:// or https://",
		"":                               "begins with http:// or https://",
		"http://":                        "names no host",
		"http://a b":                     "this is no address",
		"http://me:secret@prometheus.monitoring.svc": "Put username and password into a Secret",
		"http://prometheus.monitoring.svc?x=y":       "Leave out what follows ?",
		"http://prometheus.monitoring.svc/#x":        "Leave out what follows ?",
		"http://example.com/a/":                      "cannot be reached", // the Service example of the namespace com
	}
	c, _ := client(t, func(o *metric.Options) { o.Hosts, o.Resolver = metric.Hosts{}, names(t) })
	for address, want := range cases {
		_, err := c.Query(t.Context(), at(address))
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret@") {
			t.Errorf("%q: it is %v, not about %q", address, err, want)
		}
	}
}

func TestAnAllowListWithMistakesIsRefused(t *testing.T) {
	t.Parallel()
	for _, entry := range []string{"", "http://prometheus", "a b", "*.*", "pro*.example.com", "-", "*."} {
		if _, err := metric.ParseHosts([]string{entry}); err == nil {
			t.Errorf("%q is taken for a host", entry)
		}
	}
}

// The client checks the address of a name at each connection, because the name may resolve to another address each time.
func TestANameThatMeansAForbiddenAddressIsNotCalled(t *testing.T) {
	t.Parallel()
	cases := map[string]string{
		"of this machine":                  "127.0.0.1",
		"of a cloud's metadata":            "169.254.169.254",
		"link-local":                       "fe80::1",
		"none":                             "0.0.0.0",
		"of this machine, as IPv6":         "::1",
		"metadata, in the form of IPv6":    "::ffff:169.254.169.254",
		"metadata behind NAT64":            "64:ff9b::a9fe:a9fe",
		"metadata of AWS, by IPv6":         "fd00:ec2::254",
		"of this machine, in odd spelling": "127.255.0.9",
	}
	for name, address := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, _ := client(t, func(o *metric.Options) {
				o.Hosts, o.Resolver = hosts(t, "*", metric.Services), names(t, netip.MustParseAddr(address))
			})
			_, err := c.Query(t.Context(), at("http://prometheus.monitoring.svc:9090"))
			if metric.OutcomeOf(err) != metric.NotAllowed || !strings.Contains(err.Error(), "never read from there") {
				t.Error(err)
			}
		})
	}
}

// Without its third label the resolver would look the name up outside the cluster.
func TestNameAndNamespaceAreLookedUpAsAService(t *testing.T) {
	t.Parallel()
	// The only known name resolves to a forbidden address, which shows that the client looked it up.
	here := namesBut(t, "prometheus.monitoring.svc.", netip.MustParseAddr("127.0.0.1"))
	c, _ := client(t, func(o *metric.Options) { o.Hosts, o.Resolver = metric.Hosts{}, here })
	for _, address := range []string{"http://prometheus.monitoring:9090", "http://prometheus.monitoring.svc:9090"} {
		if _, err := c.Query(t.Context(), at(address)); metric.OutcomeOf(err) != metric.NotAllowed {
			t.Errorf("%s: %v", address, err)
		}
	}
}

// names is a DNS server that answers every name with the addresses; without addresses, no name exists.
func names(t *testing.T, addresses ...netip.Addr) *net.Resolver {
	t.Helper()
	return namesBut(t, "", addresses...)
}

// namesBut knows only one name, unless that name is empty.
func namesBut(t *testing.T, only string, addresses ...netip.Addr) *net.Resolver {
	t.Helper()
	server, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	over := make(chan struct{})
	t.Cleanup(func() {
		_ = server.Close()
		<-over
	})
	go func() {
		defer close(over)
		buffer := make([]byte, 1500)
		for {
			n, asker, err := server.ReadFrom(buffer)
			if err != nil {
				return
			}
			if answer, err := resolve(buffer[:n], only, addresses); err == nil {
				_, _ = server.WriteTo(answer, asker)
			}
		}
	}()
	return &net.Resolver{PreferGo: true, Dial: dialer(server.LocalAddr().String())}
}

func resolve(question []byte, only string, addresses []netip.Addr) ([]byte, error) {
	var message dnsmessage.Message
	if err := message.Unpack(question); err != nil {
		return nil, err
	}
	message.Response, message.Additionals = true, nil
	asked := message.Questions[0]
	if only != "" && asked.Name.String() != only {
		addresses = nil
	}
	if len(addresses) == 0 {
		message.RCode = dnsmessage.RCodeNameError
	}
	header := dnsmessage.ResourceHeader{Name: asked.Name, Type: asked.Type, Class: asked.Class}
	for _, address := range addresses {
		switch {
		case asked.Type == dnsmessage.TypeA && address.Is4():
			message.Answers = append(message.Answers, dnsmessage.Resource{Header: header, Body: &dnsmessage.AResource{A: address.As4()}})
		case asked.Type == dnsmessage.TypeAAAA && address.Is6():
			message.Answers = append(message.Answers, dnsmessage.Resource{Header: header, Body: &dnsmessage.AAAAResource{AAAA: address.As16()}})
		}
	}
	return message.Pack()
}
