package receiver

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"sluice.dev/sluice/pkg/certwatch"
)

// ServerOptions configure the server of a receiver.
type ServerOptions struct {
	// Address is host:port; port 0 selects a free port.
	Address string
	// CertFile and KeyFile hold the certificate and key of the server. The server reads them again when they change.
	CertFile, KeyFile string
	// Plain serves without TLS also to other machines, for a receiver behind a proxy that terminates TLS.
	Plain bool
	// Handler answers the requests.
	Handler http.Handler
	Logger  *slog.Logger
}

const (
	headerTime = 5 * time.Second
	bodyTime   = 15 * time.Second
	idleTime   = time.Minute
	// writeTime bounds an immediate answer; a caller that waits for a decision gets more.
	writeTime = 30 * time.Second
	maxHeader = 48 << 10
	stopTime  = 5 * time.Second
)

// Server serves a receiver on one address.
type Server struct {
	listener net.Listener
	server   *http.Server
	tls      bool
	log      *slog.Logger
	// cancelWaiting ends the requests that wait for a decision.
	cancelWaiting context.CancelFunc
}

// Listen opens the address.
func Listen(l ServerOptions) (*Server, error) {
	host, _, err := net.SplitHostPort(l.Address)
	if err != nil {
		return nil, fmt.Errorf("listen for approvals: %w; give --approval-listen as host:port", err)
	}
	if (l.CertFile == "") != (l.KeyFile == "") {
		return nil, errors.New("listen for approvals: --approval-tls-cert and --approval-tls-key go together")
	}
	if l.CertFile == "" && !l.Plain && !isLoopback(host) {
		return nil, fmt.Errorf("listen for approvals on %s: tokens would cross the network in the clear; "+
			"give --approval-tls-cert and --approval-tls-key, or --approval-plain-http when a proxy before it has the certificate", l.Address)
	}
	var config *tls.Config
	if l.CertFile != "" {
		watcher, err := certwatch.New(l.CertFile, l.KeyFile, func(err error) {
			l.Logger.Warn("the certificate cannot be read again, the one before is used on", "error", err)
		})
		if err != nil {
			return nil, fmt.Errorf("listen for approvals: read the certificate: %w", err)
		}
		config = &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: watcher.CurrentCertificate, NextProtos: []string{"h2", "http/1.1"}}
	}
	listener, err := net.Listen("tcp", l.Address)
	if err != nil {
		return nil, fmt.Errorf("listen for approvals: %w; choose another address with --approval-listen", err)
	}
	base, hangUp := context.WithCancel(context.Background())
	return &Server{
		listener: listener, tls: config != nil, log: l.Logger, cancelWaiting: hangUp,
		server: &http.Server{
			Handler: l.Handler, TLSConfig: config, BaseContext: func(net.Listener) context.Context { return base },
			ReadHeaderTimeout: headerTime, ReadTimeout: bodyTime, WriteTimeout: writeTime, IdleTimeout: idleTime, MaxHeaderBytes: maxHeader,
			ErrorLog: slog.NewLogLogger(l.Logger.Handler(), slog.LevelDebug),
		},
	}, nil
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// URL returns the address of the receiver.
func (s *Server) URL() string {
	if s.tls {
		return "https://" + s.listener.Addr().String()
	}
	return "http://" + s.listener.Addr().String()
}

// Run serves until ctx is done. It then ends the requests that wait for a decision with the answer that none is known yet.
func (s *Server) Run(ctx context.Context) error {
	defer s.cancelWaiting()
	done := make(chan error, 1)
	go func() {
		if s.tls {
			done <- s.server.ServeTLS(s.listener, "", "")
			return
		}
		done <- s.server.Serve(s.listener)
	}()
	s.log.Info("the approval receiver listens", "url", s.URL()+"/v1/events")
	select {
	case err := <-done:
		return fmt.Errorf("serve approvals: %w", err)
	case <-ctx.Done():
	}
	s.cancelWaiting()
	bound, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTime)
	defer cancel()
	if err := s.server.Shutdown(bound); err != nil {
		return fmt.Errorf("stop serving approvals: %w", err)
	}
	if err := <-done; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
