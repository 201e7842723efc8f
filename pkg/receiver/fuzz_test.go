package receiver_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"sluice.dev/sluice/pkg/event"
	"sluice.dev/sluice/pkg/receiver"
)

// closed accepts every token and authorizes no caller, so that the fuzzer reaches all of the receiver except NATS.
type closed struct{}

func (closed) Authenticate(context.Context, string) (receiver.Caller, error) {
	return receiver.Caller{}, nil
}

func (closed) Authorize(context.Context, receiver.Caller, receiver.Permission) (bool, error) {
	return false, nil
}

// The receiver refuses every input with a message, and never with an internal error.
func FuzzDoor(f *testing.F) {
	good := approval(nil)
	f.Add(structured, "", good)
	f.Add("application/cloudevents-batch+json", "", "["+good+",17,null,[]]")
	f.Add("application/json", event.TypeApproval, `{"decision":"approve","rolloutID":"v1"}`)
	f.Add("application/cloudevents+json;charset=\"", "", "{")
	f.Add("text/plain", "%zz", strings.Repeat("[", 20_000))
	f.Add(structured, "", strings.Replace(good, `"namespaces/shop/rollouts/web"`, `"namespaces/*/rollouts/>"`, 1))
	d := receiver.New(receiver.Options{ClusterName: "default", AccessControl: closed{}})
	f.Fuzz(func(t *testing.T, contentType, eventType, body string) {
		r := httptest.NewRequest(http.MethodPost, "/v1/events", strings.NewReader(body))
		r.Header["Content-Type"] = []string{contentType}
		r.Header.Set("Authorization", "Bearer x")
		if eventType != "" {
			for name, value := range map[string]string{"Specversion": "1.0", "Type": eventType, "Id": "1", "Source": "/ci", "Subject": "namespaces/shop/rollouts/web"} {
				r.Header["Ce-"+name] = []string{value}
			}
		}
		w := httptest.NewRecorder()
		d.ServeHTTP(w, r)
		switch w.Code {
		case 207, 400, 403, 413, 415:
		default:
			t.Errorf("%d %s", w.Code, w.Body)
		}
		if !json.Valid(w.Body.Bytes()) || !strings.Contains(w.Body.String(), `"message":"`) {
			t.Errorf("the answer is %s", w.Body)
		}
	})
}
