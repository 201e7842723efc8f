package metric

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"path"
	"strings"

	"github.com/prometheus/client_golang/api"
)

// userAgent identifies Sluice in the logs of providers.
const userAgent = "sluice-analyzer"

// caller sends requests of client_golang's API to one provider. It passes on only answers that the decoder of client_golang should read.
type caller struct {
	target *provider
	http   *http.Client
	// text is the answer if it has a type that client_golang does not read.
	text *Answer
	// partial says that the answer lacks data. client_golang does not read that either.
	partial bool
}

var _ api.Client = (*caller)(nil)

func newCaller(target *provider, transport http.RoundTripper) *caller {
	return &caller{target: target, http: &http.Client{Transport: transport, CheckRedirect: noRedirect}}
}

// URL returns the URL of an endpoint of the API. The endpoints that Sluice uses have no parameters in their paths.
func (c *caller) URL(endpoint string, _ map[string]string) *url.URL {
	u := *c.target.base
	u.Path, u.RawPath = path.Join("/", u.Path, endpoint), ""
	return &u
}

// Do returns a response only for an answer of Prometheus, or for a status with which client_golang retries by GET where POST is not allowed.
func (c *caller) Do(ctx context.Context, request *http.Request) (*http.Response, []byte, error) {
	request = request.WithContext(ctx)
	maps.Copy(request.Header, c.target.header)
	if request.Header.Get("User-Agent") == "" {
		request.Header.Set("User-Agent", userAgent)
	}
	response, err := c.http.Do(request)
	if err != nil {
		return nil, nil, err
	}
	defer response.Body.Close()
	if err := c.checkStatus(response); err != nil {
		if mayAskByGet(request, response) {
			return response, nil, err
		}
		return nil, nil, err
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, MaxBody+1))
	switch {
	case err != nil:
		return nil, nil, err
	case len(body) > MaxBody:
		return nil, nil, newError(TooLarge, c.target.address, nil, "answered with more than %d KiB. Let the query aggregate, for instance by sum(...), so that it has few series.", MaxBody>>10)
	}
	if err := c.checkBody(response, body); err != nil {
		return nil, nil, err
	}
	if response.StatusCode/100 == 2 {
		c.text, c.partial = textAnswer(body), isPartial(body)
	}
	return response, body, nil
}

func mayAskByGet(request *http.Request, response *http.Response) bool {
	switch response.StatusCode {
	case http.StatusForbidden, http.StatusMethodNotAllowed, http.StatusNotImplemented:
		return request.Method == http.MethodPost
	}
	return false
}

// checkStatus returns the error that the status alone implies.
func (c *caller) checkStatus(response *http.Response) error {
	code, status := response.StatusCode, http.StatusText(response.StatusCode)
	switch {
	case code >= 300 && code < 400:
		return newError(Redirected, c.target.address, nil, "redirects to %s, and redirects are not followed. Name the address where queries are answered; a login page wants credentials from a Secret.",
			redirectTarget(response))
	case code == http.StatusUnauthorized || code == http.StatusForbidden || code == http.StatusProxyAuthRequired:
		return newError(Unauthorized, c.target.address, nil, "refuses the credentials: %d %s. Correct the Secret that the template names.", code, status)
	case code == http.StatusNotFound || code == http.StatusMethodNotAllowed || code == http.StatusNotImplemented:
		return newError(NotPrometheus, c.target.address, nil, "has no query API at %s: %d %s. Correct the address, whose path is what comes before /api/v1.", response.Request.URL.Path, code, status)
	}
	return nil
}

// redirectTarget returns the target of a redirect without its parameters, which may hold secrets.
func redirectTarget(response *http.Response) string {
	location, err := response.Location()
	if err != nil {
		return "nowhere"
	}
	return quoteText(location.Scheme + "://" + location.Host + location.Path)
}

// checkBody returns the error for a body that is not an answer of Prometheus: neither a result nor a refusal of the query.
func (c *caller) checkBody(response *http.Response, body []byte) error {
	kind := response.Header.Get("Content-Type")
	code := response.StatusCode
	asPrometheus := code/100 == 2 || code == http.StatusBadRequest || code == http.StatusUnprocessableEntity
	switch {
	case asPrometheus && (strings.Contains(kind, "html") || bytes.HasPrefix(bytes.TrimSpace(body), []byte("<"))):
		return newError(NotPrometheus, c.target.address, nil, "answered with a page for people, not with data. Correct the address; a login page wants credentials from a Secret.")
	case asPrometheus && !json.Valid(body):
		return newError(NotPrometheus, c.target.address, nil, "answered with something that is not JSON: %s. Check that a Prometheus listens at the address.", bodyExcerpt(body))
	case asPrometheus:
		return nil
	case code == http.StatusTooManyRequests:
		return newError(Throttled, c.target.address, nil, "answers no more queries for now: %s. Make intervals longer, or ask for a higher limit.", bodyExcerpt(body))
	}
	var failure struct {
		ErrorType string `json:"errorType"`
		Error     string `json:"error"`
	}
	if json.Unmarshal(body, &failure) != nil || failure.Error == "" {
		failure.Error = bodyExcerpt(body)
	}
	if failure.ErrorType == "timeout" || failure.ErrorType == "canceled" {
		return tooSlow(c.target, failure.Error)
	}
	return newError(ProviderFailed, c.target.address, nil, "has trouble of its own: %d %s, %s. It is asked again at the next interval.", code, http.StatusText(code), quoteText(failure.Error))
}

func tooSlow(target *provider, message string) *Error {
	return newError(QueryFailed, target.address, nil, "gave up on the query because it took too long: %s. Make the query simpler, or the range shorter.", quoteText(message))
}

func bodyExcerpt(body []byte) string {
	if len(body) == 0 {
		return "an empty body"
	}
	return quoteText(fmt.Sprintf("%.100s", body))
}
