// Package http refuses to reach Google Cloud.
package http

import (
	"context"
	"errors"
	"net/http"

	"google.golang.org/api/option"
)

// NewTransport refuses.
func NewTransport(context.Context, http.RoundTripper, ...option.ClientOption) (http.RoundTripper, error) {
	return nil, errors.ErrUnsupported
}
