package metric

import (
	"fmt"
	"net/netip"
	"slices"
)

// forbidden are addresses that Sluice never calls, in addition to those that a property of netip.Addr names. At some of them clouds give machines
// their identity. The others translate IPv4 into IPv6, and may lead to any IPv4 address.
var forbidden = []netip.Prefix{
	netip.MustParsePrefix("100.100.100.200/32"), // Alibaba Cloud
	netip.MustParsePrefix("168.63.129.16/32"),   // Azure
	netip.MustParsePrefix("192.0.0.192/32"),     // Oracle Cloud
	netip.MustParsePrefix("fd00:ec2::/32"),      // AWS
	netip.MustParsePrefix("fd20:ce::254/128"),   // Google Cloud
	netip.MustParsePrefix("0.0.0.0/8"),          // no address, and this network: Linux treats it as loopback
	netip.MustParsePrefix("240.0.0.0/4"),        // reserved, and broadcast
	netip.MustParsePrefix("64:ff9b::/96"),       // NAT64
	netip.MustParsePrefix("64:ff9b:1::/48"),     // NAT64, local use
	netip.MustParsePrefix("2002::/16"),          // 6to4
	netip.MustParsePrefix("2001::/32"),          // Teredo
	netip.MustParsePrefix("::/96"),              // no address, and IPv4-compatible
}

// forbiddenAddress is the reason why Sluice does not call an address.
type forbiddenAddress struct {
	address netip.Addr
	why     string
}

func (r *forbiddenAddress) Error() string { return fmt.Sprintf("%s is %s", r.address, r.why) }

// checkAddress returns a *forbiddenAddress, or nil if the address may be called.
func checkAddress(address netip.Addr, loopback bool) error {
	address = address.Unmap().WithZone("")
	switch {
	case address.IsLoopback():
		if loopback {
			return nil
		}
		return &forbiddenAddress{address, "an address of this machine"}
	case address.IsLinkLocalUnicast():
		return &forbiddenAddress{address, "a link-local address"}
	case address.IsMulticast():
		return &forbiddenAddress{address, "a multicast address"}
	case slices.ContainsFunc(forbidden, func(p netip.Prefix) bool { return p.Contains(address) }):
		return &forbiddenAddress{address, "reserved, or tells machines their secrets"}
	}
	return nil
}
