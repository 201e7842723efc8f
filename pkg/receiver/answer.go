package receiver

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strconv"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/event"
)

// answer is the result of one event.
type answer struct {
	status     int
	id, source string
	refusal    api.Refusal
	message    string
	// decided is the event with the decision; nil without a decision.
	decided *event.Event
}

func (a answer) withRefusal(why api.Refusal, message string) answer {
	a.refusal, a.message = why, message
	return a
}

func (a answer) withUnavailable(message string) answer {
	a.status, a.message = http.StatusServiceUnavailable, message
	return a
}

// withUnanswered is for an event that NATS may or may not have stored.
func (a answer) withUnanswered() answer {
	a.status, a.message = http.StatusGatewayTimeout, "NATS does not say whether it has stored the event; send the same event again in a moment."
	return a
}

// answerOf returns the answer to a decided event.
func answerOf(e, decided event.Event) answer {
	a := answer{status: http.StatusConflict, id: e.ID(), source: e.Source(), decided: &decided}
	if d, err := event.ParseDecided(decided); err == nil && d.Accepted {
		a.status = http.StatusOK
	}
	return a
}

// bodyJSON returns the answer as JSON. The body of a decided event is the data of the event with the decision.
func (a answer) bodyJSON() (json.RawMessage, error) {
	if a.decided != nil {
		return a.decided.Data(), nil
	}
	out := struct {
		// Accepted is absent until the executor has decided.
		Accepted *bool       `json:"accepted,omitempty"`
		Refusal  api.Refusal `json:"refusal,omitempty"`
		Message  string      `json:"message"`
		Source   string      `json:"approvalSource,omitempty"`
		ID       string      `json:"approvalID,omitempty"`
	}{Refusal: a.refusal, Message: a.message, Source: a.source, ID: a.id}
	if a.refusal != "" {
		out.Accepted = new(bool)
	}
	return encodeJSON(out)
}

// encodeJSON writes JSON for programs and people: without escapes for <, > and &.
func encodeJSON(v any) ([]byte, error) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(v)
	return text.Bytes(), err
}

// batchAnswer is the answer to an event of a batch.
type batchAnswer struct {
	Status int             `json:"status"`
	Body   json.RawMessage `json:"body"`
}

// writeAnswers answers a request. A single event gets its own status and, if decided, the event with the decision in binary mode. A batch gets an array in the
// order of its events, with their common status or else 207.
func (d *Receiver) writeAnswers(w http.ResponseWriter, answers []answer, batch bool) {
	status := answers[0].status
	list := make([]batchAnswer, len(answers))
	for i, a := range answers {
		d.requests.WithLabelValues(strconv.Itoa(a.status)).Inc()
		if a.status != status {
			status = http.StatusMultiStatus
		}
		if a.status == http.StatusServiceUnavailable || a.status == http.StatusGatewayTimeout {
			w.Header().Set("Retry-After", strconv.Itoa(int(retryAfter.Seconds())))
		}
		body, err := a.bodyJSON()
		if err != nil {
			d.Logger.Error("write the answer to an event", "error", err)
		}
		list[i] = batchAnswer{a.status, body}
	}
	if batch {
		d.writeJSON(w, status, list)
		return
	}
	if e := answers[0].decided; e != nil {
		if header, _, err := event.Encode(*e); err == nil {
			// Over HTTP only Content-Type holds the type of the data.
			delete(header, "ce-datacontenttype")
			for name, values := range header {
				w.Header()[http.CanonicalHeaderKey(name)] = values
			}
		}
	}
	d.writeJSON(w, status, list[0].Body)
}

// refuseRequest answers a request from which the receiver takes no event.
func (d *Receiver) refuseRequest(w http.ResponseWriter, status int, message string) {
	d.requests.WithLabelValues(strconv.Itoa(status)).Inc()
	d.writeJSON(w, status, map[string]string{"message": message})
}

// writeMalformed answers a request whose body contains no readable event.
func (d *Receiver) writeMalformed(w http.ResponseWriter, err error) {
	d.writeAnswers(w, []answer{answer{status: http.StatusBadRequest}.withRefusal(api.RefusalMalformed, "The body cannot be read: "+err.Error()+".")}, false)
}

func (d *Receiver) writeJSON(w http.ResponseWriter, status int, body any) {
	text, err := encodeJSON(body)
	if err != nil {
		d.Logger.Error("write an answer", "error", err)
		status, text = http.StatusInternalServerError, []byte(`{"message":"The answer cannot be written; the log of the watcher says why."}`+"\n")
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(text) // a client that closed the connection needs no answer
}
