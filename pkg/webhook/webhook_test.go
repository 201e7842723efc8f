package webhook

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"

	"sluice.dev/sluice/pkg/api"
)

const (
	adopted = `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web","labels":{"rollouts.kruise.io/workload-type":"deployment"},
		"annotations":{"sluice.dev/rollout":"web"},"managedFields":[{"manager":"b","fieldsV1":{"f:b":{},"f:a":{}}}]},"spec":{"template":{}}}`
	replaced = `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web","managedFields":[{"manager":"c"}]},"spec":{"template":{}}}`
	changed  = `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web","annotations":{"a/b~c":"d"}},"spec":{"template":{"spec":{}}}}`
)

func ask(t *testing.T, body string) (int, string) {
	t.Helper()
	w := httptest.NewRecorder()
	NewHandler(api.DefaultInstallation(), slog.New(slog.DiscardHandler), nil, nil).ServeHTTP(w, httptest.NewRequest(http.MethodPost, Path, strings.NewReader(body)))
	return w.Code, w.Body.String()
}

func reviewOf(operation, old, updated, further string) string {
	return `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"1","operation":"` + operation +
		`","userInfo":{"username":"alice"},"oldObject":` + old + `,"object":` + updated + further + `}}`
}

func TestWhatIsAnswered(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ review, patch string }{
		"a create":                         {reviewOf("CREATE", "null", changed, ""), ""},
		"a scale":                          {reviewOf("UPDATE", adopted, changed, `,"subResource":"scale"`), ""},
		"an update of what nobody adopted": {reviewOf("UPDATE", replaced, changed, ""), ""},
		"an update that begins a release": {reviewOf("UPDATE", adopted, changed, ""), `[` +
			`{"op":"add","path":"/metadata/annotations/rollouts.kruise.io~1in-progressing","value":"{\"rolloutName\":\"web\"}"},` +
			`{"op":"add","path":"/metadata/annotations/sluice.dev~1rollout","value":"web"},` +
			`{"op":"add","path":"/metadata/labels","value":{"rollouts.kruise.io/workload-type":"deployment"}},` +
			`{"op":"add","path":"/spec/paused","value":true}]`},
		"an update that drops our marks alone gives the managers back byte by byte": {reviewOf("UPDATE", adopted, replaced, ""), `[` +
			`{"op":"add","path":"/metadata/annotations","value":{"sluice.dev/rollout":"web"}},` +
			`{"op":"add","path":"/metadata/labels","value":{"rollouts.kruise.io/workload-type":"deployment"}},` +
			`{"op":"add","path":"/metadata/managedFields","value":[{"manager":"b","fieldsV1":{"f:b":{},"f:a":{}}}]}]`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			code, body := ask(t, c.review)
			var got admissionv1.AdmissionReview
			if err := json.Unmarshal([]byte(body), &got); err != nil || code != http.StatusOK {
				t.Fatalf("answered with %d %s: %v", code, body, err)
			}
			if !got.Response.Allowed || got.Response.UID != "1" || (got.Response.PatchType != nil) != (c.patch != "") {
				t.Errorf("answered with %s", body)
			}
			if diff := cmp.Diff(c.patch, string(got.Response.Patch)); diff != "" {
				t.Errorf("patch (+) is not what was wanted (-):\n%s", diff)
			}
		})
	}
}

func TestWhatCannotBeReadIsNeverAYes(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{
		"nothing":            ``,
		"no review":          `{}`,
		"a review of v1beta": strings.Replace(reviewOf("UPDATE", adopted, changed, ""), "k8s.io/v1", "k8s.io/v1beta1", 1),
		"no old object":      reviewOf("UPDATE", "null", changed, ""),
		"no object":          reviewOf("UPDATE", adopted, `"x"`, ""),
	} {
		if code, answer := ask(t, body); code == http.StatusOK {
			t.Errorf("%s is answered with %s", name, answer)
		}
	}
	w := httptest.NewRecorder()
	NewHandler(api.DefaultInstallation(), slog.New(slog.DiscardHandler), nil, nil).ServeHTTP(w, httptest.NewRequest(http.MethodGet, Path, nil))
	if w.Code != http.StatusNotFound {
		t.Errorf("a GET is answered with %d", w.Code)
	}
}

// test/hold compares patched objects. This test has only the odd keys that do not occur there.
func TestADiffRemovesAddsAndEscapes(t *testing.T) {
	t.Parallel()
	from := map[string]any{"a/b": "1", "c~d": "2", "same": []any{"x"}, "list": []any{"x"}, "object": map[string]any{"in": int64(1)}}
	to := map[string]any{"c~d": "3", "same": []any{"x"}, "list": []any{"y"}, "object": map[string]any{"in": int64(2)}, "new": false}
	got, err := json.Marshal(diffObjects("", from, to, nil))
	if err != nil {
		t.Fatal(err)
	}
	want := `[{"op":"remove","path":"/a~1b"},{"op":"add","path":"/c~0d","value":"3"},{"op":"add","path":"/list","value":["y"]},` +
		`{"op":"add","path":"/new","value":false},{"op":"add","path":"/object/in","value":2}]`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Error(diff)
	}
}
