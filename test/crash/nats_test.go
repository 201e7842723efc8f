package crash

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// wiring describes the connection of a component to a NATS server.
type wiring struct {
	server string
	// named returns the kind of a message that the component publishes, "" for a message that no plan can hurt. heard
	// does the same for a message that it gets; nil for none.
	named func(subject string, body []byte) (kind string)
	heard func(subject string) (kind string)
}

// wire is a proxy between one component and NATS. It knows enough of the protocol to see the messages.
type wire struct {
	wiring
	*journal
	listener net.Listener
	die      func()
	lateness *lateness

	mu     sync.Mutex
	broken bool
	open   map[net.Conn]bool
	served sync.WaitGroup
}

// newWire listens in place of a server. die ends the component.
func newWire(j *journal, l *lateness, w wiring, die func()) (*wire, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	proxy := &wire{wiring: w, journal: j, listener: listener, die: die, lateness: l, open: map[net.Conn]bool{}}
	proxy.served.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			proxy.served.Go(func() { proxy.serve(client) })
		}
	})
	return proxy, nil
}

func (w *wire) url() string { return "nats://" + w.listener.Addr().String() }

// breakOff ends all connections and refuses new ones.
func (w *wire) breakOff() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.broken = true
	_ = w.listener.Close()
	for c := range w.open {
		_ = c.Close()
	}
}

func (w *wire) close() {
	w.breakOff()
	w.served.Wait()
}

func (w *wire) keep(conns ...net.Conn) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range conns {
		w.open[c] = true
	}
	return !w.broken
}

// release lets a connection outlive the wire. It returns false if the wire has closed it.
func (w *wire) release(c net.Conn) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.open, c)
	return !w.broken
}

// serve passes messages on until the connection ends, by itself or by the plan.
func (w *wire) serve(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", w.server)
	if err != nil {
		return
	}
	defer server.Close()
	if !w.keep(client, server) {
		return
	}
	answers := &answers{to: client}
	copied := make(chan struct{})
	go func() {
		defer close(copied)
		w.deliver(answers, server)
		if !answers.isMute() {
			_ = client.Close()
		}
	}()
	for from := bufio.NewReaderSize(client, 1<<16); ; {
		message, kind, err := read(from, w.named)
		if err != nil {
			break
		}
		if goesOn, err := w.pass(message, w.hurt(kind), answers, server, copied); err != nil || !goesOn {
			break
		}
	}
	_ = server.Close()
	<-copied
}

// pass passes a message on as the plan says. It reports whether the connection goes on.
func (w *wire) pass(message []byte, way way, answers *answers, server net.Conn, copied <-chan struct{}) (goesOn bool, err error) {
	switch way {
	case before:
		w.die()
		return false, nil
	case gone:
		return false, nil
	case twice:
		message = append(message[:len(message):len(message)], message...)
		way = ""
	case late:
		answers.mute()
		w.postpone(message, server)
		return false, nil
	case after, lost:
		answers.mute()
	}
	if _, err := server.Write(message); err != nil || way == "" {
		return true, err
	}
	_ = server.(*net.TCPConn).CloseWrite() // the server reads the rest, and then closes
	<-copied
	if way == after {
		w.die()
	}
	return false, nil
}

// postpone lets a message arrive late, by the connection that its sender has lost.
func (w *wire) postpone(message []byte, server net.Conn) {
	if !w.release(server) {
		return
	}
	stays, err := server.(*net.TCPConn).File()
	if err != nil {
		return
	}
	w.lateness.add(func() {
		defer stays.Close()
		_, _ = stays.Write(message) // NATS may have closed a connection that did not answer its pings
	})
}

// hurt returns the way in which a message fails, "" if it does not.
func (w *wire) hurt(kind string) way {
	if kind == "" {
		return ""
	}
	return w.note(kind)
}

// deliver passes what the server sends to the component, until the connection ends, by itself or by the plan.
func (w *wire) deliver(to io.Writer, server net.Conn) {
	if w.heard == nil {
		_, _ = io.Copy(to, server)
		return
	}
	named := func(subject string, _ []byte) string { return w.heard(subject) }
	for from := bufio.NewReaderSize(server, 1<<16); ; {
		message, kind, err := read(from, named)
		if err != nil {
			return
		}
		if kind != "" {
			switch w.frame(kind) {
			case dropped:
				continue
			case cut:
				return
			case delayed:
				time.Sleep(behind)
			}
		}
		if _, err := to.Write(message); err != nil {
			return
		}
	}
}

// answers passes answers to the executor until it is muted.
type answers struct {
	mu    sync.Mutex
	to    io.Writer
	muted bool
}

func (a *answers) mute() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.muted = true
}

func (a *answers) isMute() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.muted
}

func (a *answers) Write(p []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.muted {
		return len(p), nil
	}
	return a.to.Write(p)
}

// read reads one message of a client or of the server and returns its kind, "" for a message that no plan can hurt.
func read(r *bufio.Reader, name func(string, []byte) string) (message []byte, kind string, err error) {
	message, err = r.ReadBytes('\n')
	if err != nil {
		return nil, "", err
	}
	words := strings.Fields(string(message))
	if len(words) < 3 || !slices.Contains([]string{"PUB", "HPUB", "MSG", "HMSG"}, words[0]) {
		return message, "", nil
	}
	size, err := strconv.Atoi(words[len(words)-1])
	if err != nil {
		return nil, "", fmt.Errorf("read %q: %w", message, err)
	}
	body := make([]byte, size+len("\r\n"))
	if _, err := io.ReadFull(r, body); err != nil {
		return nil, "", err
	}
	return append(message, body...), name(words[1], body), nil
}

// hinted returns the kind of a watcher's message.
func hinted(subject string, _ []byte) string {
	switch {
	case strings.HasPrefix(subject, "sluice.work."):
		return hinting
	case strings.HasPrefix(subject, "sluice.measure."):
		return hintingToMeasure
	}
	return ""
}

// said names messages with their sender.
func said(who string, named func(string, []byte) string) func(string, []byte) string {
	return func(subject string, body []byte) string {
		if word, is := strings.CutPrefix(named(subject, body), toNATS); is {
			return toNATS + who + " " + word
		}
		return ""
	}
}

// stored returns the kind of an analyzer's message, without the sender.
func stored(subject string, body []byte) string {
	if strings.HasPrefix(subject, "$KV.sluice_analysis.") {
		return toNATS + "store sums"
	}
	return published(subject, body)
}

// published returns the kind of an executor's message.
func published(subject string, body []byte) string {
	word := bytes.TrimSpace(body)
	switch {
	case strings.HasPrefix(subject, "$KV.") && bytes.Contains(body, []byte("KV-Operation: DEL")):
		return toNATS + "release lease"
	case strings.HasPrefix(subject, "$KV."):
		return toNATS + "take lease"
	case strings.HasPrefix(subject, "$JS.ACK.") && (len(word) == 0 || string(word) == "+ACK"):
		return toNATS + "ack"
	case strings.HasPrefix(subject, "$JS.ACK.") && bytes.HasPrefix(word, []byte("-NAK")):
		return toNATS + "nak"
	case strings.HasPrefix(subject, "sluice.idle."):
		return "" // the number of these messages of an idle executor depends on the length of a run
	case strings.HasPrefix(subject, "sluice."):
		return publishing + strings.SplitN(subject, ".", 3)[1]
	}
	return ""
}
