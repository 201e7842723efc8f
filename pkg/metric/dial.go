package metric

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"syscall"
	"time"
)

// dialTimeout bounds the connection to a provider, so that the error names the connection as the cause.
const dialTimeout = 5 * time.Second

// dialer connects to allowed providers. It checks each address after the resolution of the name, because a name may resolve to another address each
// time.
type dialer struct {
	hosts    Hosts
	resolver *net.Resolver
}

func (d *dialer) dialAllowed(ctx context.Context, network, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("split the address: %w", err)
	}
	found, ok := d.hosts.allowHost(host, port)
	if !ok {
		return nil, &forbiddenAddress{why: "no host that may be called"}
	}
	way := net.Dialer{
		Timeout:  dialTimeout,
		Resolver: d.resolver,
		Control: func(_, resolved string, _ syscall.RawConn) error {
			end, err := netip.ParseAddrPort(resolved)
			if err != nil {
				return fmt.Errorf("read the address that was found: %w", err)
			}
			return checkAddress(end.Addr(), found.loopback)
		},
	}
	return way.DialContext(ctx, network, net.JoinHostPort(found.dial, port))
}
