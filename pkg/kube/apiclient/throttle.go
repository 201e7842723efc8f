package apiclient

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// throttleTransport turns an answer with which the API server asks to wait into an error. The client library would
// itself wait and send again, up to ten times. Every worker would then sleep in a call of its own and go on asking. The
// executor would not learn that the server is slow.
type throttleTransport struct{ next http.RoundTripper }

// minRetrySeconds is the wait when the API server names none.
const minRetrySeconds = 1

// storageInitializing is part of the API server's answer 429 about a kind whose stored objects it cannot list. The API server serves all other kinds, so the
// executor does not slow down.
const storageInitializing = "storage is (re)initializing"

func (p throttleTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := p.next.RoundTrip(r)
	if err != nil || response.StatusCode != http.StatusTooManyRequests {
		return response, err
	}
	// The body is a sentence, or a Status with one. The client can use the connection again after it has read the body to its end.
	body, _ := io.ReadAll(io.LimitReader(response.Body, 4096))
	_ = response.Body.Close()
	if bytes.Contains(body, []byte(storageInitializing)) {
		return nil, apierrors.NewServiceUnavailable(messageInBody(body))
	}
	seconds, err := strconv.Atoi(response.Header.Get("Retry-After"))
	if err != nil || seconds < minRetrySeconds {
		seconds = minRetrySeconds
	}
	return nil, apierrors.NewTooManyRequests(fmt.Sprintf("the API server is busy and asks to come back in %d s", seconds), seconds)
}

// messageInBody returns the message of a Status, or the whole body if the body is not a Status.
func messageInBody(body []byte) string {
	var status metav1.Status
	if err := json.Unmarshal(body, &status); err != nil || status.Message == "" {
		return string(body)
	}
	return status.Message
}

// WrappedRoundTripper returns the wrapped transport to the client library.
func (p throttleTransport) WrappedRoundTripper() http.RoundTripper { return p.next }
