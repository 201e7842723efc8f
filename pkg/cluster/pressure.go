package cluster

import (
	"fmt"
	"io"
	"net/http"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// pressed makes an error of an answer by which the API server asks to wait. The client library would wait itself, ten times over,
// and send again: with every worker asleep in a call of its own, nobody would know that it is the server that is slow, and each of
// them would go on asking.
type pressed struct{ next http.RoundTripper }

// askedToWait is what the API server asks for when it does not say how long.
const askedToWait = 1

func (p pressed) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := p.next.RoundTrip(r)
	if err != nil || response.StatusCode != http.StatusTooManyRequests {
		return response, err
	}
	// Read to the end, the connection can be used again; it is a sentence.
	_, _ = io.CopyN(io.Discard, response.Body, 4096)
	_ = response.Body.Close()
	seconds, err := strconv.Atoi(response.Header.Get("Retry-After"))
	if err != nil || seconds < askedToWait {
		seconds = askedToWait
	}
	return nil, apierrors.NewTooManyRequests(fmt.Sprintf("the API server is busy and asks to come back in %d s", seconds), seconds)
}

// WrappedRoundTripper lets the client library see through it.
func (p pressed) WrappedRoundTripper() http.RoundTripper { return p.next }
