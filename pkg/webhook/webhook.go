// Package webhook asks pkg/hold for the object that the API server must store after an update of an adopted workload. The API server calls it as an
// admission webhook. It is for clusters whose API server does not serve MutatingAdmissionPolicy; other clusters do not need it. It also refuses a second
// Rollout for one workload.
//
// The package decides nothing itself, denies no write of a workload, and writes nothing to workloads. Its one invariant: it answers a request that it
// cannot read with an error, and never permits it. So the failurePolicy of the webhook's configuration decides.
package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/hold"
)

// Path is the path to which the API server posts reviews of workloads, and PathRollout that for reviews of Rollouts.
const (
	Path        = "/hold"
	PathRollout = "/rollout"
)

// maxBody bounds one review, which holds an object twice.
const maxBody = 16 << 20

// ListRollouts returns the Rollouts of a namespace.
type ListRollouts func(ctx context.Context, namespace string) ([]*api.Rollout, error)

// Handler answers admission reviews.
type Handler struct {
	log     *slog.Logger
	reviews *prometheus.CounterVec
	list    ListRollouts
	// executor is the user name of the executors.
	executor string
}

// NewHandler makes a handler for an installation. Without a registerer it counts nothing.
func NewHandler(in api.Installation, log *slog.Logger, r prometheus.Registerer, list ListRollouts) *Handler {
	h := &Handler{log: log, list: list, executor: in.ExecutorUser(), reviews: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "sluice_webhook_reviews_total", Help: "Writes of workloads and of Rollouts that the webhook was asked about, by what it answered.",
	}, []string{"answer"})}
	if r != nil {
		r.MustRegister(h.reviews)
	}
	return h
}

// ServeHTTP answers one review.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	answerRequest := map[string]func(context.Context, *admissionv1.AdmissionRequest, *admissionv1.AdmissionResponse) (string, error){
		Path: h.answerWorkload, PathRollout: h.answerRollout,
	}[r.URL.Path]
	if r.Method != http.MethodPost || answerRequest == nil {
		http.Error(w, "post an AdmissionReview to "+Path+" or "+PathRollout, http.StatusNotFound)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	var answer []byte
	var what string
	if err == nil {
		answer, what, err = answerReview(body, func(in *admissionv1.AdmissionRequest, out *admissionv1.AdmissionResponse) (string, error) {
			return answerRequest(r.Context(), in, out)
		})
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
func answerReview(body []byte, answerRequest func(*admissionv1.AdmissionRequest, *admissionv1.AdmissionResponse) (string, error)) (answer []byte, what string, err error) {
	var in admissionv1.AdmissionReview
	if err := json.Unmarshal(body, &in); err != nil {
		return nil, "", fmt.Errorf("read admission review: %w", err)
	}
	if in.Request == nil || in.APIVersion != admissionv1.SchemeGroupVersion.String() {
		return nil, "", errors.New("read admission review: it is no request of admission.k8s.io/v1")
	}
	out := admissionv1.AdmissionReview{TypeMeta: in.TypeMeta, Response: &admissionv1.AdmissionResponse{UID: in.Request.UID, Allowed: true}}
	if what, err = answerRequest(in.Request, out.Response); err != nil {
		return nil, "", err
	}
	answer, err = json.Marshal(out)
	return answer, what, err
}

// answerWorkload holds and guards workloads.
func (h *Handler) answerWorkload(_ context.Context, in *admissionv1.AdmissionRequest, out *admissionv1.AdmissionResponse) (what string, err error) {
	patch, err := h.decidePatch(in)
	if err != nil || len(patch) == 0 {
		return "unchanged", err
	}
	kind := admissionv1.PatchTypeJSONPatch
	out.PatchType = &kind
	if out.Patch, err = json.Marshal(patch); err != nil {
		return "", fmt.Errorf("write patch: %w", err)
	}
	return "changed", nil
}

// decidePatch returns the patch that turns the request's object into the object to store.
func (h *Handler) decidePatch(r *admissionv1.AdmissionRequest) ([]operation, error) {
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
	stored := hold.Decide(hold.Request{Operation: string(r.Operation), Username: r.UserInfo.Username, Executor: h.executor, Old: old, New: updated})
	if stored == nil {
		return nil, nil
	}
	patch := diffObjects("", updated.Object, stored.Object, nil)
	return withRawManagers(patch, r.OldObject.Raw)
}
