package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestFiguresOfScriptsAreReadFromTheBenchmark(t *testing.T) {
	t.Parallel()
	out := `goos: linux
BenchmarkScript/networking.istio.io/VirtualService/sluice-2     	   10000	     45678 ns/op	   32000 B/op	     410 allocs/op
BenchmarkScript/networking.istio.io/VirtualService/stock-2      	     700	   1560000 ns/op	  425000 B/op	    4356 allocs/op
BenchmarkScript/nginx/sluice      	   10000	     1000 ns/op	   2.5 MB/s	   2000 B/op	     4 allocs/op
BenchmarkScript/nginx/sluice      	   10000	     9000 ns/op	   2000 B/op	     4 allocs/op
PASS
`
	want := []Script{
		{Name: "networking.istio.io/VirtualService", Sluice: Cost{45.678, 32, 410}, Stock: Cost{1560, 425, 4356}},
		{Name: "nginx", Sluice: Cost{1, 2, 4}},
	}
	if diff := cmp.Diff(want, parseScripts([]byte(out))); diff != "" {
		t.Errorf("figures differ (-want +got):\n%s", diff)
	}
}
