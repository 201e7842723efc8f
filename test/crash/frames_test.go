package crash

import (
	"bufio"
	"encoding/binary"
	"io"
	"net/http"
	"strings"
	"time"
)

// behind is the delay of a delayed frame: longer than a whole release without a wait takes.
const behind = 1500 * time.Millisecond

// framed passes the frames of a watch through the plan. It returns other answers unchanged.
func framed(j *journal, who string, r *http.Request, response *http.Response) *http.Response {
	resource := resourceOf(r.URL.Path)
	if response == nil || response.StatusCode != http.StatusOK || r.URL.Query().Get("watch") == "" || !strings.Contains(r.URL.Path, "/namespaces/") && resource != "fleetmembers" {
		return response
	}
	split := line
	if strings.Contains(response.Header.Get("Content-Type"), "protobuf") {
		split = prefixed
	}
	response.Body = &frames{
		journal: j, kind: who + watches + resource, body: response.Body, from: bufio.NewReaderSize(response.Body, 1<<16), split: split,
		gone: r.Context().Done(),
	}
	return response
}

// frames is the body of a watch, frame by frame.
type frames struct {
	*journal
	kind  string
	body  io.Closer
	from  *bufio.Reader
	split func(*bufio.Reader) ([]byte, error)
	rest  []byte
	gone  <-chan struct{}
}

func (f *frames) Read(p []byte) (int, error) {
	for len(f.rest) == 0 {
		frame, err := f.split(f.from)
		if err != nil {
			return 0, err
		}
		switch f.frame(f.kind) {
		case dropped:
			continue
		case cut:
			return 0, io.EOF
		case delayed:
			select {
			case <-time.After(behind):
			case <-f.gone:
			}
		}
		f.rest = frame
	}
	n := copy(p, f.rest)
	f.rest = f.rest[n:]
	return n, nil
}

func (f *frames) Close() error { return f.body.Close() }

// line reads a frame of a watch in JSON.
func line(r *bufio.Reader) ([]byte, error) { return r.ReadBytes('\n') }

// prefixed reads a frame of a watch in protobuf, which begins with its length.
func prefixed(r *bufio.Reader) ([]byte, error) {
	head := make([]byte, 4)
	if _, err := io.ReadFull(r, head); err != nil {
		return nil, err
	}
	frame := make([]byte, 4+binary.BigEndian.Uint32(head))
	copy(frame, head)
	_, err := io.ReadFull(r, frame[4:])
	return frame, err
}
