package metric_test

import (
	"compress/gzip"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sluice.dev/sluice/pkg/metric"
	"sluice.dev/sluice/test/ports"
)

// Every text says what to do next; ADDRESS stands for the provider.
func TestWhateverAProviderDoesThePeopleLearnWhatToDo(t *testing.T) {
	t.Parallel()
	const asJSON = "application/json"
	cases := map[string]struct {
		handler http.HandlerFunc
		outcome metric.Outcome
		text    string
	}{
		"a page with status 200": {
			says(200, "text/html; charset=utf-8", "<!DOCTYPE html><html>Sign in</html>"), metric.NotPrometheus,
			`Prometheus at "ADDRESS" answered with a page for people, not with data. Correct the address; a login page wants credentials from a Secret.`,
		},
		"a page that says that it is JSON": {
			says(200, asJSON, "\n<html>"), metric.NotPrometheus,
			`Prometheus at "ADDRESS" answered with a page for people, not with data. Correct the address; a login page wants credentials from a Secret.`,
		},
		"half an answer": {
			says(200, asJSON, one[:30]), metric.NotPrometheus,
			`Prometheus at "ADDRESS" answered with something that is not JSON: "{\"status\":\"success\",\"data\":{\"r". Check that a Prometheus listens at the address.`,
		},
		"nothing": {
			says(200, asJSON, ""), metric.NotPrometheus,
			`Prometheus at "ADDRESS" answered with something that is not JSON: an empty body. Check that a Prometheus listens at the address.`,
		},
		"JSON of something else": {
			says(200, asJSON, `{"status":"success","data":{"resultType":"table","result":[]}}`), metric.NotPrometheus,
			`Prometheus at "ADDRESS" gave an answer that Prometheus' API does not have: "unknown value type \"table\"". Check that a Prometheus listens at the address.`,
		},
		"a series that is null": {
			says(200, asJSON, `{"status":"success","data":{"resultType":"vector","result":[null]}}`), metric.NotPrometheus,
			`Prometheus at "ADDRESS" gave an answer that Prometheus' API does not have: "a series is null". Check that a Prometheus listens at the address.`,
		},
		"a series over time that is null": {
			says(200, asJSON, `{"status":"success","data":{"resultType":"matrix","result":[null]}}`), metric.NotPrometheus,
			`Prometheus at "ADDRESS" gave an answer that Prometheus' API does not have: "a series is null". Check that a Prometheus listens at the address.`,
		},
		"a redirect": {
			func(w http.ResponseWriter, r *http.Request) {
				http.Redirect(w, r, "http://169.254.169.254/latest?token=secret", http.StatusFound)
			}, metric.Redirected,
			`Prometheus at "ADDRESS" redirects to "http://169.254.169.254/latest", and redirects are not followed. Name the address where queries are answered; a login page wants credentials from a Secret.`,
		},
		"a redirect that keeps the method": {
			func(w http.ResponseWriter, r *http.Request) {
				http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
			}, metric.Redirected,
			`Prometheus at "ADDRESS" redirects to "ADDRESS/elsewhere", and redirects are not followed. Name the address where queries are answered; a login page wants credentials from a Secret.`,
		},
		"wrong credentials": {
			says(401, asJSON, "{}"), metric.Unauthorized,
			`Prometheus at "ADDRESS" refuses the credentials: 401 Unauthorized. Correct the Secret that the template names.`,
		},
		"another path": {
			says(404, "text/plain", "404 page not found"), metric.NotPrometheus,
			`Prometheus at "ADDRESS" has no query API at /api/v1/query: 404 Not Found. Correct the address, whose path is what comes before /api/v1.`,
		},
		"a query that cannot be read": {
			says(400, asJSON, `{"status":"error","errorType":"bad_data","error":"1:3: parse error"}`), metric.BadQuery,
			`Prometheus at "ADDRESS" cannot read the query: "1:3: parse error". Correct it in the template.`,
		},
		"a query that cannot be carried out": {
			says(422, asJSON, `{"status":"error","errorType":"execution","error":"many-to-many matching"}`), metric.QueryFailed,
			`Prometheus at "ADDRESS" cannot carry out the query: "many-to-many matching". Correct it in the template.`,
		},
		"a query that takes Prometheus too long": {
			says(503, asJSON, `{"status":"error","errorType":"timeout","error":"query timed out"}`), metric.QueryFailed,
			`Prometheus at "ADDRESS" gave up on the query because it took too long: "query timed out". Make the query simpler, or the range shorter.`,
		},
		"trouble of its own": {
			says(500, "text/plain", "no space left\non device"), metric.ProviderFailed,
			`Prometheus at "ADDRESS" has trouble of its own: 500 Internal Server Error, "\"no space left\\non device\"". It is asked again at the next interval.`,
		},
		"too many requests": {
			says(429, "text/plain", "limit of the tenant"), metric.Throttled,
			`Prometheus at "ADDRESS" answers no more queries for now: "limit of the tenant". Make intervals longer, or ask for a higher limit.`,
		},
		"a small body that unpacks to a large one": {
			func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Encoding", "gzip")
				packed := gzip.NewWriter(w)
				_, _ = packed.Write(make([]byte, 100<<20))
				_ = packed.Close()
			}, metric.TooLarge,
			`Prometheus at "ADDRESS" answered with more than 1024 KiB. Let the query aggregate, for instance by sum(...), so that it has few series.`,
		},
		"a connection that is cut": {
			func(w http.ResponseWriter, _ *http.Request) {
				connection, _, _ := w.(http.Hijacker).Hijack()
				_ = connection.Close()
			}, metric.Unreachable,
			`Prometheus at "ADDRESS" cannot be reached: EOF. Check the address in the template, and that the Service has endpoints.`,
		},
	}
	for name, want := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := serve(t, want.handler)
			c, _ := client(t, nil)
			_, err := c.Query(t.Context(), at(server.URL))
			if got := metric.OutcomeOf(err); got != want.outcome {
				t.Errorf("it is %s, not %s", got, want.outcome)
			}
			if diff := cmp.Diff(strings.ReplaceAll(want.text, "ADDRESS", server.URL), fmt.Sprint(err)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestNobodyAtTheAddress(t *testing.T) {
	t.Parallel()
	address := "http://" + ports.Address(t)
	c, _ := client(t, nil)
	_, err := c.Query(t.Context(), at(address))
	want := `Prometheus at "` + address + `" cannot be reached: connect: connection refused. Check the address in the template, and that the Service has endpoints.`
	if diff := cmp.Diff(want, fmt.Sprint(err)); diff != "" || metric.OutcomeOf(err) != metric.Unreachable {
		t.Error(metric.OutcomeOf(err), diff)
	}
}

func TestAProviderThatTakesNoPOSTIsAskedByGET(t *testing.T) {
	t.Parallel()
	for _, status := range []int{403, 405, 501} {
		server := serve(t, func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPost {
				w.WriteHeader(status)
			} else if got := r.FormValue("query"); got != "up" {
				t.Errorf("the query is %q", got)
			} else {
				says(200, "application/json", one)(w, r)
			}
		})
		c, _ := client(t, nil)
		if _, err := c.Query(t.Context(), at(server.URL)); err != nil {
			t.Error(status, err)
		}
	}
}

// The body has no end, so only the limit can end it.
func TestOfABodyWithoutEndLittleIsRead(t *testing.T) {
	t.Parallel()
	var sent atomic.Int64
	over := make(chan struct{})
	server := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		defer close(over)
		w.Header().Set("Content-Type", "application/json")
		chunk := []byte(strings.Repeat(" ", 64<<10))
		for {
			n, err := w.Write(chunk)
			if err != nil {
				return
			}
			sent.Add(int64(n))
		}
	})
	c, _ := client(t, nil)
	_, err := c.Query(t.Context(), at(server.URL))
	if metric.OutcomeOf(err) != metric.TooLarge {
		t.Fatal(err)
	}
	<-over
	// The other bytes lie in the buffers of the two sockets.
	if sent.Load() > 32<<20 {
		t.Errorf("%d MiB were sent before the connection was closed", sent.Load()>>20)
	}
}

func TestAnAnswerOfExactlyTheLimitIsRead(t *testing.T) {
	t.Parallel()
	c, _ := client(t, nil)
	for size, want := range map[int]metric.Outcome{metric.MaxBody: metric.Answered, metric.MaxBody + 1: metric.TooLarge} {
		server := serve(t, says(200, "application/json", one+strings.Repeat(" ", size-len(one))))
		_, err := c.Query(t.Context(), at(server.URL))
		if got := metric.OutcomeOf(err); got != want {
			t.Errorf("%d bytes: it is %s, not %s", size, got, want)
		}
	}
}

func TestASlowAnswerEndsWithTheDeadline(t *testing.T) {
	t.Parallel()
	cases := map[string]func(w http.ResponseWriter){
		"no answer at all": func(http.ResponseWriter) {},
		"a body that does not end": func(w http.ResponseWriter) {
			_, _ = w.Write([]byte(one[:10]))
			w.(http.Flusher).Flush()
		},
	}
	for name, begin := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, let := stalling(t, begin)
			defer let()
			c, _ := client(t, nil)
			request := at(server.URL)
			request.Timeout = 50 * time.Millisecond
			_, err := c.Query(t.Context(), request)
			want := `Prometheus at "` + server.URL + `" did not answer in time. Make the query simpler, or see why Prometheus is slow.`
			if diff := cmp.Diff(want, fmt.Sprint(err)); diff != "" || metric.OutcomeOf(err) != metric.Late {
				t.Error(metric.OutcomeOf(err), diff)
			}
		})
	}
}

func TestACallerThatGivesUpIsNoTroubleOfTheProvider(t *testing.T) {
	t.Parallel()
	arrived := make(chan struct{})
	server, let := stalling(t, func(http.ResponseWriter) { close(arrived) })
	defer let()
	c, _ := client(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-arrived
		cancel()
	}()
	_, err := c.Query(ctx, at(server.URL))
	if metric.OutcomeOf(err) != metric.Ended {
		t.Error(err)
	}
}

// stalling serves answers that begin and stop until the test calls let.
func stalling(t *testing.T, begin func(http.ResponseWriter)) (server *httptest.Server, let func()) {
	t.Helper()
	gate := make(chan struct{})
	server = serve(t, func(w http.ResponseWriter, _ *http.Request) {
		begin(w)
		<-gate
	})
	return server, func() { close(gate) }
}
