package metric

import (
	"bytes"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"unicode"

	"sluice.dev/sluice/pkg/analysis"
)

// answers replaces the network: each request gets the same answer.
type answers struct {
	status int
	kind   string
	body   []byte
}

func (a answers) RoundTrip(request *http.Request) (*http.Response, error) {
	return &http.Response{
		StatusCode: a.status, Header: http.Header{"Content-Type": {a.kind}}, Request: request,
		Body: io.NopCloser(bytes.NewReader(a.body)),
	}, nil
}

// aTarget is a provider that needs no network.
func aTarget() *provider {
	return &provider{address: "http://prometheus.monitoring.svc", base: &url.URL{Scheme: "http", Host: "prometheus.monitoring.svc"}, header: http.Header{}}
}

// FuzzAnswer checks that every answer becomes a result of a known form or an error with a short text, without a panic.
func FuzzAnswer(f *testing.F) {
	const asJSON = "application/json"
	for _, result := range []string{
		`"vector","result":[{"metric":{"__name__":"up","job":"a"},"value":[1435781451.781,"1"]},{"metric":{},"value":[1,"NaN"]}]`,
		`"vector","result":[{"metric":{"job":"a"},"histogram":[1435781451.781,{"count":"3","sum":"4","buckets":[[1,"0.1","0.2","3"]]}]}]`,
		`"matrix","result":[{"metric":{},"values":[[1,"+Inf"],[2,"-Inf"]],"histograms":[[3,{"count":"0","sum":"0"}]]}]`,
		`"scalar","result":[1435781451.781,"1"]`,
		`"string","result":[1435781451.781,"text"]`,
		`"vector","result":[]`,
		`"vector","result":[null]`,
		`"matrix","result":[{}]`,
		`"vector","result":null`,
		`"table","result":[]`,
	} {
		f.Add(200, asJSON, []byte(`{"status":"success","data":{"resultType":`+result+`},"warnings":["partial"],"infos":["no counter"]}`))
	}
	f.Add(200, asJSON, []byte(`{"status":"success","data":null}`))
	f.Add(200, asJSON, []byte(`null`))
	f.Add(200, "text/html", []byte(`<html>`))
	f.Add(400, asJSON, []byte(`{"status":"error","errorType":"bad_data","error":"parse error"}`))
	f.Add(422, asJSON, []byte(`{"status":"success"}`))
	f.Add(302, "", []byte{})
	f.Add(503, "text/plain", []byte("\x00\xff"))
	c := New(Options{})
	f.Fuzz(func(t *testing.T, status int, kind string, body []byte) {
		answer, err := c.callProvider(t.Context(), aTarget(), answers{status, kind, body}, Request{Query: "up"})
		if err != nil {
			text := err.Error()
			if outcome := OutcomeOf(err); outcome == Panicked || outcome == Answered || outcome == "" {
				t.Errorf("it is %q: %v", outcome, err)
			}
			if len(text) > 10*shown || strings.ContainsFunc(text, unicode.IsControl) {
				t.Errorf("the text is not fit to show: %q", text)
			}
			return
		}
		if len(body) > MaxBody {
			t.Errorf("%d bytes were read", len(body))
		}
		checkForm(t, answer.Result)
	})
}

func checkForm(t *testing.T, r analysis.Result) {
	t.Helper()
	switch r.Kind {
	case analysis.KindVector:
		for _, series := range r.Series {
			if points := len(series.Points); series.Histogram && points > 0 || !series.Histogram && points != 1 {
				t.Errorf("a series of a vector is %+v", series)
			}
		}
	case analysis.KindScalar:
		if len(r.Series) != 1 || len(r.Series[0].Points) != 1 || r.Series[0].Labels != nil {
			t.Errorf("a scalar is %+v", r.Series)
		}
	case analysis.KindMatrix, analysis.KindString:
	default:
		t.Errorf("the kind is %q", r.Kind)
	}
}

func TestAPanicIsThatOfOneQuery(t *testing.T) {
	t.Parallel()
	c := New(Options{})
	_, err := c.callProvider(t.Context(), aTarget(), panics{}, Request{Query: "up"})
	want := `Prometheus at "http://prometheus.monitoring.svc" gave an answer that Sluice cannot cope with, and the fault is Sluice's: out of luck. Please report it with the query.`
	if OutcomeOf(err) != Panicked || err.Error() != want {
		t.Error(err)
	}
}

type panics struct{}

func (panics) RoundTrip(*http.Request) (*http.Response, error) { panic("out of luck") }
