// Package ports gives tests ports for servers that need a fixed port. These must know it before they start, or start
// again on the same one. Every other server of a test gets its port from the kernel.
package ports

import (
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
	"testing"
)

// The ports are below the range of kernels. From that range, any client may get a port while the server is down.
const first, end = 10_000, 32_000

const host = "127.0.0.1:"

var (
	mu sync.Mutex
	// claims are UDP sockets on the returned ports. This process keeps them until it ends.
	claims []net.PacketConn
)

// Address returns 127.0.0.1 with a port of Free.
func Address(t testing.TB) string {
	t.Helper()
	return host + strconv.Itoa(Free(t))
}

// Free returns a TCP port of 127.0.0.1 on which no process listens. While this process lives, no other call returns the
// same port, in this process or in another one. For this, the process holds the UDP port of the same number, and Free
// skips ports whose UDP port is held.
func Free(t testing.TB) int {
	t.Helper()
	mu.Lock()
	defer mu.Unlock()
	for range end - first {
		port := first + rand.IntN(end-first)
		address := host + strconv.Itoa(port)
		claim, err := net.ListenPacket("udp", address)
		if err != nil {
			continue
		}
		if l, err := net.Listen("tcp", address); err == nil {
			_ = l.Close()
			claims = append(claims, claim)
			return port
		}
		_ = claim.Close()
	}
	t.Fatal("no port is free")
	return 0
}
