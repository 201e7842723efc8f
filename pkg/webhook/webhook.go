// Package webhook asks pkg/hold for the object that the API server must store after an update of an adopted workload. The API server calls it as an
// admission webhook. It is for clusters whose API server does not serve MutatingAdmissionPolicy; other clusters do not need it.
//
// The package decides nothing itself, denies nothing, and writes nothing to workloads. Its one invariant: it answers a request that it cannot read
// with an error, and never permits it. So the failurePolicy of the webhook's configuration decides.
package webhook

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"sluice.dev/sluice/pkg/hold"
)

// Path is the path to which the API server posts reviews.
const Path = "/hold"

// maxBody bounds one review, which holds an object twice.
const maxBody = 16 << 20

// Handler answers admission reviews.
type Handler struct {
	log     *slog.Logger
	reviews *prometheus.CounterVec
}

// NewHandler makes a handler. Without a registerer it counts nothing.
func NewHandler(log *slog.Logger, r prometheus.Registerer) *Handler {
	h := &Handler{log: log, reviews: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "sluice_webhook_reviews_total", Help: "Updates of workloads that the webhook was asked about, by what it answered.",
	}, []string{"answer"})}
	if r != nil {
		r.MustRegister(h.reviews)
	}
	return h
}

// ServeHTTP answers one review.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost || r.URL.Path != Path {
		http.Error(w, "post an AdmissionReview to "+Path, http.StatusNotFound)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	var answer []byte
	var what string
	if err == nil {
		answer, what, err = answerReview(body)
	}
	if err != nil {
		h.reviews.WithLabelValues("error").Inc()
		h.log.Warn("an admission review cannot be answered", "error", err)
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	h.reviews.WithLabelValues(what).Inc()
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(answer) // if this fails, the API server has closed the connection
}

// answerReview answers a review, and returns in what a word for the answer.
func answerReview(body []byte) (answer []byte, what string, err error) {
	var in admissionv1.AdmissionReview
	if err := json.Unmarshal(body, &in); err != nil {
		return nil, "", fmt.Errorf("read admission review: %w", err)
	}
	if in.Request == nil || in.APIVersion != admissionv1.SchemeGroupVersion.String() {
		return nil, "", errors.New("read admission review: it is no request of admission.k8s.io/v1")
	}
	out := admissionv1.AdmissionReview{TypeMeta: in.TypeMeta, Response: &admissionv1.AdmissionResponse{UID: in.Request.UID, Allowed: true}}
	patch, err := decidePatch(in.Request)
	if err != nil {
		return nil, "", err
	}
	if what = "unchanged"; len(patch) > 0 {
		what = "changed"
		kind := admissionv1.PatchTypeJSONPatch
		out.Response.PatchType = &kind
		if out.Response.Patch, err = json.Marshal(patch); err != nil {
			return nil, "", fmt.Errorf("write patch: %w", err)
		}
	}
	answer, err = json.Marshal(out)
	return answer, what, err
}

// decidePatch returns the patch that turns the request's object into the object to store.
func decidePatch(r *admissionv1.AdmissionRequest) ([]operation, error) {
	if r.SubResource != "" || r.Operation != admissionv1.Update {
		return nil, nil
	}
	old, updated := &unstructured.Unstructured{}, &unstructured.Unstructured{}
	if err := old.UnmarshalJSON(r.OldObject.Raw); err != nil {
		return nil, fmt.Errorf("read old object: %w", err)
	}
	if err := updated.UnmarshalJSON(r.Object.Raw); err != nil {
		return nil, fmt.Errorf("read object: %w", err)
	}
	stored := hold.Decide(hold.Request{Operation: string(r.Operation), Username: r.UserInfo.Username, Old: old, New: updated})
	if stored == nil {
		return nil, nil
	}
	patch := diffObjects("", updated.Object, stored.Object, nil)
	return withRawManagers(patch, r.OldObject.Raw)
}
