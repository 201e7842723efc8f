package webhook

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"

	"sluice.dev/sluice/pkg/api"
)

// BenchmarkReview measures one review of a small workload, and of one with as many annotations as an API server accepts.
func BenchmarkReview(b *testing.B) {
	for _, n := range []int{3, 10000} {
		b.Run(fmt.Sprintf("%d annotations", n), func(b *testing.B) {
			annotations := map[string]string{"sluice.dev/rollout": "web"}
			for i := range n {
				annotations[fmt.Sprintf("a%05x", i)] = ""
			}
			text, err := json.Marshal(annotations)
			if err != nil {
				b.Fatal(err)
			}
			object := `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web","labels":{"rollouts.kruise.io/workload-type":"deployment"},"annotations":` +
				string(text) + `},"spec":{"replicas":1,"template":{"spec":%s}}}`
			body := []byte(reviewOf("UPDATE", fmt.Sprintf(object, `{}`), fmt.Sprintf(object, `{"x":1}`), ""))
			h := NewHandler(api.DefaultInstallation(), slog.New(slog.DiscardHandler), nil, nil)
			for b.Loop() {
				if _, what, err := answerReview(body, func(in *admissionv1.AdmissionRequest, out *admissionv1.AdmissionResponse) (string, error) {
					return h.answerWorkload(b.Context(), in, out)
				}); err != nil || what != "changed" {
					b.Fatal(what, err)
				}
			}
		})
	}
}
