package metric

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"syscall"
	"time"
)

// dialTimeout bounds the way to a provider, so that the error says that it was the way.
const dialTimeout = 5 * time.Second

// dialer connects to allowed providers. The address is checked after the name is resolved, for each address that is tried: a name may
// mean something else each time it is asked for.
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
