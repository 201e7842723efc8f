package controlplane

import (
	"fmt"
	"strings"
	"sync"
	"testing"
)

// ForTest starts a cluster that ends with the test. With -short it skips the test.
func ForTest(t testing.TB, opts Options) *Cluster {
	t.Helper()
	if testing.Short() {
		t.Skip("it needs a control plane, which -short leaves out")
	}
	c, err := Start(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// longestName leaves room in the 63 bytes of a namespace for the suffixes of tests.
const longestName = 50

var named struct {
	sync.Mutex
	taken map[string]bool
}

// NamespaceFor returns a name for the namespace of a test. It is the end of the test's name, with a number if the name
// was used before.
func NamespaceFor(t testing.TB) string {
	name := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			return r
		case strings.ContainsRune("/_ -", r):
			return '-'
		}
		return -1
	}, strings.ToLower(t.Name()))
	name = strings.Trim(name[max(0, len(name)-longestName):], "-")
	named.Lock()
	defer named.Unlock()
	if named.taken == nil {
		named.taken = map[string]bool{}
	}
	free := name
	for n := 2; named.taken[free]; n++ {
		free = fmt.Sprintf("%s-%d", name, n)
	}
	named.taken[free] = true
	return free
}
