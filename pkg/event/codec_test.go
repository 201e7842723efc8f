package event_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice.dev/sluice/pkg/event"
)

func minimal(extra ...string) map[string][]string {
	h := map[string][]string{"ce-specversion": {"1.0"}, "ce-id": {"1"}, "ce-source": {"/ci"}, "ce-type": {"a.b"}}
	for i := 0; i < len(extra); i += 2 {
		h[extra[i]] = []string{extra[i+1]}
	}
	return h
}

func TestHeaderValuesAreEscaped(t *testing.T) {
	// The first case is the example in section 3.1.3.2 of the HTTP binding.
	for value, want := range map[string]string{
		"Euro € 😀":       "Euro%20%E2%82%AC%20%F0%9F%98%80",
		"a\r\nNats-X: 1": "a%0D%0ANats-X:%201",
		`"100%"`:         "%22100%25%22",
		"plain-~!":       "plain-~!",
		"tab\tdel\x7f":   "tab%09del%7F",
	} {
		e, err := event.Decode(minimal(), nil)
		if err != nil {
			t.Fatal(err)
		}
		e.SetExtension("note", value)
		header, body, err := event.Encode(e)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{want}, header["ce-note"]); diff != "" {
			t.Error(diff)
		}
		back, err := event.Decode(header, body)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(value, back.Extensions()["note"]); diff != "" {
			t.Error(diff)
		}
	}
}

func TestDecode(t *testing.T) {
	const structured = `{"specversion":"1.0","id":"1","source":"/ci","type":"a.b","data":{"x":1}}`
	tests := map[string]struct {
		header map[string][]string
		body   string
		// wantErr is a part of the error, and wantData is the data of the event.
		wantErr, wantData string
	}{
		"header names match in any case":                {header: map[string][]string{"CE-Specversion": {"1.0"}, "Ce-Id": {"1"}, "ce-Source": {"/ci"}, "ce-type": {"t"}}},
		"data without a content type is kept":           {header: minimal(), body: "x", wantData: "x"},
		"structured JSON is recognised by content type": {header: map[string][]string{"Content-Type": {"Application/CloudEvents+JSON; charset=utf-8"}}, body: structured, wantData: `{"x":1}`},
		"lower-case escapes are understood":             {header: minimal("ce-subject", "%e2%82%ac")},
		"an event as the data of an event is binary":    {header: minimal("ce-datacontenttype", "application/cloudevents+json"), body: structured, wantData: structured},
		"another structured format is refused":          {header: map[string][]string{"content-type": {"application/cloudevents+avro"}}, wantErr: "send application/cloudevents+json"},
		"a batch is refused":                            {header: map[string][]string{"content-type": {"application/cloudevents-batch+json"}}, body: "[]", wantErr: "not supported"},
		"no headers is no event":                        {wantErr: `specversion is ""`},
		"version 0.3 is refused":                        {header: minimal("ce-specversion", "0.3"), wantErr: `"0.3", want 1.0`},
		"structured version 0.3 is refused":             {header: map[string][]string{"content-type": {"application/cloudevents+json"}}, body: strings.Replace(structured, "1.0", "0.3", 1), wantErr: "want 1.0"},
		"a missing id is refused":                       {header: minimal("ce-id", ""), wantErr: "id"},
		"a broken time is refused":                      {header: minimal("ce-time", "noon"), wantErr: "time"},
		"a broken escape is refused":                    {header: minimal("ce-subject", "50%"), wantErr: "two hex digits"},
		"bytes that are no text are refused":            {header: minimal("ce-subject", "%FF"), wantErr: "not UTF-8"},
		"an attribute given twice is refused":           {header: minimal("CE-ID", "2"), wantErr: "given twice"},
		"an attribute with two values is refused":       {header: map[string][]string{"ce-id": {"1", "2"}}, wantErr: "2 values"},
		"an extension name outside a-z0-9 is refused":   {header: minimal("ce-not_ok", "1"), wantErr: "not_ok"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			e, err := event.Decode(tt.header, []byte(tt.body))
			if tt.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), tt.wantErr) {
					t.Fatalf("error %v, want one with %q", err, tt.wantErr)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.wantData, string(e.Data())); diff != "" {
				t.Error(diff)
			}
			header, body, err := event.Encode(e)
			if err != nil {
				t.Fatal(err)
			}
			if back, err := event.Decode(header, body); err != nil || back.String() != e.String() {
				t.Errorf("after encode and decode: %v\n%s", err, cmp.Diff(e.String(), back.String()))
			}
		})
	}
}

func FuzzDecode(f *testing.F) {
	f.Add("application/json", "ce-subject", "%20a", "ce-time", "2026-11-20T10:00:00Z", []byte(`{}`))
	f.Add("application/json", "ce-source", "/clusters/eu-1/namespaces/shop/rollouts/checkout", "ce-sequence", "0000000000000000043",
		[]byte(`{"cluster":"eu-1","namespace":"shop","name":"checkout","uid":"6f1c","to":"StepReady","cause":"Approval"}`))
	f.Add("application/json", "ce-causationid", "ci-1", "ce-comment", "Gr%C3%BC%C3%9Fe", []byte(`{"accepted":false,"refusal":"WrongStep"}`))
	f.Add("application/cloudevents-batch+json", "ce-specversion", "0.3", "ce-id", "", []byte(`[]`))
	f.Add("", "Ce-Time", "2026-11-20T10:00:00.000000001+02:00", "ce-dataschema", "https://x/%25", []byte{0xff})
	f.Add("application/cloudevents+json", "", "", "", "", []byte(`{"specversion":"1.0","id":"1","source":"/ci","type":"a","data_base64":"AA=="}`))
	f.Fuzz(func(t *testing.T, media, k1, v1, k2, v2 string, body []byte) {
		e, err := event.Decode(minimal("content-type", media, k1, v1, k2, v2), body)
		if err != nil {
			return
		}
		header, sent, err := event.Encode(e)
		if err != nil {
			t.Fatalf("a decoded event does not encode: %v", err)
		}
		back, err := event.Decode(header, sent)
		if err != nil {
			t.Fatalf("an encoded event does not decode: %v\n%v", err, header)
		}
		again, _, err := event.Encode(back)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(header, again); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff(e.Data(), back.Data()); len(e.Data()) > 0 && diff != "" {
			t.Error(diff)
		}
	})
}
