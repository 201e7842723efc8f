package embedded_test

import (
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"sluice.dev/sluice/pkg/queue/embedded"
	"sluice.dev/sluice/test/natsdir"
)

func startServer(t *testing.T, o embedded.Options) *embedded.Server {
	t.Helper()
	s, err := embedded.Start(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func TestNobodyGetsInWithoutThePassword(t *testing.T) {
	s := startServer(t, embedded.Options{Dir: natsdir.ForTest(t)})
	if nc, err := nats.Connect(s.URL()); err == nil {
		nc.Close()
		t.Error("a client without password was let in")
	}
	nc, err := nats.Connect(s.URL(), nats.UserInfo(s.User(), s.Password()))
	if err != nil {
		t.Fatal(err)
	}
	nc.Close()
	if len(s.Password()) < 20 {
		t.Errorf("the password has only %d characters", len(s.Password()))
	}
}

func TestItListensOnLoopbackOnly(t *testing.T) {
	s := startServer(t, embedded.Options{Dir: natsdir.ForTest(t)})
	u, err := url.Parse(s.URL())
	if err != nil {
		t.Fatal(err)
	}
	if u.Hostname() != "127.0.0.1" {
		t.Errorf("it listens on %s", u.Host)
	}
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range addrs {
		ip, _, err := net.ParseCIDR(a.String())
		if err != nil || ip.IsLoopback() || ip.To4() == nil {
			continue
		}
		if c, err := net.Dial("tcp", net.JoinHostPort(ip.String(), u.Port())); err == nil {
			c.Close()
			t.Errorf("it answers on %s", ip)
		}
	}
}

func TestSavedCredentials(t *testing.T) {
	dir := natsdir.ForTest(t)
	s := startServer(t, embedded.Options{Dir: dir, SaveCredentials: true})
	path := filepath.Join(dir, "nats.env")
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o600 {
		t.Errorf("mode is %v", info.Mode())
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{s.URL(), s.User(), s.Password()} {
		if !strings.Contains(string(text), want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
	s.Close()
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("the file outlives the server: %v", err)
	}
}

func TestATakenPortIsAnError(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, err = embedded.Start(embedded.Options{Dir: natsdir.ForTest(t), Port: l.Addr().(*net.TCPAddr).Port})
	if err == nil || !strings.Contains(err.Error(), "choose another one") {
		t.Errorf("error is %v", err)
	}
}

func TestAPortThatIsLeftIsTaken(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	port := l.Addr().(*net.TCPAddr).Port
	leave := slog.NewTextHandler(writer(func() { l.Close() }), &slog.HandlerOptions{Level: slog.LevelDebug})
	s := startServer(t, embedded.Options{Dir: natsdir.ForTest(t), Port: port, Logger: slog.New(leave)})
	if want := fmt.Sprintf("nats://127.0.0.1:%d", port); s.URL() != want {
		t.Errorf("it listens at %s, not at %s", s.URL(), want)
	}
}

// writer is called for each line of a log.
type writer func()

func (w writer) Write(p []byte) (int, error) {
	w()
	return len(p), nil
}

func TestWhyAServerCannotStartIsTold(t *testing.T) {
	dir := natsdir.ForTest(t)
	if err := os.WriteFile(filepath.Join(dir, "nats"), nil, 0o600); err != nil { // a file in the place of the server's directory
		t.Fatal(err)
	}
	_, err := embedded.Start(embedded.Options{Dir: dir})
	if err == nil || !strings.Contains(err.Error(), "storage directory is not a directory") {
		t.Errorf("error is %v", err)
	}
}
