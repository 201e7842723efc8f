package metric

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/url"
	"strings"

	v1 "github.com/prometheus/client_golang/api/prometheus/v1"
)

// explainError makes an *Error of any error that ended a query.
func explainError(ctx context.Context, target *provider, err error) *Error {
	if known, ok := errors.AsType[*Error](err); ok {
		return known
	}
	if refused, ok := errors.AsType[*forbiddenAddress](err); ok {
		return notAllowed(target.address, refused)
	}
	if answered, ok := errors.AsType[*v1.Error](err); ok {
		return explainAnswer(target, answered)
	}
	if ended := ctx.Err(); errors.Is(ended, context.Canceled) {
		return newError(Ended, target.address, err, "was asked, and the analysis ended before the answer.")
	} else if ended != nil {
		return newError(Late, target.address, err, "did not answer in time. Make the query simpler, or see why Prometheus is slow.")
	}
	return explainConnection(target, err)
}

func explainAnswer(target *provider, err *v1.Error) *Error {
	switch err.Type {
	case v1.ErrBadData:
		return newError(BadQuery, target.address, err, "cannot read the query: %s. Correct it in the template.", quoteText(err.Msg))
	case v1.ErrTimeout, v1.ErrCanceled:
		return tooSlow(target, err.Msg)
	case v1.ErrBadResponse:
		return newError(NotPrometheus, target.address, err, "gave an answer that Prometheus' API does not have: %s. Check that a Prometheus listens at the address.", quoteText(err.Msg))
	}
	return newError(QueryFailed, target.address, err, "cannot carry out the query: %s. Correct it in the template.", quoteText(err.Msg))
}

func explainConnection(target *provider, err error) *Error {
	if why := tlsProblem(err); why != "" {
		return newError(BadTLS, target.address, err, "cannot be spoken to safely: %s. Put the authority that signs its certificate into the Secret as ca.crt, a certificate for us as tls.crt and tls.key, or correct http or https in the address.", why)
	}
	if request, ok := errors.AsType[*url.Error](err); ok {
		err = request.Err // without the URL, which the user knows
	}
	var why string
	if lookup, ok := errors.AsType[*net.DNSError](err); ok {
		why = "its name cannot be looked up (" + lookup.Err + ")"
	} else if operation, ok := errors.AsType[*net.OpError](err); ok {
		why = operation.Err.Error()
	} else {
		why = err.Error()
	}
	return newError(Unreachable, target.address, err, "cannot be reached: %s. Check the address in the template, and that the Service has endpoints.", strings.TrimSuffix(why, "."))
}

// tlsProblem returns the TLS failure in an error; "" for other errors.
func tlsProblem(err error) string {
	if bad, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return bad.Err.Error()
	}
	if bad, ok := errors.AsType[x509.HostnameError](err); ok {
		return bad.Error()
	}
	if bad, ok := errors.AsType[tls.AlertError](err); ok {
		return bad.Error()
	}
	if bad, ok := errors.AsType[tls.RecordHeaderError](err); ok {
		return bad.Msg
	}
	// net/http reports a plain answer to a handshake only as a text. TLS alerts of the other side come as a net.OpError of this name.
	for _, sign := range []string{"server gave HTTP response to HTTPS client", "remote error: tls:", "tls: "} {
		if strings.Contains(err.Error(), sign) {
			return strings.TrimSpace(err.Error()[strings.LastIndex(err.Error(), sign):])
		}
	}
	return ""
}
