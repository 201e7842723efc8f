package main

import (
	"strings"
	"testing"

	"gotest.tools/gotestsum/testjson"
)

func TestAJobPlaysWhatItsPatternsSelect(t *testing.T) {
	t.Parallel()
	for sentence, c := range map[string]struct {
		of   job
		test testFunc
		want bool
	}{
		"a package below a pattern":             {job{packages: []string{"./pkg/..."}}, testFunc{"", "pkg/queue", "TestA"}, true},
		"the package of a pattern":              {job{packages: []string{"./pkg/..."}}, testFunc{"", "pkg", "TestA"}, true},
		"a package that only begins alike":      {job{packages: []string{"./pkg/..."}}, testFunc{"", "pkgs/queue", "TestA"}, false},
		"a package that is taken away":          {job{packages: []string{"./pkg/...", "-./pkg/queue"}}, testFunc{"", "pkg/queue", "TestA"}, false},
		"another module":                        {job{packages: []string{"./dev/..."}}, testFunc{"dev/cluster", "dev/cluster", "TestA"}, false},
		"a module of its own":                   {job{module: "dev/cluster", packages: []string{"."}}, testFunc{"dev/cluster", "dev/cluster", "TestA"}, true},
		"a test that is selected":               {job{packages: []string{"./a"}, run: "^TestA$|^TestB$"}, testFunc{"", "a", "TestB"}, true},
		"a test that is not selected":           {job{packages: []string{"./a"}, run: "^TestA$"}, testFunc{"", "a", "TestAB"}, false},
		"a test of which a subtest is selected": {job{packages: []string{"./a"}, run: "^TestA$/^one$"}, testFunc{"", "a", "TestA"}, true},
		"a test that is left out":               {job{packages: []string{"./a"}, skip: "^TestA$"}, testFunc{"", "a", "TestA"}, false},
		"a test of which a subtest is left out": {job{packages: []string{"./a"}, skip: "^TestA$/^one$"}, testFunc{"", "a", "TestA"}, true},
		"all tests where nothing is left out":   {job{packages: []string{"./a"}}, testFunc{"", "a", "TestA"}, true},
	} {
		t.Run(sentence, func(t *testing.T) {
			t.Parallel()
			if got := c.of.plays(c.test); got != c.want {
				t.Errorf("it is %t, want %t", got, c.want)
			}
		})
	}
}

const events = `{"Action":"run","Package":"sluice.dev/sluice/pkg/queue","Test":"TestA"}
{"Action":"output","Package":"sluice.dev/sluice/pkg/queue","Test":"TestA","Output":"=== RUN   TestA\n"}
{"Action":"run","Package":"sluice.dev/sluice/pkg/queue","Test":"TestA/b_c"}
{"Action":"output","Package":"sluice.dev/sluice/pkg/queue","Test":"TestA/b_c","Output":"=== RUN   TestA/b_c\n"}
{"Action":"output","Package":"sluice.dev/sluice/pkg/queue","Test":"TestA/b_c","Output":"    a_test.go:7: wrong\n"}
{"Action":"output","Package":"sluice.dev/sluice/pkg/queue","Test":"TestA/b_c","Output":"    --- FAIL: TestA/b_c (0.10s)\n"}
{"Action":"fail","Package":"sluice.dev/sluice/pkg/queue","Test":"TestA/b_c","Elapsed":0.1}
{"Action":"output","Package":"sluice.dev/sluice/pkg/queue","Test":"TestA","Output":"--- FAIL: TestA (0.10s)\n"}
{"Action":"fail","Package":"sluice.dev/sluice/pkg/queue","Test":"TestA","Elapsed":0.1}
{"Action":"run","Package":"sluice.dev/sluice/pkg/queue","Test":"TestB"}
{"Action":"output","Package":"sluice.dev/sluice/pkg/queue","Test":"TestB","Output":"what a test says that passes\n"}
{"Action":"pass","Package":"sluice.dev/sluice/pkg/queue","Test":"TestB","Elapsed":0.1}
{"Action":"fail","Package":"sluice.dev/sluice/pkg/queue","Elapsed":41.2}
`

func TestOfAFailureItsOutputAloneIsPrinted(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	r := &report{out: &out, command: "test", expected: times{}}
	seen := newSight(job{race: false, packages: []string{"./pkg/..."}}, r.of("unit"))
	if _, err := testjson.ScanTestOutput(testjson.ScanConfig{Stdout: strings.NewReader(events), Handler: seen}); err != nil {
		t.Fatal(err)
	}
	const want = `FAIL  pkg/queue                                        41 s  3 tests

--- FAIL: pkg/queue TestA/b_c
    a_test.go:7: wrong
    --- FAIL: TestA/b_c (0.10s)
to see it again: go test -count=1 -run '^TestA$/^b_c$' ./pkg/queue

`
	if got := out.String(); got != want || !seen.red {
		t.Errorf("it prints\n%s\nwant\n%s", got, want)
	}
}

const dies = `{"Action":"run","Package":"sluice.dev/sluice/pkg/queue","Test":"TestA"}
{"Action":"run","Package":"sluice.dev/sluice/pkg/queue","Test":"TestA/b"}
{"Action":"run","Package":"sluice.dev/sluice/pkg/queue","Test":"TestC"}
{"Action":"output","Package":"sluice.dev/sluice/pkg/queue","Test":"TestC","Output":"what a test says that runs\n"}
{"Action":"output","Package":"sluice.dev/sluice/pkg/queue","Test":"TestA/b","Output":"panic: test timed out after 30m0s\n"}
{"Action":"output","Package":"sluice.dev/sluice/pkg/queue","Test":"TestA/b","Output":"goroutine 1 [running]:\n"}
{"Action":"output","Package":"sluice.dev/sluice/pkg/queue","Output":"FAIL\tsluice.dev/sluice/pkg/queue\t41.2s\n"}
{"Action":"fail","Package":"sluice.dev/sluice/pkg/queue","Elapsed":41.2}
`

func TestOfAProcessThatDiesItsLastWordsArePrinted(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	r := &report{out: &out, command: "test", expected: times{}}
	if _, err := testjson.ScanTestOutput(testjson.ScanConfig{Stdout: strings.NewReader(dies), Handler: newSight(job{packages: []string{"./pkg/..."}}, r.of("unit"))}); err != nil {
		t.Fatal(err)
	}
	const want = "it ended while these ran: TestA/b, TestC\npanic: test timed out after 30m0s\ngoroutine 1 [running]:\n"
	if got := out.String(); !strings.Contains(got, want) || strings.Contains(got, "what a test says") {
		t.Errorf("it prints\n%s\nwithout\n%s", got, want)
	}
}

func TestDownloadsOfABuildAreNotShownOneByOne(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	p := &progress{out: &out}
	for _, text := range []string{"building\ngo: downl", "oading a v1\ngo: downloading b v1\n", "built\n"} {
		if n, err := p.Write([]byte(text)); n != len(text) || err != nil {
			t.Fatal(n, err)
		}
	}
	if out.String() != "building\nbuilt\n" {
		t.Errorf("it shows %q", out.String())
	}
}
