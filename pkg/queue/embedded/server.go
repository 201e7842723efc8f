// Package embedded runs a NATS server with JetStream inside this process, for `sluice run`, the demo and tests.
//
// It is not a production server: it has one node, and one user for all parts of Sluice. The server of a fleet's hub has one more account and user for
// each cluster, with the permissions of deploy/nats. Invariant: it listens on the loopback interface only, and every client needs a password.
package embedded

import (
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// Options of a server. All fields but Dir have a useful zero value.
type Options struct {
	// Dir has the streams, in a subdirectory. One server at a time may use it.
	Dir string
	// Port is the port on 127.0.0.1; 0 means any free port.
	Port int
	// User and Password are the credentials of the user for Sluice; if both are empty, they are generated.
	User, Password string
	// Members are the clusters of a fleet, whose hub uses this server: their names, which are DNS labels, and their passwords. Each name is the name of
	// a user as well. NATS keeps streams by account, so a directory that was used without members shows no streams with them, and the other way round.
	Members map[string]string
	// SaveCredentials writes <Dir>/nats.env, readable by this user only, with NATS_URL, NATS_USER and NATS_PASSWORD.
	// Close removes it.
	SaveCredentials bool
	// Logger gets the server's warnings and errors; nil discards them.
	Logger *slog.Logger
}

// Server is a running NATS server.
type Server struct {
	nats            *server.Server
	user, password  string
	credentialsFile string
}

const (
	startWait = time.Minute
	startPoll = 100 * time.Millisecond
	// Start tries a taken port for a second. The server before may have just ended, and a child process of the test or
	// program keeps its port from fork to exec.
	portTries = 50
	portPause = 20 * time.Millisecond
	maxMemory = 64 << 20
	maxStore  = 2 << 30
)

var errPortTaken = errors.New("stop what uses the port or choose another one")

// Start returns once the server accepts connections. The caller must call Close.
func Start(o Options) (*Server, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	for try := 1; ; try++ {
		s, err := startServer(o)
		if !errors.Is(err, errPortTaken) || try == portTries {
			return s, err
		}
		o.Logger.Debug("the port of NATS is taken, trying on", "error", err)
		time.Sleep(portPause)
	}
}

func startServer(o Options) (*Server, error) {
	if o.Dir == "" {
		return nil, errors.New("start embedded NATS: no directory is given")
	}
	s := &Server{user: o.User, password: o.Password}
	if s.user == "" && s.password == "" {
		s.user, s.password = "sluice", rand.Text()
	}
	if o.Port == 0 {
		o.Port = server.RANDOM_PORT
	} else if err := portFree(o.Port); err != nil {
		return nil, fmt.Errorf("start embedded NATS: %w; %w", err, errPortTaken)
	}
	options := &server.Options{
		ServerName: "sluice-embedded", Host: "127.0.0.1", Port: o.Port,
		JetStream: true, StoreDir: filepath.Join(o.Dir, "nats"),
		JetStreamMaxMemory: maxMemory, JetStreamMaxStore: maxStore,
		NoSigs: true, DisableJetStreamBanner: true,
	}
	err := s.addUsers(options, o.Members)
	if err == nil {
		s.nats, err = server.NewServer(options)
	}
	if err != nil {
		return nil, fmt.Errorf("start embedded NATS: %w", err)
	}
	log := logger{Logger: o.Logger, fatal: make(chan string, 1)}
	s.nats.SetLogger(log, false, false)
	s.nats.Start()
	if err := s.waitReady(log.fatal); err != nil {
		s.Close()
		return nil, fmt.Errorf("start embedded NATS in %s: %w", o.Dir, err)
	}
	if o.SaveCredentials {
		if err := s.saveCredentials(filepath.Join(o.Dir, "nats.env")); err != nil {
			s.Close()
			return nil, err
		}
	}
	return s, nil
}

// waitReady waits until the server accepts connections, or reports a fatal error.
func (s *Server) waitReady(fatal <-chan string) error {
	for end := time.Now().Add(startWait); !s.nats.ReadyForConnections(startPoll); {
		select {
		case why := <-fatal:
			if strings.Contains(why, syscall.EADDRINUSE.Error()) {
				return fmt.Errorf("%s; %w", why, errPortTaken)
			}
			return errors.New(why)
		default:
		}
		if time.Now().After(end) {
			return fmt.Errorf("it was not ready after %s; check that the directory is writable and has space", startWait)
		}
	}
	return nil
}

// portFree returns an error for a taken port, before the server logs one.
func portFree(port int) error {
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return err
	}
	return l.Close()
}

func (s *Server) saveCredentials(path string) error {
	s.credentialsFile = path
	text := fmt.Sprintf("NATS_URL=%s\nNATS_USER=%s\nNATS_PASSWORD=%s\n", s.URL(), s.user, s.password)
	// An existing file would keep its mode.
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("save NATS credentials: %w", err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return fmt.Errorf("save NATS credentials: %w", err)
	}
	return nil
}

// URL is nats://127.0.0.1:<port>, without the password.
func (s *Server) URL() string { return s.nats.ClientURL() }

// User is the name of the user for Sluice.
func (s *Server) User() string { return s.user }

// Password is the password of User.
func (s *Server) Password() string { return s.password }

// Close stops the server and waits until its files are closed.
func (s *Server) Close() {
	s.nats.Shutdown()
	s.nats.WaitForShutdown()
	if s.credentialsFile != "" {
		// The credentials are useless by now, so a leftover file does no harm.
		_ = os.Remove(s.credentialsFile)
	}
}

// logger passes on the messages for an operator, and keeps the reason of a fatal error.
type logger struct {
	*slog.Logger
	fatal chan string // it has room for one
}

func (l logger) Noticef(format string, v ...any) {
	l.Debug("nats", "text", fmt.Sprintf(format, v...))
}
func (l logger) Warnf(format string, v ...any) {
	text := fmt.Sprintf(format, v...)
	if strings.HasPrefix(text, "Plaintext passwords") {
		return // it is generated, lives as long as the process, and is in no file but nats.env
	}
	l.Warn("nats", "text", text)
}
func (l logger) Errorf(format string, v ...any) {
	l.Error("nats", "text", fmt.Sprintf(format, v...))
}
func (l logger) Fatalf(format string, v ...any) {
	text := fmt.Sprintf(format, v...)
	l.Error("nats", "text", text)
	select {
	case l.fatal <- text:
	default: // the first one is the reason
	}
}
func (l logger) Debugf(string, ...any) {}
func (l logger) Tracef(string, ...any) {}
