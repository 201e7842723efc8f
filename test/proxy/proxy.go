// Package proxy carries the connections of a member of a fleet to the NATS of its hub, and cuts and delays them. Tests and the demo use it as the network between
// the two.
package proxy

import (
	"fmt"
	"io"
	"net"
	"net/url"
	"sync"
	"time"
)

// Proxy is one such network. It listens on a port of the loopback interface.
type Proxy struct {
	listener net.Listener
	work     sync.WaitGroup

	mu     sync.Mutex
	server string // host and port of the hub's NATS, "" before LeadTo
	cut    bool
	delay  time.Duration
	open   map[net.Conn]bool
}

// New returns a proxy that breaks each connection until LeadTo.
func New() (*Proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen as the network of a member: %w", err)
	}
	p := &Proxy{listener: l, open: map[net.Conn]bool{}}
	p.work.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			p.work.Go(func() { p.carry(client) })
		}
	})
	return p, nil
}

// URL is the address of the hub's NATS for the member.
func (p *Proxy) URL() string { return "nats://" + p.listener.Addr().String() }

// CutOff breaks all connections, and accepts none until Restore.
func (p *Proxy) CutOff() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = true
	for c := range p.open {
		_ = c.Close()
	}
}

// Slow delays all data from the hub.
func (p *Proxy) Slow(by time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay = by
}

// Restore ends a cut and a delay.
func (p *Proxy) Restore() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut, p.delay = false, 0
}

// LeadTo leads new connections to the NATS server with this URL.
func (p *Proxy) LeadTo(server string) error {
	u, err := url.Parse(server)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.server = u.Host
	return nil
}

// Close breaks all connections, and waits until the proxy has ended.
func (p *Proxy) Close() {
	p.CutOff()
	_ = p.listener.Close()
	p.work.Wait()
}

// enter keeps a connection until it ends. It reports whether the connection may go on.
func (p *Proxy) enter(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open[c] = true
	return !p.cut
}

func (p *Proxy) leave(c net.Conn) {
	_ = c.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.open, c)
}

func (p *Proxy) carry(client net.Conn) {
	defer p.leave(client)
	if !p.enter(client) {
		return
	}
	p.mu.Lock()
	address := p.server
	p.mu.Unlock()
	server, err := net.Dial("tcp", address)
	if err != nil {
		return
	}
	defer p.leave(server)
	if !p.enter(server) {
		return
	}
	p.work.Go(func() { _, _ = io.Copy(server, client); _ = server.Close() })
	buffer := make([]byte, 32<<10)
	for {
		n, err := server.Read(buffer)
		if err != nil {
			return
		}
		p.mu.Lock()
		delay := p.delay
		p.mu.Unlock()
		time.Sleep(delay)
		if _, err := client.Write(buffer[:n]); err != nil {
			return
		}
	}
}
