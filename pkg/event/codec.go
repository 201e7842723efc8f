package event

import (
	"encoding/json"
	"fmt"
	"strings"

	cloudevents "github.com/cloudevents/sdk-go/v2/event"
	"github.com/cloudevents/sdk-go/v2/types"
)

const (
	prefix          = "ce-"
	contentType     = "content-type"
	dataContentType = "datacontenttype"
	structuredMedia = "application/cloudevents"
)

// Encode returns the binary form of an event: a header "ce-<name>" for each attribute, and the data as the body. Header names are lower case.
//
// The media type of the data is in two headers. The NATS binding maps ce-datacontenttype like any other attribute. Tools and the other bindings read
// content-type.
func Encode(e Event) (header map[string][]string, body []byte, err error) {
	if err := e.Validate(); err != nil {
		return nil, nil, fmt.Errorf("encode event: %w", err)
	}
	if e.SpecVersion() != cloudevents.CloudEventsVersionV1 {
		return nil, nil, fmt.Errorf("encode event %s: specversion %q, want 1.0", e.ID(), e.SpecVersion())
	}
	header = map[string][]string{}
	set := func(name, value string) {
		if value != "" {
			header[prefix+name] = []string{escapeHeader(value)}
		}
	}
	set("specversion", e.SpecVersion())
	set("id", e.ID())
	set("source", e.Source())
	set("type", e.Type())
	set("subject", e.Subject())
	set("dataschema", e.DataSchema())
	set(dataContentType, e.DataContentType())
	if t := e.Time(); !t.IsZero() {
		set("time", types.FormatTime(t))
	}
	for name, v := range e.Extensions() {
		value, err := types.Format(v)
		if err != nil {
			return nil, nil, fmt.Errorf("encode extension %s of event %s: %w", name, e.ID(), err)
		}
		set(name, value)
	}
	// An event carried as data must not make its envelope look structured.
	if ct := e.DataContentType(); ct != "" && !isStructured(ct) {
		header[contentType] = []string{ct}
	}
	return header, e.Data(), nil
}

// Decode reads an event in binary mode, or in structured mode with the JSON format if the content type starts with application/cloudevents. It
// ignores the case of header names. The returned event is valid.
func Decode(header map[string][]string, body []byte) (Event, error) {
	attrs, media, err := readAttributes(header)
	if err != nil {
		return Event{}, fmt.Errorf("decode event: %w", err)
	}
	var e Event
	if isStructured(media) {
		e, err = decodeStructured(media, body)
	} else {
		e, err = decodeBinary(attrs, media, body)
	}
	if err != nil {
		return Event{}, fmt.Errorf("decode event: %w", err)
	}
	if err := e.Validate(); err != nil {
		return Event{}, fmt.Errorf("decode event: %w", err)
	}
	return e, nil
}

func isStructured(media string) bool {
	return strings.HasPrefix(strings.ToLower(media), structuredMedia)
}

func readAttributes(header map[string][]string) (attrs map[string]string, media string, err error) {
	attrs = map[string]string{}
	for k, values := range header {
		name := strings.ToLower(k)
		if name != contentType && !strings.HasPrefix(name, prefix) {
			continue
		}
		if len(values) != 1 {
			return nil, "", fmt.Errorf("header %s has %d values, want one", name, len(values))
		}
		if name == contentType {
			media = strings.TrimSpace(values[0])
			continue
		}
		name = strings.TrimPrefix(name, prefix)
		if _, twice := attrs[name]; twice {
			return nil, "", fmt.Errorf("header %s%s is given twice", prefix, name)
		}
		if attrs[name], err = unescapeHeader(values[0]); err != nil {
			return nil, "", fmt.Errorf("header %s%s: %w", prefix, name, err)
		}
	}
	return attrs, media, nil
}

func decodeStructured(media string, body []byte) (Event, error) {
	format, _, _ := strings.Cut(strings.ToLower(media), ";")
	switch strings.TrimSpace(format) {
	case structuredMedia, structuredMedia + "+json":
	default:
		return Event{}, fmt.Errorf("content type %q is not supported, send application/cloudevents+json", media)
	}
	var e Event
	if err := json.Unmarshal(body, &e); err != nil {
		return Event{}, err
	}
	return e, checkVersion(e.SpecVersion())
}

func decodeBinary(attrs map[string]string, media string, body []byte) (Event, error) {
	if err := checkVersion(attrs["specversion"]); err != nil {
		return Event{}, err
	}
	e := cloudevents.New()
	if media != "" {
		e.SetDataContentType(media)
	}
	for name, v := range attrs {
		switch name {
		case "specversion":
		case "id":
			e.SetID(v)
		case "source":
			e.SetSource(v)
		case "type":
			e.SetType(v)
		case "subject":
			e.SetSubject(v)
		case "dataschema":
			e.SetDataSchema(v)
		case dataContentType:
			e.SetDataContentType(v)
		case "time":
			t, err := types.ParseTime(v)
			if err != nil {
				return Event{}, fmt.Errorf("time: %w", err)
			}
			e.SetTime(t)
		default:
			e.SetExtension(name, v)
		}
	}
	if len(body) > 0 {
		e.DataEncoded = body
	}
	return e, nil
}

func checkVersion(v string) error {
	if v != cloudevents.CloudEventsVersionV1 {
		return fmt.Errorf("specversion is %q, want 1.0", v)
	}
	return nil
}
