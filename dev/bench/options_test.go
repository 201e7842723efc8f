package main

import (
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestFlagsThatMakeNoSenseAreRefusedWithWhatToDo(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ args, want string }{
		"a word":                       {"fast", `"fast" is no flag`},
		"a number that is none":        {"--releases 10,x", `"x" is no number above 0`},
		"an unknown form":              {"-o yaml", "use table or json"},
		"an unknown style":             {"--style blue", "use canary, partition, blue-green"},
		"an unknown measure":           {"--measure speed", "use script, floor, alone, many, noisy, idle, fleet, analysis"},
		"external without a cluster":   {"--external", "--external needs --kubeconfig"},
		"a cluster without external":   {"--kubeconfig x", "go with --external"},
		"a process without its number": {"--external --kubeconfig x --pid executor", "use name=pid"},
		"no steps":                     {"--steps 0", "--steps (1 to 50)"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := parse(strings.Fields(c.args), io.Discard)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error is %v, want %q", err, c.want)
			}
		})
	}
}

func TestFullMeansAllSizesButThoseThatWereGiven(t *testing.T) {
	t.Parallel()
	o, err := parse([]string{"--full", "--executors", "3"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	type sizes struct {
		Releases, Executors []int
		Idle, Measures      int
		Limit               time.Duration
	}
	want := sizes{[]int{100, 300}, []int{3}, 10000, 8, 2 * time.Hour}
	if diff := cmp.Diff(want, sizes{o.releases, o.executors, o.idle, len(o.what), o.limit}); diff != "" {
		t.Errorf("sizes differ (-want +got):\n%s", diff)
	}
}
