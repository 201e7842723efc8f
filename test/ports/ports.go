// Package ports gives tests ports for servers that must know theirs before they start, or start a second time on the same one.
// Every other server of a test asks the kernel for one.
package ports

import (
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
	"testing"
)

// The ports lie below those that kernels hand out, of which a client of anybody's may get one while the server is down.
const first, end = 10_000, 32_000

const host = "127.0.0.1:"

var (
	mu sync.Mutex
	// claims are UDP sockets on the ports that were given, which this process keeps until it ends.
	claims []net.PacketConn
)

// Address is 127.0.0.1 with a port of Free.
func Address(t testing.TB) string {
	t.Helper()
	return host + strconv.Itoa(Free(t))
}

// Free returns a TCP port of 127.0.0.1 on which no process listens. Free returns the same port to no other caller, in this process or in another
// one, while this process lives: this process holds the UDP port of the same number, and Free skips ports whose UDP port is held.
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
