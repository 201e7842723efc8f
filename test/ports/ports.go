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

var (
	mu    sync.Mutex
	given = map[int]bool{}
)

// Free is a port of 127.0.0.1 on which nobody listens. No test of this process is given it again, and one of another process only
// by a chance of one in 22,000.
func Free(t testing.TB) int {
	t.Helper()
	mu.Lock()
	defer mu.Unlock()
	for range end - first {
		port := first + rand.IntN(end-first)
		if given[port] {
			continue
		}
		if l, err := net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(port)); err == nil {
			_ = l.Close()
			given[port] = true
			return port
		}
	}
	t.Fatal("no port is free")
	return 0
}
