package app

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func started(t *testing.T) (*Server, *Ledger) {
	t.Helper()
	ledger := &Ledger{}
	s, err := Start(ledger)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	return s, ledger
}

func get(t *testing.T, s *Server, path, user string) (code int, version, body string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+s.Address()+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set(UserHeader, user)
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, answer.Header.Get(VersionHeader), string(text)
}

func TestEachAnswerIsCountedByTheVersionThatGaveIt(t *testing.T) {
	t.Parallel()
	s, ledger := started(t)
	if code, _, _ := get(t, s, "/", "early"); code != http.StatusServiceUnavailable {
		t.Errorf("without a pod the answer is %d", code)
	}
	s.Run(Version{Name: "v1"})
	for i := range 10 {
		if code, version, _ := get(t, s, "/", fmt.Sprint(i)); code != 200 || version != "v1" {
			t.Errorf("v1 answered %d as %q", code, version)
		}
	}
	bad := Version{Name: "v2", FailEvery: 2}
	s.Run(bad)
	for i := range 10 {
		s.Run(bad) // it runs already: the request counter continues
		get(t, s, "/", fmt.Sprint(i%4))
	}
	s.Halt()
	get(t, s, "/", "late")
	got := map[string]Count{"": ledger.Of(""), "v1": ledger.Of("v1"), "v2": ledger.Of("v2"), "v3": ledger.Of("v3")}
	want := map[string]Count{
		"":   {Requests: 2, Errors: 2, UsersHit: 2},
		"v1": {Requests: 10},
		"v2": {Requests: 10, Errors: 5, UsersHit: 2},
		"v3": {},
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(Count{}, "Last")); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(20, ledger.Total()); diff != "" {
		t.Errorf("in all: %s", diff)
	}
	if ago := time.Since(ledger.Of("v2").Last); ago < 0 || ago > time.Minute {
		t.Errorf("v2 answered last %s ago", ago)
	}
}

func TestMetricsBeginAnewWithEachVersion(t *testing.T) {
	t.Parallel()
	s, _ := started(t)
	if code, _, _ := get(t, s, "/metrics", ""); code != http.StatusServiceUnavailable {
		t.Errorf("without a pod /metrics answers %d", code)
	}
	s.Run(Version{Name: "v1"})
	has := func(lines ...string) {
		t.Helper()
		_, _, body := get(t, s, "/metrics", "")
		for _, line := range lines {
			if !strings.Contains(body, line+"\n") {
				t.Errorf("there is no line %q in\n%s", line, body)
			}
		}
	}
	has(`http_requests_total{code="200",version="v1"} 0`, `http_requests_total{code="500",version="v1"} 0`)
	for range 3 {
		get(t, s, "/", "u")
	}
	has(`http_requests_total{code="200",version="v1"} 3`, `http_request_duration_seconds_count{version="v1"} 3`)
	s.Run(Version{Name: "v2", FailEvery: 3})
	for range 3 {
		get(t, s, "/", "u")
	}
	has(`http_requests_total{code="200",version="v2"} 2`, `http_requests_total{code="500",version="v2"} 1`)
	if _, _, body := get(t, s, "/metrics", ""); strings.Contains(body, `"v1"`) {
		t.Error("the series of v1 are still there")
	}
}

func TestAnAnswerTakesItsTime(t *testing.T) {
	t.Parallel()
	s, _ := started(t)
	s.Run(Version{Name: "slow", Takes: 20 * time.Millisecond})
	began := time.Now()
	const requests = 11 // each of the durations once
	for range requests {
		get(t, s, "/", "u")
	}
	if took := time.Since(began) / requests; took < 20*time.Millisecond {
		t.Errorf("an answer took %s on average, less than 20 ms", took)
	}
}
