package receiver

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"

	"sluice.dev/sluice/pkg/event"
)

const (
	structuredMedia = "application/cloudevents+json"
	batchMedia      = "application/cloudevents-batch+json"
)

// requestItem is one event of a request, or the error of decoding it.
type requestItem struct {
	event event.Event
	err   error
}

// The receiver refuses requests with these errors as a whole.
var (
	errTooMuch  = errors.New("too much")
	errNotEvent = errors.New("not a CloudEvent")
)

// readEvents decodes the events of a request, in the mode of its headers. An event that cannot be decoded becomes an item with an error. A request that
// contains no CloudEvents is an error.
func readEvents(header http.Header, body io.Reader) (items []requestItem, batch bool, err error) {
	text, err := io.ReadAll(body)
	var large *http.MaxBytesError
	if errors.As(err, &large) {
		return nil, false, fmt.Errorf("%w: the body is larger than %d bytes", errTooMuch, large.Limit)
	}
	if err != nil {
		return nil, false, fmt.Errorf("read body: %w", err)
	}
	media, _, err := mime.ParseMediaType(header.Get("Content-Type"))
	if err != nil && header.Get("Content-Type") != "" {
		return nil, false, fmt.Errorf("%w: the content type %q cannot be read", errNotEvent, header.Get("Content-Type"))
	}
	switch {
	case media == batchMedia:
		items, err := readBatch(text)
		return items, true, err
	case media == structuredMedia || header.Get("Ce-Specversion") != "":
		e, err := event.Decode(header, text)
		return []requestItem{{e, err}}, false, nil
	}
	return nil, false, fmt.Errorf("%w: send it with content type %s or %s, or with its attributes as headers ce-specversion, ce-id, ce-source, ce-type, ce-subject",
		errNotEvent, structuredMedia, batchMedia)
}

func readBatch(text []byte) ([]requestItem, error) {
	var parts []json.RawMessage
	decoder := json.NewDecoder(bytes.NewReader(text))
	if err := decoder.Decode(&parts); err != nil {
		return nil, fmt.Errorf("a batch must be a JSON array of events: %w", err)
	}
	if decoder.More() {
		return nil, errors.New("a batch must be one JSON array of events, and something follows it")
	}
	switch {
	case len(parts) == 0:
		return nil, errors.New("the batch is empty")
	case len(parts) > maxBatch:
		return nil, fmt.Errorf("%w: the batch has %d events, at most %d are taken", errTooMuch, len(parts), maxBatch)
	}
	items := make([]requestItem, len(parts))
	for i, part := range parts {
		items[i].event, items[i].err = event.Decode(map[string][]string{"content-type": {structuredMedia}}, part)
	}
	return items, nil
}
