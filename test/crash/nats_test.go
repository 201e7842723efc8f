package crash

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
)

// wire is a proxy between one executor and NATS. It knows enough of the protocol to see the executor's messages.
type wire struct {
	*journal
	server   string
	listener net.Listener
	// name returns the kind of a published message.
	name func(subject string, body []byte) (kind string)
	die  func()

	mu     sync.Mutex
	broken bool
	open   map[net.Conn]bool
	served sync.WaitGroup
}

// newWire listens in place of a server.
func newWire(j *journal, server string, name func(string, []byte) string, die func()) (*wire, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	w := &wire{journal: j, server: server, listener: listener, name: name, die: die, open: map[net.Conn]bool{}}
	w.served.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			w.served.Go(func() { w.serve(client) })
		}
	})
	return w, nil
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

// serve passes the executor's messages on until the connection ends, by itself or by the plan.
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
		_, _ = io.Copy(answers, server)
		if !answers.isMute() {
			_ = client.Close()
		}
	}()
	for from := bufio.NewReaderSize(client, 1<<16); ; {
		message, kind, err := read(from, w.name)
		if err != nil {
			break
		}
		way := w.hurt(kind)
		if way == before {
			w.die()
		}
		if way == before || way == gone {
			break
		}
		if way != "" {
			answers.mute()
		}
		if _, err := server.Write(message); err != nil {
			break
		}
		if way != "" {
			_ = server.(*net.TCPConn).CloseWrite() // the server reads the rest, and then closes
			<-copied
		}
		if way == after {
			w.die()
		}
		if way != "" {
			break
		}
	}
	_ = server.Close()
	<-copied
}

// hurt returns the way in which a message fails, "" if it does not.
func (w *wire) hurt(kind string) way {
	if kind == "" {
		return ""
	}
	return w.note(kind)
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

// read reads one message of a client and returns its kind, "" for a message that no plan can hurt.
func read(r *bufio.Reader, name func(string, []byte) string) (message []byte, kind string, err error) {
	message, err = r.ReadBytes('\n')
	if err != nil {
		return nil, "", err
	}
	words := strings.Fields(string(message))
	if len(words) < 3 || words[0] != "PUB" && words[0] != "HPUB" {
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

// analyzed returns the kind of an analyzer's message.
func analyzed(subject string, body []byte) string {
	if strings.HasPrefix(subject, "$KV.sluice_analysis.") {
		return toNATS + analyzing + " store sums"
	}
	if word, is := strings.CutPrefix(published(subject, body), toNATS); is {
		return toNATS + analyzing + " " + word
	}
	return ""
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
		return toNATS + "publish " + strings.SplitN(subject, ".", 3)[1]
	}
	return ""
}
