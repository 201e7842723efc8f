package event_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/event"
)

// approval returns an event as a CI job sends it, in structured mode. In each pair of texts, the second text replaces the first.
func approval(t testing.TB, replace ...string) (event.Event, error) {
	t.Helper()
	const whole = `{"specversion":"1.0","type":"dev.sluice.approval.v1","id":"4711/e2e","source":"/ci/acme/checkout/runs/4711",` +
		`"subject":"namespaces/shop/rollouts/checkout","time":"2026-11-20T10:00:00Z","datacontenttype":"application/json",` +
		`"data":{"decision":"approve","step":2,"rolloutID":"v1.4.2","image":"registry/checkout:v2","revision":"5d8f","comment":"e2e green"}}`
	body := strings.NewReplacer(replace...).Replace(whole)
	if len(replace) > 0 && body == whole {
		t.Fatalf("nothing to replace by %q", replace)
	}
	return event.Decode(map[string][]string{"content-type": {"application/cloudevents+json"}}, []byte(body))
}

func TestAnApprovalIsRead(t *testing.T) {
	t.Parallel()
	e, err := approval(t)
	if err != nil {
		t.Fatal(err)
	}
	got, about, err := event.ParseApproval(e)
	if err != nil {
		t.Fatal(err)
	}
	step := int32(2)
	want := event.Approval{Decision: api.DecisionApprove, Step: &step, RolloutID: "v1.4.2", Image: "registry/checkout:v2", Revision: "5d8f", Comment: "e2e green"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(event.Rollout{Namespace: "shop", Name: "checkout"}, about); diff != "" {
		t.Error(diff)
	}
}

func TestAnApprovalIsReadStrictly(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		replace []string
		wantErr string // part of the error; "" if the approval is accepted
	}{
		"fields that are not known are left aside": {[]string{`"step":2`, `"step":2,"quorum":{"of":3}`}, ""},
		"null is the same as none":                 {[]string{`"step":2`, `"step":null`}, ""},
		"a whole number may have a point":          {[]string{`"step":2`, `"step":2.0`}, ""},
		"a comment may have lines":                 {[]string{`e2e green`, `e2e\ngreen`}, ""},
		"an empty comment is none":                 {[]string{`e2e green`, ``}, ""},
		"a rejection":                              {[]string{`"approve"`, `"reject"`}, ""},
		"another type":                             {[]string{`approval.v1`, `approval.v2`}, "want dev.sluice.approval.v1"},
		"another decision":                         {[]string{`"approve"`, `"Approve"`}, "want approve or reject"},
		"no decision":                              {[]string{`"decision":"approve",`, ``}, "want approve or reject"},
		"a name in another case is another name":   {[]string{`"decision"`, `"Decision"`}, "want approve or reject"},
		"a name that stands there twice":           {[]string{`"step":2`, `"step":2,"step":3`}, "given twice"},
		"a step that is no number":                 {[]string{`"step":2`, `"step":"2"`}, "data.step has the wrong type"},
		"half a step":                              {[]string{`"step":2`, `"step":1.5`}, "counted from 1"},
		"a step of 0":                              {[]string{`"step":2`, `"step":0`}, "counted from 1"},
		"a step beyond all":                        {[]string{`"step":2`, `"step":4294967298`}, "counted from 1"},
		"an image that is no text":                 {[]string{`"registry/checkout:v2"`, `["a"]`}, "data.image has the wrong type"},
		"an image whose variable was not set":      {[]string{`"registry/checkout:v2"`, `""`}, "data.image is empty"},
		"no release":                               {[]string{`"rolloutID":"v1.4.2","image":"registry/checkout:v2","revision":"5d8f",`, ``}, "at least one of"},
		"no subject":                               {[]string{`"subject":"namespaces/shop/rollouts/checkout",`, ``}, "want namespaces/<namespace>/rollouts/<name>"},
		"a subject of something else":              {[]string{`rollouts/checkout`, `deployments/checkout`}, "want namespaces"},
		"a subject with more":                      {[]string{`rollouts/checkout`, `rollouts/checkout/status`}, "want namespaces"},
		"data that is a list":                      {[]string{`"data":{`, `"data":[{`, `green"}`, `green"}]`}, "not a JSON object"},
		"no data":                                  {[]string{`"data":{"decision":"approve","step":2,"rolloutID":"v1.4.2","image":"registry/checkout:v2","revision":"5d8f","comment":"e2e green"}`, `"data":null`}, "not a JSON object"},
		"an id that is too long":                   {[]string{`4711/e2e`, strings.Repeat("x", 257)}, "at most 256"},
		"a source that is too long":                {[]string{`/ci/acme`, "/" + strings.Repeat("x", 512)}, "at most 512"},
		"a comment that is too long":               {[]string{`e2e green`, strings.Repeat("x", 1025)}, "at most 1024"},
		"control characters in an id":              {[]string{`4711/e2e`, `a\u0000b`}, "control characters"},
		"control characters in a comment":          {[]string{`e2e green`, `a\u001b[31mb`}, "control characters"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e, err := approval(t, tt.replace...)
			if err == nil {
				_, _, err = event.ParseApproval(e)
			}
			if (err == nil) != (tt.wantErr == "") || err != nil && !strings.Contains(err.Error(), tt.wantErr) {
				t.Errorf("the error is %v, want %q in it", err, tt.wantErr)
			}
		})
	}
}

func TestOnlyJSONIsReadAsAnApproval(t *testing.T) {
	t.Parallel()
	for media, want := range map[string]bool{"": true, "application/json": true, "Application/JSON; charset=utf-8": true, "application/vnd.acme+json": true, "text/plain": false} {
		header := map[string][]string{
			"ce-specversion": {"1.0"}, "ce-type": {event.TypeApproval}, "ce-id": {"1"}, "ce-source": {"/ci"}, "ce-subject": {"namespaces/a/rollouts/b"},
		}
		if media != "" {
			header["content-type"] = []string{media}
		}
		e, err := event.Decode(header, []byte(`{"decision":"approve","revision":"x"}`))
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := event.ParseApproval(e); (err == nil) != want {
			t.Errorf("%q: %v", media, err)
		}
	}
}

func TestAnAnswerToAnApproval(t *testing.T) {
	t.Parallel()
	of := event.Rollout{Cluster: "eu-1", Namespace: "shop", Name: "checkout.v2"}
	want := event.Decided{
		Refusal: api.RefusalNotPaused, Message: "Wait.", Decision: api.DecisionApprove, Step: 2, Revision: "5d8f", Principal: "ci",
		ApprovalSource: "/ci", ApprovalID: "é1",
	}
	at := time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
	e, err := event.NewDecided(of, want, at)
	if err != nil {
		t.Fatal(err)
	}
	header, body, err := event.Encode(e)
	if err != nil {
		t.Fatal(err)
	}
	back, err := event.Decode(header, body)
	if err != nil {
		t.Fatal(err)
	}
	got, err := event.ParseDecided(back)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if back.Extensions()[event.ExtensionCausation] != "é1" || back.ID() != event.DecidedID(of, "ci", "/ci", "é1") || !back.Time().Equal(at) {
		t.Errorf("the event is %s", back)
	}
	if _, err := event.ParseDecided(event.Event{}); err == nil {
		t.Error("an event of another type was read as an answer")
	}
	want.Accepted = true
	if _, err := event.NewDecided(of, want, at); err == nil {
		t.Error("an answer was built that is accepted and refused")
	}
}

// The sender knows the id of an answer before it arrives, and no other answer has the same id.
func TestEveryApprovalHasItsOwnAnswer(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, of := range []event.Rollout{{Cluster: "a", Namespace: "b", Name: "c"}, {Cluster: "a", Namespace: "b", Name: "cc"}} {
		for _, p := range [][3]string{{"ci", "/s", "1"}, {"c", "i/s", "1"}, {"ci", "/s1", ""}, {"ci", "", "/s1"}, {"qa", "/s", "1"}} {
			id := event.DecidedID(of, p[0], p[1], p[2])
			if seen[id] {
				t.Errorf("%v has the id of another one", p)
			}
			if seen[id] = true; id != event.DecidedID(of, p[0], p[1], p[2]) {
				t.Errorf("%v has two ids", p)
			}
		}
	}
}

// Each parsed approval names a decision and a release, has bounded lengths, and reads the same after it is sent on.
func FuzzParseApproval(f *testing.F) {
	f.Add("namespaces/shop/rollouts/checkout", "1", "/ci", "application/json", []byte(`{"decision":"approve","step":1,"image":"a@sha256:00"}`))
	f.Add("namespaces/a/rollouts/b", "é", "urn:x", "", []byte(`{"decision":"reject","revision":"x","comment":"\ud800","decision":"approve"}`))
	f.Fuzz(func(t *testing.T, subject, id, source, media string, body []byte) {
		header := map[string][]string{
			"ce-specversion": {"1.0"}, "ce-type": {event.TypeApproval}, "ce-id": {id}, "ce-source": {source}, "ce-subject": {subject}, "content-type": {media},
		}
		e, err := event.Decode(header, body)
		if err != nil {
			return
		}
		a, about, err := event.ParseApproval(e)
		if err != nil {
			return
		}
		if about.Subject() != e.Subject() || a.RolloutID+a.Image+a.Revision == "" || a.Decision != api.DecisionApprove && a.Decision != api.DecisionReject {
			t.Fatalf("%+v was read of %s", a, e)
		}
		if kept := len(a.Comment) + len(e.ID()) + len(e.Source()) + len(a.RolloutID) + len(a.Revision); kept > 4096 {
			t.Fatalf("%d bytes would be kept", kept)
		}
		sent, err := json.Marshal(a)
		if err != nil {
			t.Fatal(err)
		}
		header["content-type"] = []string{"application/json"}
		if e, err = event.Decode(header, sent); err != nil {
			t.Fatal(err)
		}
		again, _, err := event.ParseApproval(e)
		if diff := cmp.Diff(a, again); diff != "" || err != nil {
			t.Fatalf("%v: %s", err, diff)
		}
	})
}
