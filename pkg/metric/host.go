package metric

import (
	"fmt"
	"net"
	"net/netip"
	"strings"
)

// Services is the entry of an allow-list for all Services of the cluster: NAME.NAMESPACE.svc, NAME.NAMESPACE.svc.cluster.local and NAME.NAMESPACE,
// which is looked up as NAME.NAMESPACE.svc.
const Services = "services"

// Hosts are the hosts of the providers that may be called. The zero value allows Services only.
type Hosts struct{ rules []hostRule }

// hostRule allows a host, or the hosts below it, on one port or on all.
type hostRule struct {
	services, any, below bool
	host, port           string
}

// hostPermit is an allowed host.
type hostPermit struct {
	// dial is the name to look up in place of the host.
	dial string
	// loopback says that the operator named an address of this machine.
	loopback bool
}

// ParseHosts reads an allow-list. An entry is a host or an IP address, with or without a port. "*.SUFFIX" means every name below SUFFIX, and "*"
// means every name and address. Services is an entry, too. No entry ever allows link-local addresses, or those at which clouds give machines their
// secrets. Loopback addresses are allowed only if an entry names them, or localhost.
func ParseHosts(entries []string) (Hosts, error) {
	var hosts Hosts
	for _, entry := range entries {
		rule, err := parseHostRule(strings.ToLower(strings.TrimSpace(entry)))
		if err != nil {
			return Hosts{}, fmt.Errorf("read the host %q: %w", entry, err)
		}
		hosts.rules = append(hosts.rules, rule)
	}
	return hosts, nil
}

func parseHostRule(entry string) (hostRule, error) {
	if entry == Services {
		return hostRule{services: true}, nil
	}
	if strings.Contains(entry, "/") {
		return hostRule{}, fmt.Errorf("write a host without a scheme or a path, such as prometheus.example.com:9090")
	}
	rule := hostRule{host: entry}
	if _, err := netip.ParseAddr(entry); err != nil {
		if host, port, err := net.SplitHostPort(entry); err == nil {
			rule.host, rule.port = host, port
		}
	}
	if rule.host == "*" {
		rule.any = true
		return rule, nil
	}
	rule.host = strings.TrimSuffix(rule.host, ".")
	rule.host, rule.below = strings.CutPrefix(rule.host, "*.")
	if _, err := netip.ParseAddr(rule.host); !isName(rule.host) && err != nil {
		return hostRule{}, fmt.Errorf("it is neither a name nor an address; a star may only stand alone or before a dot at the beginning")
	}
	return rule, nil
}

// allowHost reports whether a host in lower case may be called on a port, and how to call it.
func (h Hosts) allowHost(host, port string) (hostPermit, bool) {
	host = strings.TrimSuffix(host, ".")
	rules := h.rules
	if len(rules) == 0 {
		rules = []hostRule{{services: true}}
	}
	found, ok := hostPermit{dial: host}, false
	services := false
	for _, rule := range rules {
		switch {
		case rule.services:
			services = true
		case rule.port != "" && rule.port != port:
		case rule.any:
			ok = true
		case rule.below && strings.HasSuffix(host, "."+rule.host):
			ok = true
		case !rule.below && rule.host == host:
			ok = true
			found.loopback = found.loopback || isLoopback(host)
		}
	}
	if name, is := serviceName(host); services && is && !ok {
		return hostPermit{dial: name}, true
	}
	return found, ok
}

// serviceName returns the name of a Service to look up. NAME.NAMESPACE gets its third label, because otherwise example.com would be a Service.
func serviceName(host string) (string, bool) {
	name := strings.TrimSuffix(host, ".cluster.local")
	labels := strings.Split(name, ".")
	if !isName(name) {
		return "", false
	}
	switch {
	case len(labels) == 2 && name == host && labels[1] != "svc":
		return host + ".svc", true
	case len(labels) >= 3 && labels[len(labels)-1] == "svc":
		return host, true
	}
	return "", false
}

func isLoopback(host string) bool {
	address, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && address.Unmap().IsLoopback()
}

// isName reports whether text is a DNS name in lower case, and not an IP address in a spelling that a resolver might accept.
func isName(text string) bool {
	labels := strings.Split(text, ".")
	for _, label := range labels {
		if label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' {
			return false
		}
		if strings.Trim(label, "abcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
			return false
		}
	}
	last := labels[len(labels)-1]
	return len(text) <= 253 && (last[0] < '0' || last[0] > '9')
}
