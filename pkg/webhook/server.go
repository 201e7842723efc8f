package webhook

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"
)

const (
	readTime  = 10 * time.Second
	writeTime = 10 * time.Second
	idleTime  = 2 * time.Minute
	stopTime  = 5 * time.Second
)

// Certificates provides the certificate to serve with. Run renews it until ctx ends; CurrentCertificate returns an error before there is one.
type Certificates interface {
	Run(ctx context.Context) error
	CurrentCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error)
}

// Server serves a Handler over TLS.
type Server struct {
	listener     net.Listener
	server       *http.Server
	certificates Certificates
	log          *slog.Logger
}

// Listen opens the address, given as host:port; port 0 picks a free port.
func Listen(address string, handler http.Handler, certificates Certificates, log *slog.Logger) (*Server, error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen for admission reviews: %w; choose another address with --webhook-addr", err)
	}
	return &Server{listener: listener, certificates: certificates, log: log, server: &http.Server{
		Handler:     handler,
		TLSConfig:   &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: certificates.CurrentCertificate, NextProtos: []string{"h2", "http/1.1"}},
		ReadTimeout: readTime, WriteTimeout: writeTime, IdleTimeout: idleTime,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}}, nil
}

// Address is the address on which the server listens.
func (s *Server) Address() string { return s.listener.Addr().String() }

// Ready returns nil once there is a certificate to serve with.
func (s *Server) Ready() error {
	_, err := s.certificates.CurrentCertificate(nil)
	return err
}

// Run serves until ctx is done. It finishes reviews under way.
func (s *Server) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	kept, served := make(chan error, 1), make(chan error, 1)
	go func() { kept <- s.certificates.Run(ctx) }()
	go func() { served <- s.server.ServeTLS(s.listener, "", "") }()
	s.log.Info("the webhook that holds workloads is served", "address", s.Address())
	var err error
	select {
	case err = <-served:
		cancel()
		return errors.Join(fmt.Errorf("serve admission reviews: %w", err), <-kept)
	case err = <-kept:
	}
	bound, stop := context.WithTimeout(context.WithoutCancel(ctx), stopTime)
	defer stop()
	if down := s.server.Shutdown(bound); down != nil {
		err = errors.Join(err, fmt.Errorf("stop serving admission reviews: %w", down))
	}
	if last := <-served; !errors.Is(last, http.ErrServerClosed) {
		err = errors.Join(err, last)
	}
	return err
}
